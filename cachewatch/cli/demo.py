"""`cachewatch demo`: compare two revisions of a small repository, made of five real documents.

The later revision has the documents as they are. The earlier one is derived from them, because only one state of each
is bundled: the report shows the changes that `earlier` makes.
"""

import json
import shlex
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from cachewatch.cli.diff import diff
from cachewatch.cli.mistakes import examples
from cachewatch.cli.terminal import width
from cachewatch.core.names import CATALOGUE, DOCUMENT, TAGS_FILE
from cachewatch.documents.yaml import write_tags_file
from cachewatch.errors import UsageError
from cachewatch.git.recording import open_recording
from cachewatch.report.text import fitted
from cachewatch.runtime.files import demo_documents

Record = dict[str, Any]

_TAG = "develop"
_RECORDS = "spec_details: "
_WEEK = timedelta(days=7)
PUBLISHED = datetime(2025, 6, 1, 4, tzinfo=UTC)


def build(folder: Path, day: datetime = PUBLISHED) -> None:
    """Make the bare repository of the demo at `folder`, with revisions of `day` and a week before.

    `folder` must not exist yet. The list of tags names the stacks of both revisions for all tags, so that no stack
    disappears as a whole.
    """
    later = demo_documents()
    days = [(day - _WEEK, " (derived)", earlier(later)), (day, "", later)]
    stacks = set().union(*(_stacks(document) for _, _, documents in days for document in documents.values()))
    tags = {_TAG: stacks}
    for moment, remark, documents in days:
        tags[_snapshot(moment)] = stacks
        with open_recording(folder) as recording:
            for path, content in (_catalogue(documents, moment) | {TAGS_FILE: write_tags_file(tags)}).items():
                recording.write(path, content)
            recording.commit(f"Catalogue of {moment.day} {moment:%B}{remark}", moment)


def earlier(later: dict[str, bytes]) -> dict[str, bytes]:
    """Return the documents of a week before, derived from those of `later`; both are by package."""
    return {package: rewrite(document, _CHANGES[package]) for package, document in later.items() if package in _CHANGES}


def rewrite(document: bytes, change: Callable[[list[Record]], list[Record]]) -> bytes:
    """Return `document` with its records changed, and with `meta` computed from the new records."""
    lines = document.decode().split("\n")
    number, found = _records(lines)
    records = sorted(change(found), key=lambda record: str(record["hash"]))
    lines[number] = f"{_RECORDS}{json.dumps(records, sort_keys=True)}"
    return "\n".join(
        f"meta: {json.dumps(_meta(records), sort_keys=True)}" if line.startswith("meta: ") else line for line in lines
    ).encode()


def _records(lines: list[str]) -> tuple[int, list[Record]]:
    """Return the number of the line with the records of a document, and the records."""
    for number, line in enumerate(lines):
        if line.startswith(_RECORDS):
            return number, json.loads(line.removeprefix(_RECORDS))
    raise ValueError("not a document of the usual form")


def _catalogue(documents: dict[str, bytes], day: datetime) -> dict[str, bytes]:
    """Return the files of a revision: the documents in develop, and in a snapshot of that day."""
    snapshot = _snapshot(day)
    of_snapshot = f"categories: [package, {snapshot}]".encode()
    return {f"{CATALOGUE}/{_TAG}/{package}/{DOCUMENT}": document for package, document in documents.items()} | {
        f"{CATALOGUE}/{snapshot}/{package}/{DOCUMENT}": document.replace(b"categories: [package, develop]", of_snapshot)
        for package, document in documents.items()
    }


def _snapshot(day: datetime) -> str:
    return f"{_TAG}-{day:%Y-%m-%d}"


def _stacks(document: bytes) -> set[str]:
    return {stack for record in _records(document.decode().split("\n"))[1] for stack in record["stacks"]}


def _before_0_4_0(records: list[Record]) -> list[Record]:
    """Return the records of py-ml-dtypes when it had only 0.3.1."""
    return [record for record in records if record["versions"] == ["0.3.1"]]


def _before_rebuild(records: list[Record]) -> list[Record]:
    """Return the records with other hashes for CUDA, as if these specs had been rebuilt since."""
    return [_with_old_hash(record) if "ml-linux-x86_64-cuda" in record["stacks"] else record for record in records]


