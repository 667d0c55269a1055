"""What a cache has of an environment, for people and for programs."""

from collections.abc import Iterator

from cachewatch.coverage import Coverage, Covered, Standing
from cachewatch.render.colour import Palette
from cachewatch.render.records import encode
from cachewatch.render.words import number
from cachewatch.safetext import safe

SCHEMA = "cachewatch.coverage/1"

_HEADINGS = {
    Standing.FROM_SOURCE: ("would build from source", "red"),
    Standing.OTHER_BUILD: ("only as another build of the same version", "yellow"),
    Standing.CACHED: ("in the cache, by hash", "green"),
}
_LEFT_OVER = "left over: no stack builds these any more, the next prune takes them"
_ABSTRACT = "It names no hashes, so that only versions were looked up; with a spack.lock there is a sure answer."


def render_coverage(coverage: Coverage, against: str, palette: Palette) -> Iterator[str]:
    """Yield lines for people; `against` says what the environment was held against."""
    environment = coverage.environment
    externals = f" and {number(environment.externals, 'external')}" if environment.externals else ""
    yield f"{safe(environment.name)}: {number(len(environment.needs), 'spec')}{externals}, against {safe(against)}"
    if environment.needs and not environment.hashes:
        yield _ABSTRACT
    yield ""
    counts = coverage.counts
    width = max(len(heading) for heading, _ in _HEADINGS.values())
    for standing, (heading, _) in reversed(_HEADINGS.items()):
        yield f"{heading.ljust(width)}  {counts[standing]:>6,}  {_share(counts[standing], len(coverage.needs))}"
    yield f"{'left over'.ljust(width)}  {len(coverage.left_over):>6,}"
    for standing in (Standing.FROM_SOURCE, Standing.OTHER_BUILD):
        heading, colour = _HEADINGS[standing]
        yield from _section(heading, coverage.of(standing), palette, colour)
    yield from _section(_LEFT_OVER, coverage.left_over, palette, "yellow")


def coverage_json(coverage: Coverage, against: str) -> bytes:
    """Return the same as one object of JSON."""
    environment = coverage.environment
    values = {
        "schema": SCHEMA,
        "environment": environment.name,
        "against": against,
        "counts": {
            "specs": len(environment.needs),
            "externals": environment.externals,
            **{standing.value: count for standing, count in coverage.counts.items()},
            "left-over": len(coverage.left_over),
        },
        "specs": [_values(covered) for covered in coverage.needs],
    }
    return encode(values) + b"\n"


def _share(count: int, total: int) -> str:
    return f"{count / total:4.0%}" if total else ""


def _section(heading: str, listed: tuple[Covered, ...], palette: Palette, colour: str) -> Iterator[str]:
    if not listed:
        return
    yield ""
    yield palette.paint(f"{heading} ({len(listed):,})", colour)
    names = [_name(covered) for covered in listed]
    width = max(map(len, names))
    for name, covered in zip(names, listed, strict=True):
        yield f"  {name.ljust(width)}  {_remark(covered)}".rstrip()


def _name(covered: Covered) -> str:
    need = covered.need
    version = f"@{need.version}" if need.version else ""
    return safe(f"{need.package}{version}{f'/{need.hash[:7]}' if need.hash else ''}{' (root)' if need.is_root else ''}")


def _remark(covered: Covered) -> str:
    if covered.others:
        differs = f", {', '.join(covered.differs)}" if covered.differs else ""
        return safe(f"{number(len(covered.others), 'other build')}{differs}")
    if covered.versions:
        return safe(f"there is {', '.join(covered.versions)}")
    return "" if covered.standing is Standing.CACHED else "there is none"


def _values(covered: Covered) -> dict[str, object]:
    need = covered.need
    return {
        "package": need.package,
        "version": need.version,
        "hash": need.hash or None,
        "platform": need.platform,
        "os": need.os,
        "target": need.target,
        "root": need.is_root,
        "standing": covered.standing.value,
        "left_over": covered.is_left_over,
        "other_builds": list(covered.others),
        "other_versions": list(covered.versions),
    }
