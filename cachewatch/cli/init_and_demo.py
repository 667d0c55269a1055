"""The commands to begin with: `init` writes a short, commented configuration file, `demo` compares a small repository.

The repository has two revisions of five real documents. The earlier one is made up, because only one state of each is
published: it lacks one of the packages, and the others have an older version, older hashes or another stack.
"""

import json
import os
import re
import shlex
import tempfile
from collections.abc import Collection
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from cachewatch.cli.diff_and_fail_on import diff
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.shared_options_and_filters import PUBLIC, in_full
from cachewatch.cli.terminal import tell, warn, width
from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.config.schedules_and_quiet_times import check_zone, parse_when
from cachewatch.config.sources_and_channels import PORTS
from cachewatch.config.value_types_and_secrets import check_name, parse_host, parse_mail
from cachewatch.core import names_and_layouts as names
from cachewatch.documents.recognition_and_front_matter import write_tags_file
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.environments import LOCK_FILE
from cachewatch.errors import CachewatchError, UsageError
from cachewatch.git.local_repository import Repository
from cachewatch.git.remote_urls_and_fetch_errors import is_url
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.tags_and_documents import tags_of
from cachewatch.git.trees import nothing_found
from cachewatch.git.writing_revisions import open_recording
from cachewatch.http.allowed_addresses import is_loopback
from cachewatch.report.diff_blocks_and_colours import fitted
from cachewatch.report.template_rendering import render
from cachewatch.runtime.files_and_locks import demo_documents, shipped_folder
from cachewatch.sources import folders_and_unreadable_files as folders


@examples(
    "cachewatch init --to you@example.org --smtp mail.example.org",
    "cachewatch init watch.yaml --source ../catalogue.git --when 'daily 07:30' --timezone Europe/Berlin",
)
@click.command
@click.argument("file", default="cachewatch.yaml", type=click.Path(path_type=Path))
@click.option(
    "--source",
    default=names.PUBLIC_REPOSITORY,
    metavar="URL",
    callback=in_full,
    help=f"Catalogue to watch: a git repository, or a folder of documents; `{PUBLIC}` is that of Spack's public build cache.",
)
@click.option("--documents", metavar="PATTERN", help="Where its documents are, if not found by what they are.")
@click.option(
    "--name",
    metavar="NAME",
    show_default="that of the repository or folder; public for Spack's public build cache",
    help="Name of the source.",
)
@click.option(
    "--since",
    metavar="REVISION",
    help="Revision or date from which to report; without it, the first run reports nothing.",
)
@click.option(
    "--state",
    metavar="DIR",
    show_default="state, beside FILE; below /etc: /var/lib/cachewatch",
    help="Folder for clones, cursors and deliveries.",
)
@click.option("--to", metavar="ADDRESS", help="Recipient of digests and alerts.")
@click.option("--from", "sender", metavar="ADDRESS", help="Sender; cachewatch@ the domain of --to if omitted.")
@click.option("--smtp", default="localhost", metavar="HOST[:PORT]", help="Mail server.")
@click.option("--when", default="weekly mon 07:30", metavar="WHEN", help="When digests are due.")
@click.option("--timezone", default="UTC", metavar="ZONE", help="Time zone of --when.")
def init(*, file: Path, **options: Any) -> None:
    """Write a short, commented configuration file.

    FILE is ./cachewatch.yaml if omitted, and must not exist.
    """
    # The file names the folder for the state, so that all commands use the same.
    usual = "/var/lib/cachewatch" if Path("/etc") in file.absolute().parents else "state"
    state = usual if options["state"] is None else str(Path(options["state"]).absolute())
    text = render("cachewatch.yaml.j2", **_values(options), state=json.dumps(state))
    try:
        with open(file, "x", encoding="utf-8", opener=partial(os.open, mode=0o640)) as opened:
            opened.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file}: already exists; choose another file name, or remove it") from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
    try:
        config = read_config(file)
    except UsageError as error:
        file.unlink()
        raise UsageError(f"these options do not produce a valid configuration:\n{error}") from error
    for source in config.sources.values():
        if not is_url(source.address) and not Path(source.address).exists():
            warn(f"{source.address}: there is no such repository or folder yet; `cachewatch once` fails until there is")
    # With `-C`, a relative name is not found from where the next command will be typed.
    written = file.absolute() if click.get_current_context().find_root().params.get("folder") else file
    tell(f"{written}: written; state will be stored in {config.state}. Edit the file, then run")
    tell(f"  cachewatch config check --config {shlex.quote(str(written))}")
    if options["source"] == names.PUBLIC_REPOSITORY:
        tell(f"`cachewatch once` will fetch {names.PUBLIC_REPOSITORY}; --source names another catalogue.")


def _values(options: dict[str, Any]) -> dict[str, Any]:
    """Check `options`, and return the values for the template of the configuration file, quoted for YAML."""
    zone = check_zone(options["timezone"])
    parse_when(options["when"], zone)
    host, port = _server(options["smtp"])
    security = "none" if is_loopback(host) else "tls" if port == PORTS["tls"] else "starttls"
    to, source, since, documents = (options[name] for name in ("to", "source", "since", "documents"))
    domain = parse_mail(to).rpartition("@")[2] if to else ""
    is_local = Path(source).exists()
    layout = names.Layout.parse(documents) if documents else names.ANYWHERE
    tags = _look(source, layout, since) if is_local else [names.DEFAULT_TAG]
    return {
        "timezone": zone,
        "source_name": check_name(options["name"] or _name_of(source)),
        "source": json.dumps(str(Path(source).resolve()) if is_local else source),
        "since": json.dumps(since) if since else "",
        "documents": json.dumps(documents) if documents else "",
        "tags": f"[{names.DEFAULT_TAG}]" if names.DEFAULT_TAG in tags or not tags else '["*"]',
        "every": "1m" if is_local else "1h",
        "to": to,
        "sender": json.dumps(options["sender"] or f"Cachewatch <cachewatch@{domain}>", ensure_ascii=False),
        "host": json.dumps(host),
        "port": port or PORTS[security],
        "security": security,
        "when": json.dumps(options["when"]),
    }


