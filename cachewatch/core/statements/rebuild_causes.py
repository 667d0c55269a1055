"""Why the specs of a statement were rebuilt, where the dependency graph is recorded."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.attribution import assign
from cachewatch.core.causes import Cause
from cachewatch.core.model import Signature
from cachewatch.core.statements.values import CauseCount, Statement, StatementKind

_REBUILT = (StatementKind.REBUILD_WAVE, StatementKind.REBUILT)


class RebuiltSpecs(Struct, frozen=True, kw_only=True):
    """New specs of one package that are as older ones were, with other hashes for the same causes."""

    package: str
    signature: Signature
    causes: frozenset[Cause]
    count: int
    is_beside: bool = False  # copies more than before


def with_causes(
    statements: Iterable[Statement], rebuilt: Sequence[RebuiltSpecs], chooses: Callable[[Signature], bool]
) -> tuple[Statement, ...]:
    """Add to statements of rebuilt specs for which causes; only specs of the chosen signatures count."""
    chosen = [one for one in rebuilt if chooses(one.signature)]
    return tuple(
        replace(one, causes=_causes_of(one, chosen)) if chosen and one.kind in _REBUILT else one for one in statements
    )


def _causes_of(statement: Statement, rebuilt: Iterable[RebuiltSpecs]) -> tuple[CauseCount, ...]:
    """Return the causes, most specs first; each spec is counted under one."""
    packages = set(statement.packages)
    takes_copies = statement.kind is StatementKind.REBUILD_WAVE
    own = [one for one in rebuilt if one.package in packages and (takes_copies or not one.is_beside)]
    counts: Counter[frozenset[Cause]] = Counter()
    for one in own:
        counts[one.causes] += one.count
    assigned = assign(counts)
    specs: Counter[Cause] = Counter()
    named: defaultdict[Cause, set[str]] = defaultdict(set)
    for one in own:
        if one.causes:
            specs[assigned[one.causes]] += one.count
            named[assigned[one.causes]].add(one.package)
    found = [CauseCount(cause, specs[cause], tuple(sorted(named[cause]))) for cause in specs]
    return tuple(sorted(found, key=lambda one: (-one.specs, one.cause.sort_key)))
