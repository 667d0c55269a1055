"""A sample digest and a sample notice, with which templates are tried."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from cachewatch.core import kinds_and_specs as specs
from cachewatch.core.advice.environment_coverage import (
    Coverage,
    CoverageChange,
    Environment,
    Nearest,
    Need,
    Resolution,
    compare_coverage,
)
from cachewatch.core.advice.verbs_and_reasons import Pinned
from cachewatch.core.changesets import Report
from cachewatch.core.statement_kinds import Counts, Line, OwnedLoss, Statement, StatementKind, Story
from cachewatch.report import digest_and_message_values as values

_BEGIN = datetime(2025, 5, 25, 4, tzinfo=UTC)
_END = datetime(2025, 6, 1, 4, tzinfo=UTC)
_CREATED = _END + timedelta(hours=3)
_BEFORE = specs.Side(
    name="HEAD~1", revision="6001b266be8082e57c6d4732024ae09508c1101a", tag="develop", time="2025-05-25T04:00:00Z"
)
_AFTER = specs.Side(
    name="HEAD", revision="1afa5ee7584b8a73efd0282719f02952eefa5964", tag="develop", time="2025-06-01T04:00:00Z"
)


def sample_digest() -> values.Digest:
    """Return a made-up digest that contains everything that templates can show."""
    span = values.Span(
        source="public",
        address="https://github.com/spack/cache.spack.io.git",
        before=_BEFORE,
        after=_AFTER,
        revisions=5,
        newest=_END,
        checked=_CREATED,
        gaps=(values.Outage(_BEGIN + timedelta(days=1), _BEGIN + timedelta(days=4)),),
        notes=(values.Note("sample"),),
    )
    move = _environment()
    pinned = Pinned(
        tag="develop-2025-05-18", source="public", newer=2, is_ending=True, newest="develop-2025-06-01", move=move
    )
    return values.Digest(
        key="0" * 64,
        subscription="sample",
        description="a sample",
        is_sample=True,
        created=_CREATED,
        period="2025-05-25..2025-06-01",
        spans=(span,),
        tags=(_tag(),),
        environment=move,
        pinned=(pinned,),
        silenced=(values.Silenced("llvm", 3, "migration, ask Kim", "2026-12-01"),),
        why=("tags develop", "packages py-*"),
        commands=("cachewatch diff 6001b266be 1afa5ee758 --tag develop",),
        archive_url="https://hpc.example.org/cachewatch/sample/2025-06-01.html",
        unsubscribe="mailto:cachewatch+unsubscribe@hpc.example.org?subject=sample",
        operator="hpc-software@example.org",
        links="https://cache.spack.io",
    )


def _environment() -> CoverageChange:
    versions = {"cuda": "12.8.0", "hdf5": "1.14.6", "openmpi": "5.0.7", "py-torch": "2.7.0", "zlib": "1.3.1"}
    cuda, hdf5, openmpi, torch, zlib = needs = tuple(
        Need(package=name, version=version, hash=letter * 32, os="ubuntu22.04", is_root=name == "py-torch")
        for (name, version), letter in zip(versions.items(), "abfcd", strict=True)
    )
    environment = Environment(name="/srv/envs/ml/spack.lock", needs=needs, externals=1)
    before = *(Resolution(need, Nearest.SAME) for need in needs[:4]), Resolution(zlib, Nearest.NONE)
    after = (
        Resolution(cuda, Nearest.NONE, versions=("12.9.0",), elsewhere=("linux-ubuntu22.04-neoverse_v1",)),
        Resolution(hdf5, Nearest.EQUAL, others=("e" * 32,)),
        Resolution(openmpi, Nearest.SIMILAR, others=("g" * 32,), differs=("variants ~cuda",), without=("+cuda",)),
        Resolution(torch, Nearest.SAME, after_prune=Nearest.EQUAL),
        Resolution(zlib, Nearest.SAME),
    )
    return compare_coverage(Coverage(environment, before), Coverage(environment, after))


def sample_notice() -> values.Notice:
    """Return a made-up notice to operators."""
    return values.Notice(
        key="1" * 64,
        created=_CREATED,
        title="Source public cannot be read",
        said=("This is a sample: all is well.", "The last three attempts failed: connection timed out."),
        facts=(("last success", "1 June 2025 04:00 UTC"), ("next attempt", "1 June 2025 08:00 UTC")),
        remedy="Nothing if it ends by itself; digests wait, and none is lost.",
        commands=("cachewatch status",),
        operator="hpc-software@example.org",
    )


def _tag() -> values.TagDigest:
    machine = specs.Machine("linux", "ubuntu22.04", "x86_64_v3")
    return values.TagDigest(
        source="public",
        report=Report(
            before=_BEFORE,
            after=_AFTER,
            revisions_between=5,
            packages=specs.PackageCounts(before=1250, after=1250, added=1, removed=1, changed=9, rebuilt_only=1),
            specs=specs.SpecCounts(
                before=400,
                after=397,
                added=60,
                removed=63,
                rebuilt=40,
                moved=2,
                upgraded=3,
                downgraded=1,
                recompiled=4,
                reconfigured=1,
                new=9,
                gone=12,
                net_added=20,
                net_removed=23,
                unreferenced=2,
            ),
            events=(
                specs.Event(specs.Kind.STACK_REMOVED, "ml-linux-aarch64-cpu", 312, 480),
                specs.Event(specs.Kind.COMPILER, "gcc@11.4.0 -> gcc@13.2.0", 214, 950),
            ),
            diagnostics=(
                specs.Diagnostic(
                    "_cache/develop/apfel/specs.md", specs.DiagnosticKind.UNREADABLE, "ends in the middle of a record"
                ),
            ),
        ),
        statements=tuple(_statements()),
        rest=(_of(StatementKind.REBUILT, "py-gpytorch", Counts(40, 40)),),
        versions={"py-build": specs.Delta(("1.2.1",), ("1.2.0",))},
        examples=(values.Example(package="py-keras", version="3.9.2", stacks=("e4s",), machines=(machine,)),),
    )


_X86 = frozenset({specs.Place("e4s", "x86_64_v3"), specs.Place("ml-linux-x86_64-cpu", "x86_64_v3")})
_SOME = tuple(f"py-package-{number}" for number in range(12))


def _statements() -> Iterator[Statement]:
    """Yield a statement of nearly every kind, most important first."""
    kinds = StatementKind
    whole = Statement(kind=kinds.PRUNE, packages=_SOME, stacks=("e4s", "radiuss"))
    gcc, stack, lost = "gcc@11.4.0", "ml-linux-aarch64-cpu", specs.Place("ml-darwin-aarch64-mps", "aarch64")
    yield replace(
        whole, kind=kinds.STACK_REMOVED, name=stack, counts=Counts(480), kinds=frozenset({specs.Kind.STACK_EVENT})
    )
    yield replace(
        whole,
        kind=kinds.MIGRATION,
        name=f"{gcc} -> gcc@13.2.0",
        before=(gcc,),
        after=("gcc@13.2.0",),
        counts=Counts(950, 950),
        kinds=frozenset({specs.Kind.COMPILER}),
        exceptions=("cuda", "hdf5"),
    )
    yield replace(whole, counts=Counts(2730), kinds=frozenset({specs.Kind.PRUNE}))
    gone = _lost("py-old", specs.Place("e4s", "x86_64_v3"), "1.0", specs.LossClass.GONE)
    yield _of(kinds.PACKAGE_REMOVED, "py-old", Counts(5), "1.0", losses=(gone,))
    yield _of(kinds.DOWNGRADED, "rocblas", Counts(1, 1), "6.4.0", "6.2.4")
    yield _of(kinds.UPGRADED, "py-build", Counts(3, 3), "1.2.0", "1.2.1", behind=(("radiuss", "1.2.0"),))
    older = frozenset(("0.3.1", place) for place in _X86)
    yield _of(kinds.UPGRADED, "py-ml-dtypes", Counts(0, 3), "0.3.1", "0.4.0", stays=older)
    yield _of(kinds.PACKAGE_ADDED, "py-keras", Counts(0, 6), after="3.9.2")
    names = ("py-safetensors", *_SOME)
    first = _of(kinds.PLACE_LOST, names[0], Counts(1), "0.4.3", places=frozenset({lost}))
    yield replace(
        first,
        name=f"{lost.stack} ({lost.target})",
        packages=names,
        counts=Counts(len(names)),
        lines=tuple(replace(first.lines[0], package=name) for name in names),
        losses=(
            _lost(names[0], lost, "0.4.3", specs.LossClass.GOING),
            *(_lost(name, lost, "0.4.3", specs.LossClass.OTHER, there="0.5.0") for name in _SOME),
        ),
    )
    yield _of(kinds.RETIRED, "hdf5", Counts(2), "1.12.3")
    yield _of(kinds.RECONFIGURED, "hdf5", Counts(1, 1), "~mpi", "+mpi")
    moved = _of(kinds.MOVED, "py-build", Counts(0, 0, 2), "1.2.1")
    e4s, both = frozenset({"e4s"}), frozenset({"e4s", "radiuss"})
    yield replace(moved, lines=(replace(moved.lines[0], joined=e4s, left=both - e4s, staying=both),))
    yield _of(kinds.UNREFERENCED, "zlib", Counts(kept=2, unbuilt=2), "1.2.13", places=frozenset())
    yield _of(kinds.SURPLUS, "openmpi", Counts(4), "5.0.3")


def _lost(package: str, place: specs.Place, version: str, loss_class: specs.LossClass, there: str = "") -> OwnedLoss:
    loss = specs.Loss(loss_class=loss_class, version=version, there=there, stacks=("e4s",) if there else ())
    return OwnedLoss(package=package, place=place, versions=(version,), loss=loss)


def _of(
    kind: StatementKind,
    package: str,
    counts: Counts,
    before: str = "",
    after: str = "",
    *,
    places: frozenset[specs.Place] = _X86,
    losses: tuple[OwnedLoss, ...] = (),
    **more: Any,
) -> Statement:
    """Return a made-up statement of one line on `package`; `before` and `after` are versions, or "" for none."""
    sides: dict[str, Any] = {"before": tuple(filter(None, [before])), "after": tuple(filter(None, [after]))}
    story = Story(kind=kind, places=places, of_stacks=2 + len(more.get("behind", ())), **sides, **more)
    stacks = frozenset(place.stack for place in places)
    return Statement(
        kind=kind,
        name=package,
        packages=(package,),
        places=tuple(sorted(places)),
        stacks=tuple(sorted(stacks)),
        counts=counts,
        lines=(Line(package=package, story=story, stacks=stacks, counts=counts, kinds=frozenset()),),
        losses=losses,
        **sides,
    )