def _name_of(source: str) -> str:
    if source == names.PUBLIC_REPOSITORY:
        return PUBLIC
    path = Path(source).resolve() if Path(source).exists() else Path(source.rstrip("/"))
    name = (path.parent if path.name == ".git" else path).name.removesuffix(".git")
    return re.sub(r"^[^A-Za-z0-9]+|[^\w.-]+", "-", name, flags=re.ASCII).strip("-._")[:64] or "catalogue"


def _look(source: str, layout: names.Layout, since: str | None) -> Collection[str]:
    """Return the tags of a local `source`; warn if it has none. Raises UsageError if it lacks the revision `since`."""
    try:
        if folders.is_plain(Path(source)):
            if since:
                raise UsageError(f"{source} is a folder, which has no revisions; leave out --since")
            return {listing.side.tag or names.DEFAULT_TAG for listing in folders.list_path(source, layout)}
        with closing(Repository(Path(source), layout)) as repository:
            newest = resolve(repository, "HEAD")
            resolve(repository, since or "HEAD")
            if tags := tags_of(repository, newest).ids:
                return tags
            warn(f"{source}: {nothing_found(repository, newest.commit, 'HEAD')}")
    except CachewatchError as error:
        if since and isinstance(error, UsageError):
            raise UsageError(f"--since {since}: {error}") from error
        if since:
            raise
        warn(str(error))
    return ()


def _server(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return parse_host(text), None
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"--smtp {text}: write HOST or HOST:PORT")
    return parse_host(host.removeprefix("[").removesuffix("]")), int(port)


_WEEK = timedelta(days=7)
PUBLISHED = datetime(2025, 6, 1, 4, tzinfo=UTC)


def build_demo(folder: Path, day: datetime = PUBLISHED) -> None:
    """Make the bare repository `folder` with revisions of `day` and of a week before, and put a lock file into it."""
    days = [(day - _WEEK, " (derived)", demo_documents("week-before")), (day, "", demo_documents())]
    contents = [content for _, _, documents in days for content in documents.values()]
    stacks = {stack for content in contents for stack in parse(content, names.DOCUMENT).facts["stacks"]}
    tags = {names.DEFAULT_TAG: stacks}
    for moment, remark, documents in days:
        snapshot = f"{names.DEFAULT_TAG}-{moment:%Y-%m-%d}"
        tags[snapshot] = stacks
        with open_recording(folder) as recording:
            for package, document in documents.items():
                recording.write(f"{names.CATALOGUE}/{names.DEFAULT_TAG}/{package}/{names.DOCUMENT}", document)
                own = document.replace(b"[package, develop]", f"[package, {snapshot}]".encode())
                recording.write(f"{names.CATALOGUE}/{snapshot}/{package}/{names.DOCUMENT}", own)
            recording.write(names.TAGS_FILE, write_tags_file(tags))
            recording.commit(f"Catalogue of {moment.day} {moment:%B}{remark}", moment)
    (folder / LOCK_FILE).write_bytes((shipped_folder() / "demo" / LOCK_FILE).read_bytes())


@examples("cachewatch demo", "cachewatch demo my-demo.git")
@click.command
@click.argument("folder", required=False, metavar="[FOLDER]")
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DAY",
    help="Day of the later revision.  [default: today]",
)
@click.pass_context
def demo(context: click.Context, /, *, folder: str | None, day: datetime | None) -> int:
    """Compare two revisions of a bundled sample catalogue, of today and of a week ago.

    The repository is kept in FOLDER, if given, with a small spack.lock for `coverage` and `history best`.
    """
    now = datetime.now(UTC)
    today = now.replace(hour=min(4, now.hour), minute=0, second=0, microsecond=0)
    day = day.replace(hour=4, tzinfo=UTC) if day else today
    with tempfile.TemporaryDirectory(prefix="cachewatch-demo-") as temporary:
        repository = Path(folder or f"{temporary}/catalogue.git")
        if repository.exists():
            raise UsageError(f"{repository}: already exists; choose a folder that does not exist")
        build_demo(repository, day)
        _print(repository=folder or "catalogue.git", is_before=True)
        arguments = ["HEAD~1", "HEAD", "--tag", names.DEFAULT_TAG, "--repo", str(repository)]
        with diff.make_context("diff", arguments, parent=context) as inner:
            status: int = diff.invoke(inner)
    keep = f"cd {shlex.quote(folder)}" if folder else "cachewatch demo my-demo.git > /dev/null && cd my-demo.git"
    _print(keep=keep, before=f"{day - _WEEK:%Y-%m-%d}", after=f"{day:%Y-%m-%d}", is_before=False)
    return status


def _print(**values: Any) -> None:
    click.echo("\n".join(fitted(render("demo.txt.j2", **values).splitlines(), width())))
