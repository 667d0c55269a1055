"""The command `cachewatch site`, which writes a static site of a catalogue and its history."""

from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlsplit

import click

from cachewatch.cli.catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.config import load
from cachewatch.cli.mistakes import completing, examples
from cachewatch.cli.terminal import JOBS_OPTION, ProgressLine, warn, warn_of
from cachewatch.config.channels import FeedConfig
from cachewatch.config.model import Config
from cachewatch.core.selection import Globs
from cachewatch.core.spack import public_mirror
from cachewatch.errors import UsageError
from cachewatch.extensions.history.build import IndexProgress, ask_index
from cachewatch.extensions.site.building import ArchivedDigest, Folder, archived_digests, build
from cachewatch.extensions.site.packages import Sources
from cachewatch.extensions.site.reading import plan, read
from cachewatch.git.revisions import resolve

_MOST_WARNINGS = 20


@examples("cachewatch site public_html", "cachewatch site public_html --tag develop --since 2025-06-01")
@click.command
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@REPO_OPTION
@click.option(
    "--rev",
    default="HEAD",
    metavar="REVISION",
    shell_complete=completing("revisions"),
    help="Newest revision, or a date.",
)
@click.option("--since", metavar="REVISION", show_default="first revision", help="Oldest revision, or a date.")
@click.option(
    "--tag",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing("tags"),
    help="Only these tags; repeatable, !GLOB excludes.",
)
@click.option(
    "--package",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing("packages"),
    help="Only these packages; repeatable, !GLOB excludes.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Include the digests of those subscriptions in this configuration file that have `publish: true`.",
)
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    show_default="`state:` of the configuration file",
    help="State folder that holds the digests; takes --config.",
)
@click.option(
    "--feed",
    metavar="ADDRESS",
    show_default="`url:` of the feed channel",
    help="Address of the Atom feeds of digests; {subscription} is replaced by the name.",
)
@click.option(
    "--mirror",
    metavar="ADDRESS",
    show_default="known for the public catalogue only",
    help="Build cache that Spack installs from; {tag} is replaced by the tag.",
)
@click.option(
    "--package-page",
    default="https://packages.spack.io/package.html?name={package}",
    show_default=True,
    metavar="ADDRESS",
    help="Page about a package to link to; {package} is replaced by the name. Empty for no links.",
)
@click.option("--title", default="Build cache", metavar="TEXT", help="Title of the site.")
@click.option("--no-progress", is_flag=True, help="Do not show a progress bar.")
@JOBS_OPTION
def site(
    *,
    folder: Path,
    repo: str | None,
    rev: str,
    since: str | None,
    tag: tuple[str, ...],
    package: tuple[str, ...],
    config_file: Path | None,
    state: Path | None,
    feed: str | None,
    mirror: str | None,
    package_page: str,
    title: str,
    no_progress: bool,
    jobs: int,
) -> int:
    """Generate a static site about a catalogue and its history.

    DIR receives a page for each package, stack and tag, readable through a web server or from the disk. Data
    and pages that have not changed since the last run are neither read nor written again.
    """
    line = ProgressLine("indexing", is_wanted=not no_progress)
    target = Folder(folder)
    digests = _digests(config_file, state, feed)
    sources = Sources(mirror or public_mirror(repo or "") or "", package_page)
    repository = open_catalogue(repo, line)
    with closing(line), closing(repository):
        until = resolve(repository, rev)
        planned = plan(
            repository,
            until,
            since=resolve(repository, since) if since else None,
            wanted_tag=Globs(tag),
            packages=Globs(package),
        )
        known = target.remembered()
        catalogue = ask_index(
            repository,
            until.commit,
            lambda index: read(repository, index, planned, known, jobs=jobs),
            jobs=jobs,
            progress=IndexProgress(line.begin, line.advance),
            warn=warn,
        )
    with closing(ProgressLine("writing pages", is_wanted=not no_progress)) as line:
        built = build(target, catalogue, digests, title=title, sources=sources, jobs=jobs, progress=line.count)
    click.echo(
        f"{folder}: {built.written:,} files written, {built.kept:,} unchanged, {built.removed:,} removed", err=True
    )
    warn_of(catalogue.diagnostics, most=_MOST_WARNINGS)
    return 4 if any(diagnostic.is_loss for diagnostic in catalogue.diagnostics) else 0


def _digests(config_file: Path | None, state: Path | None, feed: str | None) -> list[ArchivedDigest]:
    """Return the digests that may be published: of subscriptions with `publish: true` in the configuration file."""
    if config_file is None:
        if state is not None or feed is not None:
            raise UsageError(
                "--state and --feed take --config FILE: only digests of subscriptions with `publish: true` are shown"
            )
        return []
    config = load(config_file, with_secrets=False)
    published = {name for name, subscription in config.subscriptions.items() if subscription.publish}
    feeds = {name: address for name in published if (address := _feed_of(name, config, feed))}
    return archived_digests(state or config.database, published.__contains__, feeds.get)


def _feed_of(subscription: str, config: Config, address: str | None) -> str | None:
    """Return the address of the Atom feed of a subscription, or None if it has no feed.

    `address` is the option `--feed`, which takes the place of the address in the configuration.
    """
    channels = [config.channels[name] for name in config.subscriptions[subscription].channels]
    feeds = [channel for channel in channels if isinstance(channel, FeedConfig)]
    found = (address or feeds[0].url) if feeds else None
    if found and urlsplit(found).scheme not in ("", "http", "https"):
        raise UsageError(f"--feed {found}: neither a path from the site nor an http(s) address")
    return found.replace("{subscription}", quote(subscription, safe="")) if found else None
