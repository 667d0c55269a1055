"""`cachewatch demo`: compare two revisions of a small repository, made of five real documents.

The earlier revision is made up, because only one state of each is published: it lacks one of the packages, and the
others have an older version, older hashes or another stack.
"""

import shlex
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from cachewatch.cli.diff import diff
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.terminal import width
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, TAGS_FILE
from cachewatch.documents.front_matter_and_limits import write_tags_file
from cachewatch.documents.parsing_and_diagnostics import parse
from cachewatch.environments import LOCK_FILE
from cachewatch.errors import UsageError
from cachewatch.git.writing_revisions import open_recording
from cachewatch.report.diff_blocks_and_colours import fitted
from cachewatch.report.template_rendering import render
from cachewatch.runtime.files_and_locks import demo_documents, shipped_folder

_TAG = "develop"
_WEEK = timedelta(days=7)
PUBLISHED = datetime(2025, 6, 1, 4, tzinfo=UTC)


def build(folder: Path, day: datetime = PUBLISHED) -> None:
    """Make the bare repository `folder` with revisions of `day` and of a week before, and put a lock file into it."""
    days = [(day - _WEEK, " (derived)", demo_documents("week-before")), (day, "", demo_documents())]
    contents = [content for _, _, documents in days for content in documents.values()]
    stacks = {stack for content in contents for stack in parse(content, DOCUMENT).facts["stacks"]}
    tags = {_TAG: stacks}
    for moment, remark, documents in days:
        snapshot = f"{_TAG}-{moment:%Y-%m-%d}"
        tags[snapshot] = stacks
        with open_recording(folder) as recording:
            for package, document in documents.items():
                recording.write(f"{CATALOGUE}/{_TAG}/{package}/{DOCUMENT}", document)
                own = document.replace(b"[package, develop]", f"[package, {snapshot}]".encode())
                recording.write(f"{CATALOGUE}/{snapshot}/{package}/{DOCUMENT}", own)
            recording.write(TAGS_FILE, write_tags_file(tags))
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
        build(repository, day)
        _print(repository=folder or "catalogue.git", is_before=True)
        arguments = ["HEAD~1", "HEAD", "--tag", "develop", "--repo", str(repository)]
        with diff.make_context("diff", arguments, parent=context) as inner:
            status: int = diff.invoke(inner)
    keep = f"cd {shlex.quote(folder)}" if folder else "cachewatch demo my-demo.git > /dev/null && cd my-demo.git"
    _print(keep=keep, before=f"{day - _WEEK:%Y-%m-%d}", after=f"{day:%Y-%m-%d}", is_before=False)
    return status


def _print(**values: Any) -> None:
    click.echo("\n".join(fitted(render("demo.txt.j2", **values).splitlines(), width())))
