"""`cachewatch demo`: compare two revisions of a small repository, made of five real documents.

The later revision has the documents as they are. The earlier one is derived from them, because only one state of each
is bundled: the report shows the changes that `_before` makes.
"""

import json
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click

from cachewatch.cli.diff import diff
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.terminal import width
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, TAGS_FILE
from cachewatch.documents.front_matter_and_limits import write_tags_file
from cachewatch.environments import LOCK_FILE, LOCK_VERSIONS
from cachewatch.errors import UsageError
from cachewatch.git.writing_revisions import open_recording
from cachewatch.report.diff_blocks_and_colours import fitted
from cachewatch.runtime.files_and_locks import demo_documents

Record = dict[str, Any]

_TAG = "develop"
_WEEK = timedelta(days=7)
PUBLISHED = datetime(2025, 6, 1, 4, tzinfo=UTC)
# The packages that the lock file has, and the stack whose first build it has.
_LOCKED = {
    "py-build": "e4s-neoverse_v1",
    "py-gpytorch": "ml-linux-x86_64-cuda",
    "py-ml-dtypes": "e4s-neoverse_v1",
    "py-safetensors": "ml-linux-x86_64-cpu",
}


def build(folder: Path, day: datetime = PUBLISHED) -> None:
    """Make the bare repository of the demo at `folder`, with revisions of `day` and a week before, and a lock file.

    `folder` must not exist yet. The list of tags names the stacks of both revisions for all tags, so that no stack
    disappears as a whole.
    """
    later = demo_documents()
    # py-keras is the package that was added.
    earlier = {name: rewrite(each, partial(_before, name)) for name, each in later.items() if name != "py-keras"}
    days = [(day - _WEEK, " (derived)", earlier), (day, "", later)]
    records = [record for _, _, documents in days for each in documents.values() for record in _records(each)]
    stacks = {stack for record in records for stack in record["stacks"]}
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
    (folder / LOCK_FILE).write_text(json.dumps(_lock_of(earlier), indent=1) + "\n")


def _lock_of(documents: Mapping[str, bytes]) -> Record:
    """Return a lock file as Spack would have written it when the catalogue had `documents`."""
    nodes: dict[str, Record] = {}
    for package, stack in _LOCKED.items():
        record = next(each for each in _records(documents[package]) if stack in each["stacks"])
        variants = (each.partition("=") for each in record["variants"])
        name, _, version = record["compiler"].partition("@")
        compiler = {"compiler": {"name": name, "version": version}} if version else {}
        nodes[record["hash"]] = compiler | {
            "name": package,
            "version": record["versions"][0],
            "arch": {"platform": record["platform"], "platform_os": record["os"], "target": record["target"]},
            "namespace": "builtin",
            "parameters": {key.lstrip("+~"): value or key[0] == "+" for key, _, value in variants},
            "hash": record["hash"],
        }
    return {
        "_meta": {"file-type": "spack-lockfile", "lockfile-version": LOCK_VERSIONS[0], "specfile-version": 3},
        "roots": [{"hash": key, "spec": f"{node['name']}@{node['version']}"} for key, node in nodes.items()],
        "concrete_specs": nodes,
    }


def rewrite(document: bytes, change: Callable[[list[Record]], list[Record]]) -> bytes:
    """Return `document` with its records changed by `change`, and with `meta` computed from the new records."""
    records = sorted(change(_records(document)), key=lambda record: str(record["hash"]))
    new = {"meta": _meta(records), "spec_details": records}
    return re.sub(
        "^(meta|spec_details): .*$",
        lambda found: f"{found[1]}: {json.dumps(new[found[1]], sort_keys=True)}",
        document.decode(),
        flags=re.MULTILINE,
    ).encode()


def _records(document: bytes) -> list[Record]:
    (found,) = re.findall("^spec_details: (.*)$", document.decode(), re.MULTILINE)
    records: list[Record] = json.loads(found)
    return records


def _before(package: str, records: list[Record]) -> list[Record]:
    """Return the records that a package may have had a week before."""
    match package:
        case "py-ml-dtypes":  # which had only 0.3.1
            return [record for record in records if record["versions"] == ["0.3.1"]]
        case "py-gpytorch":  # whose specs for CUDA were rebuilt since
            return [_with_old_hash(each) if "ml-linux-x86_64-cuda" in each["stacks"] else each for each in records]
        case "py-build":  # with an older version on neoverse_v1, and one more stack for one other spec
            changed = [
                _with_old_hash(record) | {"versions": ["1.2.0"]} if record["target"] == "neoverse_v1" else record
                for record in records
            ]
            first = next(record for record in changed if "e4s" in record["stacks"])
            return [
                record | {"stacks": ["e4s", "radiuss", "root"]} if record is first else record for record in changed
            ]
        case _:  # py-safetensors, with the last binaries of an older version, which were removed since
            darwin = [record for record in records if "ml-darwin-aarch64-mps" in record["stacks"]][:3]
            return records + [_with_old_hash(record) | {"versions": ["0.4.3"]} for record in darwin]


def _with_old_hash(record: Record) -> Record:
    return record | {"hash": str(record["hash"])[::-1]}


def _meta(records: list[Record]) -> Record:
    def values(name: str) -> list[str]:
        found = [record[name] for record in records]
        return sorted(set(chain.from_iterable(each if isinstance(each, list) else [each] for each in found)))

    return {
        "compilers": values("compiler"),
        "num_specs": len(records),
        "num_specs_by_stack": {s: sum(s in record["stacks"] for record in records) for s in values("stacks")},
        "oss": values("os"),
        "platforms": values("platform"),
        "stacks": values("stacks"),
        "targets": values("target"),
        "versions": values("versions"),
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
  cachewatch coverage spack.lock
      says which binaries of an environment there are

`cachewatch diff --repo public` compares the newest two revisions of Spack's public build cache, after it has cloned its catalogue.
"""


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
        before = _BEFORE.format(repository=folder or "catalogue.git")
        click.echo("\n".join(fitted(before.splitlines(), width())))
        arguments = ["HEAD~1", "HEAD", "--tag", "develop", "--repo", str(repository)]
        with diff.make_context("diff", arguments, parent=context) as inner:
            status: int = diff.invoke(inner)
    keep = f"cd {shlex.quote(folder)}" if folder else "cachewatch demo my-demo.git > /dev/null && cd my-demo.git"
    after = _AFTER.format(keep=keep, before=f"{day - _WEEK:%Y-%m-%d}", after=f"{day:%Y-%m-%d}")
    click.echo("\n".join(fitted(after.splitlines(), width())))
    return status
