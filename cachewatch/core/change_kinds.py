"""What each kind of change means, which of them digests tell by default, and words for several at once."""

from collections.abc import Iterable, Mapping

from cachewatch.core.model import Kind
from cachewatch.core.similar_names import similar
from cachewatch.errors import UsageError

# What each kind means, and whether a digest tells it unless asked not to; worst first.
MEANINGS: Mapping[Kind, tuple[str, bool]] = {
    Kind.TAG_ADDED: ("a tag appeared; it is compared with the one before it in its series", True),
    Kind.TAG_REMOVED: ("a tag is gone", True),
    Kind.STACK_EVENT: ("a stack left or joined the whole tag", True),
    Kind.PRUNE: ("a prune removed surplus copies by the thousand", True),
    Kind.SUSPICIOUS: ("so much is gone that publishing may have failed", True),
    Kind.UNREADABLE: ("a document could not be compared", True),
    Kind.PACKAGE_REMOVED: ("a package's document is gone", True),
    Kind.PACKAGE_ADDED: ("a package appeared", True),
    Kind.PLACE_LOST: ("a stack no longer has a build of the package for a target", True),
    Kind.PLACE_GAINED: ("a stack has its first build of the package for a target", True),
    Kind.UNREFERENCED: ("no stack builds a spec any longer; the next prune removes it", True),
    Kind.VERSION_REMOVED: ("a version is gone from the package", True),
    Kind.VERSION_ADDED: ("a version appeared in the package", True),
    Kind.DOWNGRADED: ("a stack, or specs, went to an older version", True),
    Kind.UPGRADED: ("a stack, or specs, went to a newer version", True),
    Kind.RETIRED: ("an older version left a stack that keeps its newest", True),
    Kind.EXTENDED: ("an older version was added to a stack that keeps its newest", True),
    Kind.NARROWED: ("a stack lost a compiler, system or variants of a version that it keeps", False),
    Kind.WIDENED: ("a stack gained a compiler, system or variants of a version that it had", False),
    Kind.STACK_REMOVED: ("a stack no longer builds the package, or specs of it", True),
    Kind.STACK_ADDED: ("a stack now builds the package, or specs of it", True),
    Kind.COMPILER: ("another compiler", True),
    Kind.OS: ("another operating system or platform", True),
    Kind.TARGET: ("another target", True),
    Kind.VARIANT: ("variants that were added or removed", False),
    Kind.RECONFIGURED: ("specs replaced by specs with other variants", False),
    Kind.MOVED: ("specs rebuilt for other stacks", False),
    Kind.SPEC_ADDED: ("added specs that replace nothing", False),
    Kind.SPEC_REMOVED: ("removed specs that nothing replaces", False),
    Kind.REBUILT: ("the same thing built again: only the hash is new", False),
}

DEFAULT = frozenset(kind for kind, (_, is_default) in MEANINGS.items() if is_default)

# Words that mean several kinds, for `changes:` in the configuration.
GROUPS: Mapping[str, frozenset[Kind]] = {
    "default": DEFAULT,
    "all": frozenset(Kind),
    "added": frozenset({Kind.TAG_ADDED, Kind.PACKAGE_ADDED, Kind.VERSION_ADDED}),
    "removed": frozenset({Kind.TAG_REMOVED, Kind.PACKAGE_REMOVED, Kind.PLACE_LOST}),
    "tag": frozenset({Kind.TAG_ADDED, Kind.TAG_REMOVED}),
    "place": frozenset({Kind.PLACE_GAINED, Kind.PLACE_LOST}),
    "package": frozenset({Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED}),
    "version": frozenset({Kind.VERSION_ADDED, Kind.VERSION_REMOVED, Kind.UPGRADED, Kind.DOWNGRADED}),
    "stack": frozenset({Kind.STACK_ADDED, Kind.STACK_REMOVED, Kind.STACK_EVENT}),
    "stack-lost": frozenset({Kind.STACK_REMOVED, Kind.STACK_EVENT}),
    "spec": frozenset({Kind.SPEC_ADDED, Kind.SPEC_REMOVED}),
    "rebuild": frozenset({Kind.REBUILT}),
}


def kinds_named(word: str) -> frozenset[Kind]:
    """Return the kinds that one word means: a kind, or a group of them."""
    if word in GROUPS:
        return GROUPS[word]
    if word in tuple(Kind):
        return frozenset({Kind(word)})
    close = similar(word, [*GROUPS, *Kind], 1)
    hint = f"did you mean {close[0]}?" if close else "see `cachewatch kinds`"
    raise UsageError(f"{word!r} is not a kind of change; {hint}")


def chosen_kinds(words: Iterable[str]) -> frozenset[Kind]:
    """Return what a list such as `[default, -compiler, +rebuilt]` amounts to, word by word.

    A list that begins with a sign changes the default; one that does not begins with nothing.
    """
    words = tuple(words)
    chosen = DEFAULT if not words or words[0].startswith(("+", "-")) else frozenset()
    for word in words:
        kinds = kinds_named(word.removeprefix("+").removeprefix("-"))
        chosen = chosen - kinds if word.startswith("-") else chosen | kinds
    return chosen
