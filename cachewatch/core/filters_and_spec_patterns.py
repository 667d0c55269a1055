"""Select specs and kinds of change by patterns.

Patterns are globs or `/regular expressions/`. One pattern of a list must match; if there are lists for several things
(stacks, targets), all lists must match. A pattern that begins with `!` excludes what it matches, and takes precedence.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct, field

from cachewatch.core.graphs_and_attribution import LANGUAGES
from cachewatch.core.kinds_and_specs import VALUES, Kind, Signature
from cachewatch.core.names_and_layouts import Wanted, did_you_mean, similar
from cachewatch.core.versions_spellings_targets import Patterns, Versions, compiler, runs, variant_name, variants
from cachewatch.errors import UsageError

DEFAULT = frozenset(kind for kind in Kind if kind.is_default)

_ORDER = tuple(Kind)
_WHOLE_PACKAGE = (Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED)

# Names of groups of kinds, for `changes:` in the configuration.
GROUPS: Mapping[str, frozenset[Kind]] = {
    "default": DEFAULT,
    "all": frozenset(Kind),
    "added": frozenset({Kind.TAG_ADDED, Kind.PACKAGE_ADDED, Kind.VERSION_ADDED}),
    "lost": frozenset({Kind.GONE, Kind.GOING, Kind.OTHER}),
    "removed": frozenset({Kind.TAG_REMOVED, Kind.PACKAGE_REMOVED, Kind.GONE, Kind.GOING, Kind.OTHER}),
    "tag": frozenset({Kind.TAG_ADDED, Kind.TAG_REMOVED}),
    "place": frozenset({Kind.PLACE_GAINED, Kind.PLACE_LOST}),
    "package": frozenset({Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED}),
    "version": frozenset({Kind.VERSION_ADDED, Kind.VERSION_REMOVED, Kind.UPGRADED, Kind.DOWNGRADED}),
    "stack": frozenset({Kind.STACK_ADDED, Kind.STACK_REMOVED, Kind.STACK_EVENT}),
    "spec": frozenset({Kind.SPEC_ADDED, Kind.SPEC_REMOVED}),
    "rebuild": frozenset({Kind.REBUILT}),
}

# The kinds that are reported to everybody.
ALWAYS_REPORTED = frozenset({Kind.SUSPICIOUS, Kind.TURNOVER})


def kinds_named(word: str) -> frozenset[Kind]:
    """Return the kinds that `word` means: a kind or a group of kinds. Raises UsageError for any other word."""
    if word in GROUPS:
        return GROUPS[word]
    if word in tuple(Kind):
        return frozenset({Kind(word)})
    groups = f"; groups of kinds are {', '.join(GROUPS)}, and `cachewatch help kinds` lists all kinds"
    raise UsageError(f"{word!r} is not a kind of change{did_you_mean(word, [*GROUPS, *Kind], 1) or groups}")


def chosen_kinds(words: Iterable[str]) -> frozenset[Kind]:
    """Return the kinds that `words` choose, as in `all -compiler`; if the first has a sign, they change DEFAULT."""
    words = tuple(words)
    chosen = DEFAULT if not words or words[0].startswith(("+", "-")) else frozenset()
    for word in words:
        kinds = kinds_named(word.removeprefix("+").removeprefix("-"))
        chosen = chosen - kinds if word.startswith("-") else chosen | kinds
    return chosen


Matches = Callable[[str], object]


class Globs(Patterns):
    """Case-sensitive globs and regular expressions for names."""

    def _tests(self, patterns: tuple[str, ...]) -> Sequence[Matches]:
        return _matchers(patterns)

    def deciding(self, name: str) -> str | None:
        """Return the first pattern that excludes `name`, else the first that includes it, else None."""
        excluding = (p for p in self.patterns if p.startswith("!") and matcher(p[1:])(name))
        including = (p for p in self.patterns if not p.startswith("!") and matcher(p)(name))
        return next(excluding, None) or next(including, None)

    def meant(self, names: Iterable[str]) -> str:
        """Return "; did you mean ...?" with those of `names` that are similar to patterns; "" if there are none."""
        allowed = [name for name in names if not self.excludes(name)]
        included = [pattern for pattern in self.patterns if not pattern.startswith("!")]
        near = dict.fromkeys(name for pattern in included for name in similar(pattern, allowed))
        return f"; did you mean {' or '.join(near)}?" if near else ""


def is_expression(pattern: str) -> bool:
    """Tell whether `pattern` is a regular expression rather than a glob."""
    return len(pattern) > 1 and pattern[0] == pattern[-1] == "/"


def is_plain(pattern: str) -> bool:
    """Tell whether `pattern` (without !) is a plain name, neither a glob nor a regular expression."""
    return not is_expression(pattern) and not re.search(r"[*?\[]", pattern)


def matcher(pattern: str) -> Matches:
    """Return a function that tells whether a name matches `pattern` (without !). Raises UsageError if this is invalid.

    A glob must match the whole name, a regular expression any part of the name.
    """
    if not is_expression(pattern):
        return re.compile(translate(pattern)).fullmatch
    import re2  # noqa: PLC0415  large, and seldom needed

    options = re2.Options()  # RE2 never backtracks; names are untrusted
    options.log_errors = False
    try:
        search = re2.compile(pattern[1:-1], options=options).search
    except (re2.error, UnicodeError) as error:
        problem = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
        raise UsageError(
            f"{pattern!r} is not a regular expression that RE2 knows (it has no look-around and no references back): {problem}"
        ) from error
    # RE2 takes UTF-8, which cannot encode surrogates.
    return lambda name: search(name.encode("utf-8", "replace").decode())


@lru_cache(maxsize=4096)
def _matchers(patterns: tuple[str, ...]) -> Sequence[Matches]:
    """Return functions that test a name: one for all globs together, and one for each regular expression."""
    globs = "|".join(translate(pattern) for pattern in patterns if not is_expression(pattern))
    expressions = [matcher(pattern) for pattern in patterns if is_expression(pattern)]
    return [re.compile(globs).fullmatch, *expressions] if globs else expressions


class Selection(Struct, frozen=True, kw_only=True):
    """Filters for tags, packages and specs, and for the kinds of change to report."""

    tags: Globs = field(default_factory=Globs)
    packages: Globs = field(default_factory=Globs)
    stacks: Globs = field(default_factory=Globs)
    targets: Globs = field(default_factory=Globs)
    oses: Globs = field(default_factory=Globs)
    compilers: Globs = field(default_factory=Globs)
    versions: Versions = field(default_factory=Versions)
    kinds: Globs = field(default_factory=Globs)

    @property
    def takes_all_specs(self) -> bool:
        """Whether every spec of a selected package is selected."""
        return not any(self.of_specs)

    @property
    def of_specs(self) -> tuple[tuple[str, ...], ...]:
        """The patterns that filter specs within packages, as a value that can be compared."""
        return tuple(key.patterns for key in (self.stacks, self.targets, self.oses, self.compilers, self.versions))

    def chooses(self, signature: Signature) -> bool:
        """Tell whether specs with this signature are selected."""
        return (
            self.targets(signature.target)
            and self.oses(signature.os)
            and self.compilers(signature.compiler)
            and (self.stacks.is_open or any(map(self.stacks, signature.stacks)))
            and self.sees_version(signature)
        )

    def sees_build(self, signature: Signature) -> bool:
        """Tell whether the compiler and operating system of a spec are selected, whatever its stacks and target."""
        return self.compilers(signature.compiler) and self.oses(signature.os)

    def sees_version(self, signature: Signature) -> bool:
        """Tell whether a spec has a selected version."""
        return self.versions.is_open or any(map(self.versions, signature.versions))

    def wants(self, kinds: Set[Kind], own: Set[Kind] = frozenset()) -> bool:
        """Tell whether a change of these `kinds` is selected. If kinds are filtered, a change without kinds is not.

        A change is left out if one of its `own` kinds, by which reports name it, is excluded, or if its package was
        added or removed and package-added or package-removed is excluded.
        """
        if self.kinds.is_open:
            return True
        if any(map(self.kinds.excludes, own)):
            return False
        if (worst := min(kinds, key=_ORDER.index, default=_ORDER[-1])) in _WHOLE_PACKAGE and self.kinds.excludes(worst):
            return False
        return any(map(self.kinds, kinds))


def select(
    *, compilers: Iterable[str] = (), versions: Iterable[str] = (), kinds: Iterable[str] = (), **names: Iterable[str]
) -> Selection:
    """Return a Selection by patterns; `names` has patterns for `tags`, `packages`, `stacks`, `targets` and `oses`."""
    return Selection(
        compilers=Globs(every_compiler(compilers)),
        versions=Versions(versions),
        kinds=Globs(every_kind(kinds)),
        **{name: Globs(patterns) for name, patterns in names.items()},
    )


def every_kind(patterns: Iterable[str]) -> Iterator[str]:
    """Yield the patterns, with kinds in place of names of groups. Raises UsageError if a pattern matches no kind."""
    for pattern in patterns:
        name = pattern.removeprefix("!")
        mark = pattern.removesuffix(name)
        if name in GROUPS:
            yield from (f"{mark}{kind}" for kind in sorted(GROUPS[name]))
        elif any(map(Globs([name]), Kind)):
            yield pattern
        else:
            kinds_named(pattern)  # raises: there is no such kind


def every_compiler(patterns: Iterable[str]) -> Iterator[str]:
    """Yield `patterns`, spelled as in Spack 1.0, and further ones so that gcc and gcc@12 also match gcc@12.3.0."""
    for pattern in patterns:
        name = pattern.removeprefix("!")
        mark = pattern.removesuffix(name)
        if not is_plain(name):
            yield pattern
            old = re.match(r"([\w-]+)[@*]", name)
            if old and (spelt := compiler(old[1])) != old[1]:  # clang* is llvm with any version, and without
                rest = name.removeprefix(old[1])
                yield f"{mark}{spelt}{rest if rest[0] == '@' else f'@{rest}'}"
                yield from [mark + spelt] if rest == "*" else []
            continue
        spelt = compiler(name)
        yield mark + spelt
        if "@=" not in name:
            yield f"{mark}{spelt}{'.' if '@' in spelt else '@'}*"


# A name, perhaps behind that of its repository, as Spack prints it (builtin.hdf5).
_NAME = re.compile(r"(?:[a-z_][\w.]*\.)?([^@%+~^/\s=]*)(?![^@%+~^/\s=]*=)")
_SPEC_PART = re.compile(
    r"""\s*(?:
    (?P<versions>@[^@%+~^/\s]+)
    |%%?(?:(?P<languages>[\w,-]+)=)?(?P<compiler>[^@%+~^/\s=]+)(?P<compiler_versions>@[^@%+~^/\s]+)?
    |(?P<sign>\+\+?|~~?|(?<=\s)--?)(?P<switch>\w[\w-]*)
    |/(?P<hash>[a-z0-9]+)
    |(?P<key>[\w-]+)(?P<equals>:?==?)(?P<value>"[^"]*"|'[^']*'|[^\s"']+)
    )""",
    re.VERBOSE,
)
# The attribute that a word means, in plain words, and its values in a spec.
_FIELDS: Mapping[str, tuple[str, Callable[[Signature], tuple[str, ...]]]] = {
    "platform": ("platforms", VALUES["platforms"]),
    "os": ("operating systems", VALUES["oses"]),
    "target": ("targets", VALUES["targets"]),
    "stack": ("stacks", VALUES["stacks"]),
}

# The beginnings of words that continue the spec before them, as on Spack's command line.
_CONTINUES = re.compile(r"[+~%@^-]|[\w-]+:?=")


def spec_texts(words: Iterable[str]) -> list[str]:
    """Return the specs on a command line; each is joined from consecutive `words` that belong to it."""
    specs: list[str] = []
    for word in words:
        if specs and _CONTINUES.match(word):
            specs[-1] += f" {word}"
        else:
            specs.append(word)
    return specs


class SpecCondition(Struct, frozen=True):
    """A condition of a spec filter; `test` tells whether a spec with this hash and signature meets the condition.

    `what` is the attribute that the condition is about, for messages; `values` returns a signature's values of it.
    """

    what: str
    test: Callable[[str, Signature], bool]
    values: Callable[[Signature], tuple[str, ...]] = lambda _: ()
    variant: str = ""  # its name


class SpecPattern:
    """A filter for specs in Spack's syntax: NAME@VERSIONS%COMPILER+VARIANT KEY=VALUE target=T os=O arch=A /HASH.

    A filter without NAME matches all packages.
    """

    def __init__(self, text: str) -> None:
        begin = _NAME.match(text)
        self.text, self.package, end = text, begin[1] if begin else "", begin.end() if begin else 0
        self.conditions: list[SpecCondition] = []
        compilers: list[tuple[int, SpecCondition]] = []
        while text[end:].strip():
            part = _SPEC_PART.match(text, end)
            if part is None and (rest := text[end:].lstrip()).startswith("^"):
                raise UsageError(f"{text}: documents do not say what a spec depends on; leave out {rest}")
            if part is None:
                raise UsageError(
                    f"{text}: {text[end:]!r} cannot be understood; write NAME@1.2:%gcc@12+mpi api=v1 target=zen4: os=rhel9"
                    " arch=linux-rhel9-zen4 /HASH"
                )
            if part["compiler"]:
                compilers.append(_compiler_condition(part, text))
            else:
                self.conditions += _conditions(part, text)
            end = part.end()
        chosen = min((language for language, _ in compilers), default=0)
        self.conditions += [condition for language, condition in compilers if language == chosen]
        if self.conditions and not self.package:
            self.package = "*"

    def __call__(self, spec_hash: str, signature: Signature) -> bool:
        """Tell whether a spec matches; the name of its package is not tested."""
        return all(condition.test(spec_hash, signature) for condition in self.conditions)

    @property
    def says_only_versions(self) -> bool:
        """Whether all conditions are about versions."""
        return all(condition.what == "versions" for condition in self.conditions)


def _compiler_condition(part: re.Match[str], text: str) -> tuple[int, SpecCondition]:
    """Return two parts for the compiler in `part`: the lowest index of its languages in LANGUAGES, and a condition."""
    languages = (part["languages"] or "c").split(",")
    if not set(languages) <= set(LANGUAGES):
        raise UsageError(
            f"{text}: documents do not say what a spec depends on, only its compiler: write %gcc or %c,cxx=gcc"
        )
    own, chosen = Globs(every_compiler([part["compiler"]])), Versions(filter(None, [part["compiler_versions"]]))
    return min(map(LANGUAGES.index, languages)), SpecCondition(
        "compilers",
        lambda _, signature: own(signature.compiler) and chosen(signature.compiler.partition("@")[2]),
        VALUES["compilers"],
    )


def _conditions(part: re.Match[str], text: str) -> Iterator[SpecCondition]:
    if part["versions"]:
        ranges = Versions([part["versions"]])
        yield SpecCondition("versions", lambda _, signature: any(map(ranges, signature.versions)), VALUES["versions"])
    elif part["hash"]:
        yield SpecCondition("hashes", lambda spec_hash, _: spec_hash.startswith(part["hash"]))
    elif part["switch"]:
        yield _variant_condition(part["switch"], "~" if "-" in part["sign"] else part["sign"][0])
    else:
        key, value = part["key"], part["value"].strip("\"'")
        if key == "arch":
            if len(names := value.split("-", 2)) < len(("platform", "os", "target")):
                raise UsageError(f"{text}: write arch=PLATFORM-OS-TARGET, such as arch=linux-rhel9-zen4")
            wanted = [each for each in zip(_FIELDS, names, strict=False) if each[1] != "None"]
            yield from (_field_condition(field, name) for field, name in wanted)
        elif key in _FIELDS:
            yield _field_condition(key, value)
        elif value.lower() in ("true", "false"):
            yield _variant_condition(key, "+" if value.lower() == "true" else "~")
        else:
            yield _value_condition(key, value, is_exact=part["equals"].startswith(":"))


def _field_condition(key: str, listed: str) -> SpecCondition:
    """Return the condition that field `key` has one of the `listed` values: names, globs, target ranges (zen2:)."""
    what, of = _FIELDS[key]
    names = [each for each in listed.split(",") if key != "target" or ":" not in each]
    ranges = [each.partition(":") for each in listed.split(",") if each not in names]
    matches = Globs(names)

    def test(_: str, signature: Signature) -> bool:
        return bool(names and any(map(matches, of(signature)))) or any(
            (not low or runs(signature.target, low)) and (not high or runs(high, signature.target))
            for low, _, high in ranges
        )

    return SpecCondition(what, test, of)


def _variant_condition(name: str, sign: str) -> SpecCondition:
    wanted = {f"{sign}{name}", f"{sign}{sign}{name}"}
    return SpecCondition(
        "variants", lambda _, signature: not wanted.isdisjoint(signature.variants), VALUES["variants"], name
    )


def _value_condition(name: str, value: str, *, is_exact: bool) -> SpecCondition:
    """Return the condition that variant `name` has all values in `value`, `a,b`, or any value if that is `*`.

    If `is_exact`, the variant must have no other values.
    """
    wanted = _values_of(next(iter(variants((f"{name}={value}",)))))

    def test(_: str, signature: Signature) -> bool:
        own = next((_values_of(each) for each in signature.variants if variant_name(each) == name), None)
        return own is not None and (value == "*" or (own == wanted if is_exact else own >= wanted))

    return SpecCondition("variants", test, VALUES["variants"], name)


def _values_of(variant: str) -> frozenset[str]:
    """Return the values of `variant`; compiler flags, which may contain commas, are split at spaces."""
    value = variant.partition("=")[2]
    return frozenset(value.split() if value.startswith("-") else value.split(","))


def no_tag_matches(wanted: Wanted, there: Sequence[str]) -> str:
    """Return the message that `wanted`, patterns or a function, selects none of the tags `there`."""
    asked = wanted if isinstance(wanted, Globs) else Globs()
    named = "".join(f" {pattern}" for pattern in asked.patterns)
    return f"no tag matches{named}; there are {', '.join(there[:8])}{', ...' if there[8:] else ''}{asked.meant(there)}"
