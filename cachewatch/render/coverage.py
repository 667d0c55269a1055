"""What a cache has of an environment, for people and for programs."""

from collections.abc import Iterator

from cachewatch.core.environment_coverage import Availability, Coverage, Resolution
from cachewatch.core.untrusted_text import safe
from cachewatch.render.ascii_json import encode
from cachewatch.render.causes import causes_json
from cachewatch.render.colour import Palette
from cachewatch.render.rebuild_reasons import reasons_in_words
from cachewatch.render.statement_phrases import number

SCHEMA = "cachewatch.coverage/2"

# What each verdict means, in the order of good to bad.
MEANINGS = {
    Availability.THERE: "in the cache, by its hash",
    Availability.REBUILT: "the same version, target and variants, another hash",
    Availability.USABLE: "another build of the version that these machines run",
    Availability.LOST: "no build of the version that these machines run",
}
UNREFERENCED = "built by no stack, so the next prune removes it"
_COLOURS = {Availability.LOST: "red", Availability.USABLE: "yellow", Availability.REBUILT: "yellow"}
_ABSTRACT = "It names no hashes, so that only versions were looked up; with a spack.lock there is a sure answer."
_LEFT = {
    Availability.REBUILT: "a second copy is left",
    Availability.USABLE: "another build is left",
    Availability.LOST: "it needs a source build",
}
_MOST_NAMED = 5
_MOST_CAUSES = 3


def render_coverage(coverage: Coverage, against: str, palette: Palette) -> Iterator[str]:
    """Yield lines for people; `against` says what the environment was compared with."""
    environment = coverage.environment
    externals = f" and {number(environment.externals, 'external')}" if environment.externals else ""
    yield f"{safe(environment.name)}: {number(len(environment.needs), 'spec')}{externals}, against {safe(against)}"
    if environment.needs and not environment.hashes:
        yield _ABSTRACT
    yield ""
    width = max(map(len, MEANINGS.values()))
    for standing, meaning in MEANINGS.items():
        count = coverage.counts[standing]
        yield f"{standing.value:<12}  {meaning.ljust(width)}  {count:>6,}  {_share(count, len(coverage.needs))}"
    yield f"{'unreferenced':<12}  {UNREFERENCED.ljust(width)}  {len(coverage.unreferenced):>6,}"
    for standing, colour in _COLOURS.items():
        heading = f"{standing.value}: {MEANINGS[standing]}"
        yield from _section(heading, coverage.of(standing), palette, colour)
    yield from _section(f"unreferenced: {UNREFERENCED}", coverage.unreferenced, palette, "yellow")


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
            "unreferenced": len(coverage.unreferenced),
        },
        "specs": [_values(covered) for covered in coverage.needs],
    }
    return encode(values) + b"\n"


def remark(covered: Resolution) -> str:
    """Say what there is instead of a binary, and what the next prune leaves of it; empty where it is simply there."""
    return "; ".join(filter(None, (_instead(covered), _after_prune(covered))))


def _instead(covered: Resolution) -> str:
    if covered.standing is Availability.THERE:
        return ""
    if covered.standing is not Availability.LOST:
        more = f" and {len(covered.others) - 1:,} more" if len(covered.others) > 1 else ""
        differs = f", with {', '.join(covered.differs)}" if covered.differs else ""
        return f"there is /{covered.others[0][:7]}{differs}{more}{_because(covered)}"
    newest = f"the newest there is {covered.suggestion}" if covered.suggestion else ""
    named = covered.elsewhere[:_MOST_NAMED]
    more = f" and {len(covered.elsewhere) - len(named):,} more" if len(covered.elsewhere) > len(named) else ""
    elsewhere = f"this version only for {', '.join(named)}{more}" if named else ""
    return "; ".join(filter(None, (newest, elsewhere))) or "there is none"


def _after_prune(covered: Resolution) -> str:
    return "" if covered.after_prune is None else f"after the next prune {_LEFT[covered.after_prune]}"


def _share(count: int, total: int) -> str:
    return f"{count / total:4.0%}" if total else ""


def _section(heading: str, listed: tuple[Resolution, ...], palette: Palette, colour: str) -> Iterator[str]:
    if not listed:
        return
    yield ""
    yield palette.paint(f"{heading} ({len(listed):,})", colour)
    listed = tuple(sorted(listed, key=lambda covered: not covered.need.is_root))
    names = [_name(covered) for covered in listed]
    width = max(map(len, names))
    for name, covered in zip(names, listed, strict=True):
        yield f"  {name.ljust(width)}  {safe(remark(covered))}".rstrip()


def _because(covered: Resolution) -> str:
    """Say why the hash is another one: ` because of zlib 1.3 -> 1.3.1`."""
    words = reasons_in_words(cause for cause, _ in covered.causes)
    more = f" and {len(words) - _MOST_CAUSES} more reasons" if len(words) > _MOST_CAUSES else ""
    return f" {', '.join(words[:_MOST_CAUSES])}{more}" if words else ""


def _name(covered: Resolution) -> str:
    need = covered.need
    version = f"@{need.version}" if need.version else ""
    return safe(f"{need.package}{version}{f'/{need.hash[:7]}' if need.hash else ''}{' (root)' if need.is_root else ''}")


def _values(covered: Resolution) -> dict[str, object]:
    need = covered.need
    return {
        "package": need.package,
        "version": need.version,
        "hash": need.hash or None,
        "platform": need.platform,
        "os": need.os,
        "target": need.target,
        "root": need.is_root,
        "verdict": covered.standing.value,
        "after_prune": covered.left.value,
        "unreferenced": covered.is_unreferenced,
        "other_builds": list(covered.others),
        "differs": list(covered.differs),
        "other_versions": list(covered.versions),
        "elsewhere": list(covered.elsewhere),
        "causes": causes_json(dict(covered.causes)),
    }
