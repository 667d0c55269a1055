"""What `why` and `impact` print as JSON is what their schemas say."""

import json
from typing import Any

import jsonschema
import pytest
from conftest import Run
from truths import V3, History


def schema_of(run: Run, name: str) -> Any:
    """Return a schema as the program prints it."""
    return json.loads(run("help", "schema", name).output)


def check(run: Run, name: str, *arguments: object) -> dict[str, Any]:
    """Run a command, check its JSON, and return it."""
    result = run(name, *arguments, "--format", "json")
    assert (result.exit_code, result.error) == (0, "")
    found: dict[str, Any] = json.loads(result.output)
    jsonschema.validate(found, schema_of(run, name), cls=jsonschema.Draft202012Validator)
    return found


@pytest.mark.parametrize(
    ("asked", "members"),
    [
        (("/eegwaws",), {"spec", "predecessor", "causes"}),
        (("zlib",), {"spec", "predecessor", "causes"}),
        (("cw-torch", "--rev", V3[6]), {"package", "specs"}),
        (("cw-torch", "--between", V3[6], V3[6]), {"package", "specs"}),
        (("zlib", "--rev", V3[0]), {"package", "specs"}),
        (("--between", V3[7], V3[8]), {"causes"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_why(run: Run, histories: dict[str, History], asked: tuple[str, ...], members: set[str]) -> None:
    """One spec, several of a package, none, and all between two revisions."""
    history = histories["v3"]
    found = check(run, "why", *(history.revisions.get(word, word) for word in asked), "--repo", history.folder)

    assert found.keys() == {"schema", "recorded"} | members


@pytest.mark.parametrize(
    ("kind", "asked", "rebuilt"),
    [("v3", "zlib", (5, 9)), ("v3", "gcc", (8, 9)), ("v3", "cw-stack@2026.05", (0, 9)), ("v2", "zlib", (5, 8))],
)
def test_impact(run: Run, histories: dict[str, History], kind: str, asked: str, rebuilt: tuple[int, int]) -> None:
    """Of a library, of a compiler that is no binary, and of what nothing depends on."""
    place = ("--repo", histories[kind].folder, "--rev", histories[kind].revisions[V3[6]])
    found = check(run, "impact", asked, *place)
    assert (found["specs"], found["of_specs"]) == rebuilt
    assert sum(package["specs"] for package in found["packages"]) == found["specs"]
