"""Real pairs of documents with the right answer worked out by hand, both ways round, through the command line."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import Run

from cachewatch.runtime.files_and_locks import shipped_schemas

SCHEMA = json.loads(shipped_schemas()["changesets"].read_text("utf-8"))


@dataclass(frozen=True)
class Truth:
    """What happened between two documents; hashes by their first seven characters."""

    before: str
    after: str
    added: str = ""
    removed: str = ""
    rebuilt: int = 0
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)  # added, removed
    stack_versions: tuple[tuple[str, str, str, str], ...] = ()


TRUTHS = {
    "A1 order only": Truth("rocblas/1-efe6471e", "rocblas/2-fe793f9f"),
    "A2 another tag": Truth("attr/1-ae49e0e7", "attr/2-c314ddb3"),
    "B1 two more of the same": Truth("apfel/1-0082aed8", "apfel/2-79ad67fe", added="angyhr2 dhhe2e3"),
    "E1 all rebuilt, compilers respelled": Truth(
        "attr/2-c314ddb3", "attr/3-0082aed8", added="lbvnxoq b2nzeks", removed="7yp7fys ual6v6d", rebuilt=2
    ),
    "E5 oldest to newest layout": Truth(
        "aida/1-9fdccfaf", "aida/2-0082aed8", added="zjpj5ai", removed="g77poef hqzyxyj t4gkzgb", rebuilt=1
    ),
    "F1 a version comes": Truth(
        "rocblas/3-fe4a18c0",
        "rocblas/4-c006bfc8",
        added="aa7swt5 rqh5rum jfbb5yp",
        removed="htuwk4s zl3oeif ohonqab",
        rebuilt=1,
        facts={"versions": ("6.4.0", ""), "variants": ("patches=ad23cca,b56ee82", "")},
        stack_versions=(
            ("e4s", "6.3.3", "6.4.0", "upgrade"),
            ("ml-linux-x86_64-rocm", "6.3.3", "6.3.3 6.4.0", "upgrade"),
        ),
    ),
    "G1 a stack's pipeline fails": Truth(
        "py-build/1-b58e819c",
        "py-build/2-fe4a18c0",
        added="itppxww bfvz6yg lxiiwoa ffrgtbi xaav2fd",
        removed="5msxyyk akfgsn7 vdb342b xb4sbei xhplngz",
        rebuilt=4,
        facts={"stacks": ("", "ml-linux-aarch64-cpu")},
        stack_versions=(("ml-linux-aarch64-cpu", "1.2.2", "", "removed"),),
    ),
}

BACKWARDS = {"upgrade": "downgrade", "added": "removed", "removed": "added"}


def reverse(truth: Truth) -> Truth:
    facts = {name: (went, came) for name, (came, went) in truth.facts.items()}
    versions = tuple((stack, new, old, BACKWARDS[way]) for stack, old, new, way in truth.stack_versions)
    return Truth(truth.after, truth.before, truth.removed, truth.added, truth.rebuilt, facts, versions)


def changeset(run: Run, before: object, after: object) -> dict[str, Any]:
    """Return the one changeset of two documents, checked against the schema."""
    found = json.loads(run("diff", before, after, "--format", "json").output_of(0))
    jsonschema.validate(found, SCHEMA)
    (only,) = found["changesets"]
    return only  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_reversed", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("name", TRUTHS)
def test_truth(run: Run, documents: Path, name: str, is_reversed: bool) -> None:
    truth = reverse(TRUTHS[name]) if is_reversed else TRUTHS[name]
    found = changeset(run, documents / f"{truth.before}.md", documents / f"{truth.after}.md")
    if not (truth.added or truth.removed):
        assert found["packages"] == []
        return

    (package,) = found["packages"]
    specs = package["specs"]
    assert {spec["hash"][:7] for spec in specs["added"]} == set(truth.added.split())
    assert {spec["hash"][:7] for spec in specs["removed"]} == set(truth.removed.split())
    assert specs["rebuilt"] == truth.rebuilt
    assert specs["net_added"] == len(truth.added.split()) - truth.rebuilt
    assert specs["net_removed"] == len(truth.removed.split()) - truth.rebuilt
    for fact in ("versions", "stacks", "compilers", "oses", "platforms", "targets", "variants"):
        came, went = truth.facts.get(fact, ("", ""))
        assert package[fact] == {"added": came.split(), "removed": went.split()}, fact
    judged = package["stack_versions"]
    told = [(one["stack"], " ".join(one["before"]), " ".join(one["after"]), one["direction"]) for one in judged]
    assert told == list(truth.stack_versions)


@pytest.mark.parametrize(
    ("before", "after"),
    [("cub/1-a083123a", "cub/2-84edadc4"), ("aml/1-67ef5004", "aml/2-2bf99ddf"), ("aml/2-2bf99ddf", "aml/1-67ef5004")],
)
def test_documents_without_hashes_are_not_comparable(run: Run, documents: Path, before: str, after: str) -> None:
    """A document of 2022 gives one warning, and nothing is said to be added."""
    result = run("diff", documents / f"{before}.md", documents / f"{after}.md", "--format", "json")

    assert result.exit_code == 4
    (found,) = json.loads(result.output)["changesets"]
    (warning,) = found["warnings"]
    assert warning["kind"] == "not-comparable"
    assert found["packages"] == []
    assert found["summary"]["specs"]["added"] == 0
    assert result.error.count("\n") == 1


def test_no_real_document_differs_from_itself(run: Run, documents: Path) -> None:
    for file in sorted(documents.glob("*/*.md")):
        if f"{file.parent.name}/{file.name[0]}" not in {"cub/1", "cub/2", "aml/1"}:
            assert changeset(run, file, file)["packages"] == []
