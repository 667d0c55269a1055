"""One comparison as the peers do it: run as a script, by the Python that has the peers.

All documents are read at once through git's plumbing, and all are compared in one process,
which is faster than any way a person would put these libraries together.
"""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

Records = list[dict[str, Any]]
Hashes = tuple[list[str], list[str]]


def main() -> None:
    """Compare two revisions in the way that is named, and print the hashes that came and went."""
    way, git_dir, before, after = sys.argv[1:]
    compare = _WAYS[way]
    parse = import_module("frontmatter").loads
    answer: dict[str, Any] = {}
    for path, old, new in _pairs(git_dir, before, after):
        package = PurePosixPath(path).parent.name
        try:
            added, removed = compare(_records(parse, old), _records(parse, new))
            answer[package] = {"added": sorted(added), "removed": sorted(removed)}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            answer[package] = {"failed": f"{type(error).__name__}: {error}"}
    json.dump(answer, sys.stdout)


def _pairs(git_dir: str, before: str, after: str) -> list[tuple[str, str, str]]:
    """Return the path and both texts of every document that differs; a side without it is empty."""
    listed = _git(git_dir, "diff-tree", "-r", "--raw", "--no-renames", before, after)
    rows = [line.replace("\t", " ").split(" ") for line in listed.decode().splitlines() if line.endswith("/specs.md")]
    return [(row[5], _text(git_dir, row[2]), _text(git_dir, row[3])) for row in rows]


def _text(git_dir: str, object_id: str) -> str:
    return _git(git_dir, "cat-file", "blob", object_id).decode() if object_id.strip("0") else ""


def _git(git_dir: str, *arguments: str) -> bytes:
    return subprocess.run(["git", f"--git-dir={git_dir}", *arguments], check=True, capture_output=True).stdout


def _records(parse: Callable[[str], Any], text: str) -> Records:
    return list(parse(text)["spec_details"]) if text else []


def _only_read(old: Records, new: Records) -> Hashes:
    """Parse and no more."""
    return [], [str(len(old) + len(new))]


def _ignore_order(old: Records, new: Records) -> Hashes:
    """Use DeepDiff on both lists as sets; it pairs records that are alike."""
    tree = import_module("deepdiff").DeepDiff(old, new, ignore_order=True, view="tree")
    pairs = {}
    for levels in tree.values():
        for level in levels:
            record = level
            while record.up is not None and record.up.up is not None:
                record = record.up
            pairs[id(record.t1), id(record.t2)] = (_hash(record.t1), _hash(record.t2))
    return (
        [after for before, after in pairs.values() if after and after != before],
        [before for before, after in pairs.values() if before and after != before],
    )


def _hash(record: object) -> str | None:
    return str(record["hash"]) if isinstance(record, dict) else None


def _group_by(old: Records, new: Records) -> Hashes:
    """Use DeepDiff on both lists keyed by hash."""
    tree = import_module("deepdiff").DeepDiff(old, new, group_by="hash", view="tree")
    added = [level.path(output_format="list")[0] for level in tree.get("dictionary_item_added", ())]
    removed = [level.path(output_format="list")[0] for level in tree.get("dictionary_item_removed", ())]
    for level in tree.get("values_changed", ()):
        if not level.path(output_format="list"):
            # Where most is other, it says only that the one whole became the other.
            added += level.t2.keys() - level.t1.keys()
            removed += level.t1.keys() - level.t2.keys()
    return added, removed


def _csv_diff(old: Records, new: Records) -> Hashes:
    """Use csv-diff on both lists as its files of JSON, keyed by hash."""
    library = import_module("csv_diff")
    before, after = (library.load_json(io.StringIO(json.dumps(records)), key="hash") for records in (old, new))
    if not before or not after:
        return list(after), list(before)  # it needs a row on either side
    found = library.compare(before, after)
    return [row["hash"] for row in found["added"]], [row["hash"] for row in found["removed"]]


_WAYS: dict[str, Callable[[Records, Records], Hashes]] = {
    "frontmatter": _only_read,
    "ignore-order": _ignore_order,
    "group-by": _group_by,
    "csv-diff": _csv_diff,
}

if __name__ == "__main__":
    main()
