"""What a cache has of an environment, and what a change means for it, as sentences, JSON and data for templates.

Also what moving a pinned snapshot means.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cachewatch.core.coverage import Availability, Coverage, CoverageChange, Resolution
from cachewatch.core.names import safe
from cachewatch.core.statement_values import StatementKind
from cachewatch.core.versions import is_newer
from cachewatch.report.causes import causes_json
from cachewatch.report.data import encode
from cachewatch.report.text import Palette
from cachewatch.report.values import Outcome, PackageOutcome, Pinned, SnapshotMove, TagDigest
from cachewatch.report.words import number, reasons_in_words, stacks_named

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


Data = dict[str, Any]
Clean = Callable[[str], str]

_MOST_PINNED = 5
_MOST_NAMED_NEEDS = 3
# Outcomes of which packages are listed; the others are numbers.
_TOLD = (Outcome.LOST, Outcome.DOWNGRADED, Outcome.UPGRADED, Outcome.GAINED, Outcome.CHANGED)
# What installs what is left, and builds the rest.
_RECONCRETIZING = ("spack -e . concretize --force", "spack -e . install")
# What the newest snapshot has less of, and more of.
_LOSSES = (StatementKind.PACKAGE_REMOVED, StatementKind.PLACE_LOST, StatementKind.DOWNGRADED)
_GAINS = (StatementKind.UPGRADED, StatementKind.PACKAGE_ADDED, StatementKind.PLACE_GAINED)


def headline_of(change: CoverageChange) -> str:
    """Say the one thing to know of an environment, as in a subject; empty where nothing happened to it."""
    return next(iter(headlines_of(change)), "")


def headlines_of(change: CoverageChange) -> tuple[str, ...]:
    """Return the same in as many words as there is room for, the longest first; none where nothing happened."""
    total = _noun(change, len(change.after.needs))
    if change.removed:
        lost = f", {_needing(len(change.lost))}" if change.lost else ""
        short = f"{len(change.removed):,} of {total} removed"
        return (f"{short}: {_fates(change.removed)}", *([f"{short}{lost}"] if lost else []), short)
    if change.newly_lost:
        short = f"{len(change.newly_lost):,} of {total} lost the other build"
        return (f"{short}: {_needing(len(change.newly_lost), counts=False)}", short)
    if change.newly_unreferenced:
        return _second_copies(change, total)
    if change.came:
        return (f"{len(change.came):,} of {total} added",)
    if change.restored:
        has = "has" if len(change.restored) == 1 else "have"
        return (f"{len(change.restored):,} of {total} {has} another build again",)
    return ()


def advice_of(change: CoverageChange) -> str:
    """Say what to do about it, with what is left of the roots first; empty where nothing is to be done."""
    if lost := change.lost or change.newly_lost:
        return _restoring(change, lost)
    if change.removed:
        return "re-concretize to get the builds that are left"
    if change.newly_unreferenced:
        return "re-concretize before the next prune"
    return ""


def hit_packages(change: CoverageChange) -> frozenset[str]:
    """Return the packages of which binaries are missed now, or after the next prune."""
    hit = (*change.removed, *change.newly_lost, *change.newly_unreferenced)
    return frozenset(covered.need.package for covered in hit)


def acts_of(change: CoverageChange) -> list[str]:
    """Return the same as sentences, with what becomes of the binaries that have another build; none where nothing is to be done."""
    advice = advice_of(change)
    source = ", or build from source" if any(covered.suggestion for covered in change.lost) else ": build from source"
    said = [f"{advice}{source if change.lost else ''}."] if advice else []
    if change.removed and change.lost and (others := len(change.removed) - len(change.lost)):
        has = "has another build" if others == 1 else "have other builds"
        said.append(f"{others:,} more {has}, which you get when you re-concretize (listed below).")
    return said


def calm_of(change: CoverageChange) -> str:
    """Say why nothing is to be done about an environment."""
    return "nothing of your environment is lost" if headline_of(change) else unchanged(change)


def unchanged(change: CoverageChange) -> str:
    """Say what there is of an environment to which nothing happened."""
    total, there = len(change.after.needs), change.after.met
    noun = _noun(change, total)
    if there == total:
        return "your binary is still in the cache" if total == 1 else f"your {noun} are all still in the cache"
    return f"of your {noun}, {there or 'none'} {'are' if there > 1 else 'is'} in the cache, as before"


def _restoring(change: CoverageChange, lost: Sequence[Resolution]) -> str:
    """Say what would restore the binaries that are lost: the newest versions left for the same machines."""
    left = [covered for covered in lost if covered.suggestion]
    bare = [covered.need.package for covered in lost if not covered.suggestion]
    nothing = f"no version is left of {_named(bare)}" if bare else ""
    if not left:
        return nothing
    is_newer_only = all(covered.need.hash and is_newer(covered.suggestion, covered.need.version) for covered in left)
    named = _named(f"{covered.need.package} {covered.suggestion}" for covered in left)
    which = f"only {'newer' if is_newer_only else 'other'} versions are left ({named})"
    return "; ".join(filter(None, (f"re-concretize: for {_noun(change, len(left))} {which}", nothing)))


def _second_copies(change: CoverageChange, total: str) -> tuple[str, ...]:
    going = change.newly_unreferenced
    goes = "goes" if len(going) == 1 else "go"
    short = f"{len(going):,} of {total} {goes} at the next prune"
    has_copies = all(covered.left is Availability.REBUILT for covered in going)
    if has_copies and len(going) == len(change.after.needs):
        return ("every binary has a second copy, the old ones go at the next prune", short)
    return (f"{short}: {_fates(going, 'a second copy' if has_copies else 'another build')}", short)


def _needing(count: int, *, counts: bool = True) -> str:
    words = "needs a source build" if count == 1 else "need source builds"
    return f"{count:,} {words}" if counts else words


def _fates(found: Sequence[Resolution], what: str = "another build") -> str:
    """Say of how many there is another build, and how many need a source build."""
    lost = sum(covered.left is Availability.LOST for covered in found)
    others = len(found) - lost
    who = "it" if len(found) == 1 else "all"
    if not lost:
        return f"{who} {'has' if who == 'it' else 'have'} {what}"
    if not others:
        return "it needs a source build" if who == "it" else "all need source builds"
    return f"{others:,} {'has' if others == 1 else 'have'} {what}, {_needing(lost)}"


def _noun(change: CoverageChange, count: int) -> str:
    if change.after.environment.hashes or not change.after.needs:
        return number(count, "binary", "binaries")
    return number(count, "spec")


def _named(names: Iterable[str], between: str = ", ") -> str:
    listed = list(dict.fromkeys(names))
    return between.join([*listed[:_MOST_NAMED_NEEDS], *(["..."] if len(listed) > _MOST_NAMED_NEEDS else [])])


def coverage_data(change: CoverageChange, most: int, clean: Clean) -> Data:
    """Say what became of the binaries of an environment; no list has more than `most` rows.

    `before - removed + came = after`, and `removed = lost + usable + rebuilt`.
    """
    counts = change.after.counts
    return {
        "name": clean(change.after.environment.name),
        "headline": headline_of(change),
        "advice": clean(advice_of(change)),
        "commands": list(_RECONCRETIZING if advice_of(change) else ()),
        "binaries": len(change.after.needs),
        "externals": change.after.environment.externals,
        "before": change.before.met,
        "after": change.after.met,
        "removed": len(change.removed),
        "with_another_build": change.with_another_build,
        "now": {standing.value: counts[standing] for standing in Availability},
        "unreferenced": len(change.after.unreferenced),
        "lost": _listed(change.lost, most, clean),
        "newly_lost": _listed(change.newly_lost, most, clean),
        "usable": _listed(change.usable, most, clean),
        "rebuilt": _listed(change.rebuilt, most, clean),
        "newly_unreferenced": _listed(change.newly_unreferenced, most, clean),
        "restored": _listed(change.restored, most, clean),
        "came": _listed(change.came, most, clean),
    }


def environment_verdict(move: CoverageChange) -> str:
    """Say whether an environment may move to the snapshot that `move` leads to."""
    if move.lost:
        others = f"; {move.with_another_build:,} more have another build" if move.with_another_build else ""
        return f"you lose {len(move.lost):,} of {_noun(move, len(move.after.needs))}{others}"
    if not move.removed:
        return "safe for you: every binary that you have stays"
    every = len(move.removed) == move.before.met
    which = (
        "all hashes differ" if every else f"{len(move.removed):,} of {_noun(move, move.before.met)} have other hashes"
    )
    return f"safe for you, nothing is lost, but {which}: re-concretize"


def move_verdict(move: SnapshotMove) -> str:
    """Say whether one may move to another snapshot; that nothing is lost does not mean that nothing changes."""
    lost, older = move.of(Outcome.LOST), move.of(Outcome.DOWNGRADED)
    anew = "all hashes differ" if move.has_other_hashes_only else ""
    if not lost and not older:
        if not move.packages:
            return "safe for you: nothing changes"
        return f"safe for you, nothing is lost{f', but {anew}' if anew else ''}"
    between = ", " if all(found.is_whole for found in lost) else "; "
    losing = f"you lose {len(lost):,} ({_named(map(_lost_package, lost), between)})" if lost else ""
    aging = f"{len(older):,} downgraded ({_named(found.package for found in older)})" if older else ""
    return "; ".join(filter(None, (losing, aging, anew)))


def _lost_package(found: PackageOutcome) -> str:
    """Name a package, and where it is lost if it is still anywhere."""
    stacks = sorted({place.stack for place in found.places})
    return found.package if found.is_whole or not stacks else f"{found.package} in {stacks_named(stacks)}"


def move_headline(move: SnapshotMove) -> str:
    """Name both snapshots, and what matters most of the difference."""
    counts = move.counts
    told = [
        f"{number(counts[Outcome.LOST], 'package')} lost" if counts[Outcome.LOST] else "",
        *(f"{counts[o]:,} {o.value}" for o in (Outcome.DOWNGRADED, Outcome.UPGRADED, Outcome.GAINED) if counts[o]),
    ]
    what = ", ".join(filter(None, told))
    if not what:
        what = "all hashes differ, nothing else" if move.has_other_hashes_only else "nothing lost, nothing upgraded"
    return f"{move.target} against {move.base}: {what}"


def move_data(move: SnapshotMove, most: int, clean: Clean) -> Data:
    """Return what moving to another snapshot means; the counts of packages add up to all of both."""
    return {
        "base": clean(move.base),
        "target": clean(move.target),
        "headline": clean(move_headline(move)),
        "verdict": clean(move_verdict(move)),
        "is_safe": move.is_safe,
        "has_other_hashes_only": move.has_other_hashes_only,
        "counts": {outcome.value: count for outcome, count in move.counts.items()},
        "packages": {outcome.value: _moved(move.of(outcome), most, clean) for outcome in _TOLD},
    }


def _moved(found: tuple[PackageOutcome, ...], most: int, clean: Clean) -> Data:
    rows = [
        {
            "package": clean(one.package),
            "before": clean(one.before),
            "after": clean(one.after),
            "is_whole": one.is_whole,
            "places": [{"stack": clean(place.stack), "target": clean(place.target)} for place in one.places[:most]],
            "more_places": max(0, len(one.places) - most),
        }
        for one in found[:most]
    ]
    return {"count": len(found), "rows": rows, "more": len(found) - len(rows)}


def pinned_data(pinned: Pinned, most: int, clean: Clean) -> Data:
    """Say where a pinned snapshot stands, and what moving to the newest one would gain and lose."""
    most = min(most, _MOST_PINNED)
    return {
        "tag": clean(pinned.tag),
        "source": clean(pinned.source),
        "is_gone": pinned.is_gone,
        "is_near_the_end": pinned.is_near_the_end,
        "newest": clean(pinned.newest),
        "newer": pinned.newer,
        "older": pinned.older,
        "environment": None if pinned.move is None else coverage_data(pinned.move, most, clean),
        "verdict": "" if pinned.move is None else environment_verdict(pinned.move),
        "losses": _changes(pinned.whole_move, _LOSSES, most, clean),
        "gains": _changes(pinned.whole_move, _GAINS, most, clean),
    }


def _listed(listed: tuple[Resolution, ...], most: int, clean: Clean) -> Data:
    shown = listed[:most]
    return {"count": len(listed), "rows": [_row(covered, clean) for covered in shown], "more": len(listed) - len(shown)}


def _row(covered: Resolution, clean: Clean) -> Data:
    need = covered.need
    return {
        "package": clean(need.package),
        "version": clean(need.version),
        "hash": clean(need.hash),
        "is_root": need.is_root,
        "verdict": covered.standing.value,
        "after_prune": covered.left.value,
        "other_builds": len(covered.others),
        "differs": [clean(text) for text in covered.differs],
        "versions": [clean(version) for version in covered.versions[-_MOST_PINNED:]],
        "suggestion": clean(covered.suggestion),
        "elsewhere": [clean(system) for system in covered.elsewhere[:_MOST_PINNED]],
        "remark": clean(remark(covered)),
    }


def _changes(tag: TagDigest | None, kinds: Iterable[StatementKind], most: int, clean: Clean) -> list[Data]:
    statements = tag.statements if tag else ()
    packages = {kind: sorted({p for one in statements if one.kind is kind for p in one.packages}) for kind in kinds}
    return [
        {
            "name": kind.value,
            "packages": len(found),
            "names": [clean(name) for name in found[:most]],
            "more": max(0, len(found) - most),
        }
        for kind, found in packages.items()
        if found
    ]
