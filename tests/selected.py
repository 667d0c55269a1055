"""Random states of a tag, and what a selection is told of them."""

import random
from pathlib import Path
from typing import Any

from helpers import catalogue
from pairs import some_pair

from cachewatch.comparison_flow import changesets
from cachewatch.core.changesets import Changeset, Comparison
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.tags_and_documents import compare_revisions
from cachewatch.report.digest_and_message_values import TagDigest
from cachewatch.report.digests.data_for_templates import DigestCollector, read_tag_digest

PACKAGES = ("hdf5", "llvm", "openmpi", "py-numpy", "zlib", "zstd")
UNREADABLE = b"---\nspec_details: [\n---"


def everything(*_: object) -> bool:
    return True


def collector() -> DigestCollector:
    return DigestCollector(everything)


def states(seed: int) -> list[dict[str, bytes]]:
    """Return two states of a catalogue, in which some packages come, go, or cannot be read."""
    chance = random.Random(seed)
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for package in PACKAGES:
        for side, records in zip(found, some_pair(chance), strict=True):
            if chance.random() < 0.9:
                side[package] = records
    files = [catalogue(side) for side in found]
    for side in files:
        if chance.random() < 0.3:
            side[f"_cache/develop/{chance.choice(PACKAGES)}/specs.md"] = UNREADABLE
    return files


def compared(folder: Path, selection: Selection) -> Comparison:
    repository = Repository(folder)
    ends = (resolve(repository, name) for name in ("main~1", "main"))
    return compare_revisions(repository, *ends, wanted_tag=everything, wanted_package=selection.packages)


def digest_of(changeset: Changeset) -> TagDigest:
    return read_tag_digest(changeset, wants=everything)


def alone(folder: Path, selection: Selection) -> TagDigest:
    (changeset,) = changesets(compared(folder, selection), selection, collector)
    return digest_of(changeset)
