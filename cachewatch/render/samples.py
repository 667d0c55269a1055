"""A digest and a notice that never happened, with something under every heading: to try templates and channels on."""

from datetime import UTC, datetime, timedelta

from cachewatch.causes import Cause
from cachewatch.coverage import Coverage, CoverageChange, Covered, Environment, Need, Standing, compare_coverage
from cachewatch.digests import Digest, Example, Gap, Notice, Pinned, Silenced, Span, TagDigest
from cachewatch.model import Direction, Event, Fault, FaultKind, Kind, PackageCounts, Side, SpecCounts
from cachewatch.report import Report
from cachewatch.report.cover import Spots
from cachewatch.report.places import Entry, TableGroup
from cachewatch.report.rows import Row, Section
from cachewatch.report.topics import Topic, TopicReport

_BEGIN = datetime(2025, 5, 25, 4, tzinfo=UTC)
_END = datetime(2025, 6, 1, 4, tzinfo=UTC)
_BEFORE = Side(
    name="HEAD~1", revision="6001b266be8082e57c6d4732024ae09508c1101a", tag="develop", time="2025-05-25T04:00:00Z"
)
_AFTER = Side(
    name="HEAD", revision="1afa5ee7584b8a73efd0282719f02952eefa5964", tag="develop", time="2025-06-01T04:00:00Z"
)
_X86: Spots = (("x86_64_v3", ("e4s", "ml-linux-x86_64-cpu")),)


def sample_digest(subscription: str = "sample", *, created: datetime = _END + timedelta(hours=3)) -> Digest:
    """Return a digest in which everything that templates can say is said once."""
    span = Span(
        source="public",
        address="https://github.com/spack/cache.spack.io.git",
        before=_BEFORE,
        after=_AFTER,
        revisions=5,
        newest=_END,
        checked=created,
        gaps=(Gap(_BEGIN + timedelta(days=1), _BEGIN + timedelta(days=4)),),
        notes=("this is made up: nothing of it happened",),
    )
    return Digest(
        key="0" * 64,
        subscription=subscription,
        description="a sample",
        created=created,
        period="2025-05-25..2025-06-01",
        is_sample=True,
        spans=(span,),
        tags=(_tag(),),
        environment=_environment(),
        pinned=(
            Pinned(
                tag="develop-2025-05-18", source="public", newest="develop-2025-06-01", newer=2, move=_environment()
            ),
        ),
        silenced=(Silenced("llvm", 3, "migration, ask Kim", "2026-12-01"),),
        why=("tags develop", "packages py-*"),
        commands=("cachewatch diff 6001b266be 1afa5ee758 --tag develop",),
        archive_url="https://hpc.example.org/cachewatch/sample/2025-06-01.html",
        unsubscribe="mailto:cachewatch+unsubscribe@hpc.example.org?subject=sample",
        operator="hpc-software@example.org",
        links="https://cache.spack.io",
    )


def _environment() -> CoverageChange:
    needs = tuple(
        Need(package=name, version=version, hash=letter * 32, is_root=name == "py-torch")
        for name, version, letter in (
            ("cuda", "12.8.0", "a"),
            ("hdf5", "1.14.6", "b"),
            ("py-torch", "2.7.0", "c"),
            ("zlib", "1.3.1", "d"),
        )
    )
    environment = Environment(name="/srv/envs/ml/spack.lock", needs=needs, externals=1)
    cuda, hdf5, torch, zlib = needs
    return compare_coverage(
        Coverage(
            environment,
            (*(Covered(need, Standing.CACHED) for need in (cuda, hdf5, torch)), Covered(zlib, Standing.FROM_SOURCE)),
        ),
        Coverage(
            environment,
            (
                Covered(cuda, Standing.FROM_SOURCE, versions=("12.9.0",)),
                Covered(hdf5, Standing.OTHER_BUILD, others=("e" * 32,)),
                Covered(torch, Standing.CACHED, is_left_over=True),
                Covered(zlib, Standing.CACHED),
            ),
        ),
    )


def sample_notice(*, created: datetime = _END + timedelta(hours=3)) -> Notice:
    """Return a notice to operators about something that never happened."""
    return Notice(
        key="1" * 64,
        created=created,
        title="Source public cannot be read",
        said=("This is a sample: all is well.", "The last three attempts failed: connection timed out."),
        facts=(("last success", "1 June 2025 04:00 UTC"), ("next attempt", "1 June 2025 08:00 UTC")),
        remedy="Nothing if it ends by itself; digests wait, and none is lost.",
        commands=("cachewatch status",),
        operator="hpc-software@example.org",
    )