def _before_upgrade(records: list[Record]) -> list[Record]:
    """Return the records with py-build on neoverse_v1 at an older version, and one more stack for one other spec."""
    changed = [
        _with_old_hash(record) | {"versions": ["1.2.0"]} if record["target"] == "neoverse_v1" else record
        for record in records
    ]
    first = next(record for record in changed if "e4s" in record["stacks"])
    return [record | {"stacks": ["e4s", "radiuss", "root"]} if record is first else record for record in changed]


def _before_prune(records: list[Record]) -> list[Record]:
    """Return the records with the last binaries of an older py-safetensors, which were removed since."""
    darwin = [record for record in records if "ml-darwin-aarch64-mps" in record["stacks"]][:3]
    return records + [_with_old_hash(record) | {"versions": ["0.4.3"]} for record in darwin]


def _with_old_hash(record: Record) -> Record:
    return record | {"hash": str(record["hash"])[::-1]}


# py-keras is not among them: it is the package that was added.
_CHANGES = {
    "py-build": _before_upgrade,
    "py-gpytorch": _before_rebuild,
    "py-ml-dtypes": _before_0_4_0,
    "py-safetensors": _before_prune,
}


def _meta(records: list[Record]) -> Record:
    def values(name: str) -> list[str]:
        return sorted({record[name] for record in records})

    stacks = sorted({stack for record in records for stack in record["stacks"]})
    return {
        "compilers": values("compiler"),
        "num_specs": len(records),
        "num_specs_by_stack": {s: sum(s in record["stacks"] for record in records) for s in stacks},
        "oss": values("os"),
        "platforms": values("platform"),
        "stacks": stacks,
        "targets": values("target"),
        "versions": sorted({version for record in records for version in record["versions"]}),
    }


_BEFORE = """\
Five real documents of Spack's public build cache, and what they may have looked like a week before:
the earlier revision is derived from them, the later one is as published.

$ cachewatch diff HEAD~1 HEAD --tag develop --repo {repository}
"""

_AFTER = """
Where to go next:

  {keep}
  cachewatch tags
      lists what there is to compare
  cachewatch diff {before} {after}
      compares the same by dates, for all tags
  cachewatch diff HEAD:develop-{before} HEAD:develop-{after}
      says what moving to a newer snapshot means
  cachewatch diff HEAD~1 HEAD --stack 'ml-linux-*' --format json
      is for one team, and for a script
  cachewatch show py-build
      says what there is of one package, and where

`cachewatch diff --repo public` compares the newest two revisions of Spack's public build cache, after it has cloned its catalogue.
"""
_DEFAULT = "my-demo.git"


@click.command(epilog=examples("cachewatch demo", "cachewatch demo my-demo.git"))
@click.argument("folder", required=False, metavar="[FOLDER]")
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DAY",
    help="Day of the later revision.  [default: today]",
)
@click.pass_context
def demo(context: click.Context, /, *, folder: str | None, day: datetime | None) -> None:
    """Compare two revisions of a bundled sample catalogue, of today and of a week ago.

    The repository is kept in FOLDER, if given.
    """
    now = datetime.now(UTC)
    day = (
        day.replace(hour=4, tzinfo=UTC)
        if day
        else now.replace(hour=min(4, now.hour), minute=0, second=0, microsecond=0)
    )
    with tempfile.TemporaryDirectory(prefix="cachewatch-demo-") as temporary:
        repository = Path(folder or f"{temporary}/catalogue.git")
        if repository.exists():
            raise UsageError(f"{repository}: already exists; choose a folder that does not exist")
        build(repository, day)
        _echo(_BEFORE.format(repository=folder or "catalogue.git"))
        with diff.make_context(
            "diff", ["HEAD~1", "HEAD", "--tag", "develop", "--repo", str(repository)], parent=context
        ) as inner:
            status = _invoke(inner)
    before, after = (f"{each:%Y-%m-%d}" for each in (day - _WEEK, day))
    _echo(_AFTER.format(keep=_keep(folder), before=before, after=after))
    context.exit(status)


def _echo(text: str) -> None:
    click.echo("\n".join(fitted(text.splitlines(), width())))


def _keep(folder: str | None) -> str:
    """Return the command after which the other commands work as printed."""
    if folder is not None:
        return f"cd {shlex.quote(folder)}"
    return f"cachewatch demo {_DEFAULT} > /dev/null && cd {_DEFAULT}"


def _invoke(context: click.Context) -> int:
    try:
        diff.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0
