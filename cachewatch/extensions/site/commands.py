"""The command `cachewatch site`, which writes a static site of a catalogue and its history."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from msgspec.structs import replace

from cachewatch.cli.chosen_repository import open_catalogue
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.shared_options_and_filters import REPO_OPTION, completing, rev_option
from cachewatch.cli.terminal import JOBS_OPTION, ProgressLine, tell, warn_of
from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.sources_and_channels import FeedConfig
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.names_and_layouts import public_mirror
from cachewatch.extensions.history.build import IndexProgress, ask_index
from cachewatch.extensions.site.building_and_feeds import Folder, build
from cachewatch.extensions.site.package_page import Sources
from cachewatch.extensions.site.reading_history import ContentsReader, plan
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.report.digest_and_message_values import RenderedDigest
from cachewatch.store.digests_and_holds import archive
from cachewatch.store.transactions_and_sqlite import open_to_read


def _only(noun: str) -> Callable[[Any], Any]:
    help_line = f"Only these {noun}s; repeatable, !GLOB excludes."
    complete = completing(f"{noun}s")
    return click.option(f"--{noun}", multiple=True, metavar="GLOB", shell_complete=complete, help=help_line)


@examples("cachewatch site public_html", "cachewatch site public_html --tag develop --since 2025-06-01")
@click.command
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@REPO_OPTION
@rev_option("Newest revision, or a date.")
@click.option("--since", metavar="REVISION", show_default="first revision", help="Oldest revision, or a date.")
@_only("tag")
@_only("package")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Include the digests of those subscriptions in this configuration file that have `publish: true`.",
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
    digests, feeds = _digests(config_file) if config_file else ([], {})
    sources = Sources(mirror or public_mirror(repo or "") or "", package_page)
    repository = open_catalogue(repo, line)
    with closing(line), closing(repository):
        until = resolve(repository, rev)
        oldest = resolve(repository, since) if since else None
        planned = plan(repository, until, since=oldest, wanted_tag=Globs(tag), packages=Globs(package))
        known = target.remembered()
        catalogue = ask_index(
            repository,
            until.commit,
            lambda index: ContentsReader(repository, index, planned, known).read(jobs),
            jobs=jobs,
            progress=IndexProgress(line.begin, line.advance),
        )
    with closing(ProgressLine("writing pages", is_wanted=not no_progress)) as line:
        counts = build(target, catalogue, digests, feeds, title=title, sources=sources, jobs=jobs, progress=line.count)
    tell("{}: {:,} files written, {:,} unchanged, {:,} removed".format(folder, *counts))
    warn_of(catalogue.diagnostics, most=20)
    return 4 if any(diagnostic.is_loss for diagnostic in catalogue.diagnostics) else 0


def _digests(config_file: Path) -> tuple[list[RenderedDigest], dict[str, str]]:
    """Return the digests (no notices) of subscriptions with `publish: true`, and the addresses of their Atom feeds."""
    config = read_config(config_file, with_secrets=False)
    feeds = {}
    for name, subscription in config.subscriptions.items():
        if subscription.publish:
            channels = [config.channels[channel] for channel in subscription.channels]
            address = next((channel.url for channel in channels if isinstance(channel, FeedConfig)), None) or ""
            feeds[name] = address.replace("{subscription}", quote(name, safe=""))
    with closing(open_to_read(config.database)) as database, database.read() as connection:
        published = [one for one in archive(connection) if one.subscription in feeds and not one.rendered.is_notice]
    # A subscription may have another name now.
    return [replace(one.rendered, subscription=one.subscription) for one in published], feeds