def _tag() -> TagDigest:
    return TagDigest(
        source="public",
        report=Report(
            before=_BEFORE,
            after=_AFTER,
            revisions_between=5,
            packages=PackageCounts(before=1250, after=1250, added=1, removed=1, changed=9, rebuilt_only=1),
            specs=SpecCounts(
                before=400, after=397, added=60, removed=63, rebuilt=40, moved=2, upgraded=3, downgraded=1,
                recompiled=4, reconfigured=1, new=9, gone=12, net_added=20, net_removed=23, left_over=2,
            ),
            events=(
                Event(Kind.STACK_REMOVED, "ml-linux-aarch64-cpu", 312, 480),
                Event(Kind.COMPILER, "gcc@11.4.0 -> gcc@13.2.0", 214, 950),
            ),
            sections=(),
            faults=(Fault("_cache/develop/apfel/specs.md", FaultKind.UNREADABLE, "ends in the middle of a record"),),
        ),
        topics=tuple(_topics()),
        places=(
            TableGroup(("e4s", "ml-linux-x86_64-cpu"), (_UPGRADE, _DOWNGRADE, _RECOMPILED), 4),
            TableGroup(("radiuss",), (_BESIDE,), 1),
        ),
        place_packages=5,
        examples=(
            Example(
                package="py-keras", version="3.9.2", hash="4cndtqqkxselgikq53txkbo6k2f2gzsv", stacks=("e4s",), target="x86_64_v3"
            ),
        ),
    )  # fmt: skip


_UPGRADE = Entry(package="py-build", direction=Direction.UPGRADE, gone=("1.2.0",), came=("1.2.1",))
_DOWNGRADE = Entry(package="rocblas", direction=Direction.DOWNGRADE, gone=("6.4.0",), came=("6.2.4",))
_BESIDE = Entry(package="py-ml-dtypes", direction=Direction.UPGRADE, came=("0.4.0",), stayed=("0.3.1",))
_RECOMPILED = Entry(
    package="hdf5", compilers=(("gcc@11.4.0", "gcc@13.2.0"),), targets=(("", "x86_64_v4"), ("x86_64", ""))
)


def _topics() -> list[TopicReport]:
    moved = Cause(gained=frozenset({"e4s"}), lost=frozenset({"radiuss"}))
    return [
        _topic(Topic.GONE, _row(Section.REMOVED, "R!", "py-old", "1.0", count=5, kinds={Kind.PACKAGE_REMOVED})),
        _topic(
            Topic.LOST,
            _row(Section.REMOVED, "R!", "py-safetensors", "0.4.3", count=3, note="version gone", kinds={Kind.VERSION_REMOVED}),
            more=4,
        ),
        _topic(Topic.LEFT_OVER, _row(Section.LEFT_OVER, "L ", "zlib", "1.2.13", count=2, spots=(("aarch64", ()),))),
        _topic(Topic.DOWNGRADED, _row(Section.DOWNGRADED, "D ", "rocblas", "6.4.0", "6.2.4", count=1)),
        _topic(
            Topic.UPGRADED,
            _row(Section.UPGRADED, "U ", "py-build", "1.2.0", "1.2.1", count=3),
            _row(Section.UPGRADED, "U ", "py-ml-dtypes", "0.3.1", "0.3.1, 0.4.0", move="radiuss"),
        ),
        _topic(Topic.NEW, _row(Section.ADDED, "A*", "py-keras", after="3.9.2", count=6)),
        _topic(Topic.ADDED, _row(Section.ADDED, "A ", "py-ml-dtypes", after="0.4.0", count=3, note="new version")),
        _topic(Topic.RETIRED, _row(Section.REMOVED, "R ", "hdf5", "1.12.3", count=2, note="retired")),
        _topic(
            Topic.STACKS,
            _row(Section.STACKS, "S ", "py-build", "1.2.1", count=2, note="same binaries", move="+e4s -radiuss", cause=moved),
        ),
        _topic(Topic.COMPILERS, _row(Section.COMPILERS, "C ", "hdf5", "gcc@11.4.0", "gcc@13.2.0", count=4)),
        _topic(Topic.VARIANTS, _row(Section.VARIANTS, "V ", "hdf5", "~mpi", "+mpi", count=1)),
        _topic(Topic.FEWER, _row(Section.REMOVED, "r ", "openmpi", "5.0.3", count=4, note="7 left")),
        _topic(Topic.MORE, _row(Section.ADDED, "a ", "openmpi", after="5.0.5", count=2, note="another copy")),
        _topic(Topic.REBUILT, _row(Section.REBUILT, "  ", "py-gpytorch", count=40)),
    ]  # fmt: skip


def _topic(topic: Topic, *rows: Row, more: int = 0) -> TopicReport:
    """Return a topic of these lines, and of `more` packages of one spec each that are not among them."""
    return TopicReport(
        topic=topic,
        rows=rows,
        packages=len({row.package for row in rows}) + more,
        specs=sum(row.count or 0 for row in rows) + more,
        lines=sum(row.count is None for row in rows),
        explained_specs=0,
        kinds=frozenset(),
    )


def _row(
    section: Section,
    state: str,
    package: str,
    before: str = "",
    after: str = "",
    *,
    count: int | None = None,
    note: str = "",
    move: str = "",
    spots: Spots = _X86,
    kinds: set[Kind] | None = None,
    cause: Cause | None = None,
) -> Row:
    return Row(
        section=section,
        state=state,
        package=package,
        before=before,
        after=after,
        count=count,
        note=note,
        move=move,
        spots=spots,
        kinds=frozenset(kinds or ()),
        cause=cause or Cause(),
    )
