"""Names and layouts: the order of tags, which files may be documents, and names that are similar to others.

`develop` is rebuilt every day, `develop-2025-06-01` is a snapshot of one day, `v0.23.1` a release.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property

from msgspec import Struct

from cachewatch.core.versions_spellings_targets import version_key
from cachewatch.errors import UsageError

_SNAPSHOT = re.compile(r"(?P<series>.+)-(?P<day>\d{4}-\d{2}-\d{2})")
_RELEASE = re.compile(r"v\d+(\.\d+)*")


def series(tag: str) -> str | None:
    """Return the series of a tag: the branch of a snapshot, `v` for a release, or None for any other tag."""
    found = _SNAPSHOT.fullmatch(tag)
    return found["series"] if found else "v" if _RELEASE.fullmatch(tag) else None


def is_snapshot(tag: str) -> bool:
    """Tell whether `tag` is the snapshot of a branch on one day; upstream deletes old snapshots."""
    return _SNAPSHOT.fullmatch(tag) is not None


def day_of_snapshot(tag: str) -> str:
    """Return the day of a snapshot, such as 2026-11-01; "" if the tag is not a snapshot."""
    match = _SNAPSHOT.fullmatch(tag)
    return match["day"] if match else ""


def is_mutable(tag: str | None) -> bool:
    """Return False if `tag` is a snapshot or a release, whose specs never change; True for others, and for None."""
    return tag is None or series(tag) is None


def predecessors(tags: Iterable[str]) -> dict[str, str]:
    """Return, by tag, the tag before it in its series; tags without a series, and each first one, are left out."""
    before: dict[str, str] = {}
    newest: dict[str, str] = {}  # by series
    for tag in sorted(tags, key=version_key):
        if own := series(tag):
            if own in newest:
                before[tag] = newest[own]
            newest[own] = tag
    return before


def in_order(tags: Iterable[str]) -> list[str]:
    """Return tags in the order of the catalogue: branches, then releases and snapshots, each from the newest."""

    def rank(tag: str) -> tuple[int, str]:
        own = series(tag)
        return (0, tag) if own is None else (1, "") if own == "v" else (2, own)

    return sorted(sorted(tags, key=version_key, reverse=True), key=rank)


CATALOGUE = "_cache"
DOCUMENT = "specs.md"
TAGS_FILE = "_data/tags.yaml"
DEFAULT_TAG = "develop"
PUBLIC_REPOSITORY = "https://github.com/spack/cache.spack.io.git"  # of Spack's public build caches

_PUBLIC_NAME = PUBLIC_REPOSITORY.partition("://")[2].removesuffix(".git")
_PUBLIC_MIRROR = "https://binaries.spack.io/{tag}"  # where Spack installs what that lists

# Files beside the documents of a recorded build cache.
PACKAGE_GRAPH = "graph.json"  # the dependencies of the specs of a package
TAG_GRAPH = ".graph.json"  # the specs of a tag without a binary

Wanted = Callable[[str], bool]  # tells whether a package, or a tag, of this name is selected

_NAME = re.compile(rb"[A-Za-z0-9._+@-]{1,128}")
ENDINGS = (".md", ".markdown", ".txt")
_PART = re.compile(r"\{tag\}|\{package\}|\*|[^{}*]+")
_AS_UPSTREAM = f"/{{tag}}/{{package}}/{DOCUMENT}"
_AS_REGEX = {"{tag}": "(?P<tag>[^/]+)", "{package}": "(?P<package>[^/]+)", "*": "[^/]*"}


def is_name(name: bytes) -> bool:
    """Tell whether `name` is allowed as the name of a tag or package."""
    return _NAME.fullmatch(name) is not None and name.strip(b".") != b"" and name.lower() != b".git"


def public_mirror(catalogue: str) -> str | None:
    """Return the URL of Spack's mirror, with {tag} in it, if `catalogue` is the URL of Spack's catalogue; else None."""
    return _PUBLIC_MIRROR if catalogue.removesuffix("/").removesuffix(".git").endswith(_PUBLIC_NAME) else None


class Layout(Struct, frozen=True, dict=True):
    """Where the documents of a repository are: as `pattern` says or, if that is "", in `_cache/`, or else anywhere.

    A pattern is a path such as `catalogue/{tag}/{package}/specs.md`. Each placeholder, and each `*`, matches a name or
    a part of one; a repeated placeholder, the same text. Without `_cache/`, any text file with records is a document.
    """

    pattern: str = ""

    @classmethod
    def parse(cls, pattern: str) -> "Layout":
        """Return the layout of a pattern that a user wrote. Raises UsageError if the pattern is invalid."""
        pattern = pattern.removeprefix("./")
        if problem := _problem(pattern):
            raise UsageError(f"{pattern!r} {problem}; write a pattern such as 'catalogue/{{tag}}/{{package}}/specs.md'")
        return cls(pattern)

    @property
    def reads_contents(self) -> bool:
        """Whether the tag of a document is known only from its content."""
        return "{tag}" not in self.pattern

    @property
    def wanted(self) -> str:
        """A description of the files that are documents, for messages."""
        if self.pattern:
            return f"files {self.pattern}"
        return (
            f"{CATALOGUE}/<tag>/<package>/{DOCUMENT}, or *.md, *.markdown and *.txt files that begin with --- and have"
            " spec_details"
        )

    @property
    def catalogue(self) -> str:
        """The folder of all tags, if tags and packages are folders as in Spack's repository; else ""."""
        fixed = self.pattern.removesuffix(_AS_UPSTREAM) if self.pattern else CATALOGUE
        return "" if "{" in fixed or "*" in fixed else fixed

    @property
    def folder(self) -> str:
        """The folder that contains all documents; "" if documents may be anywhere."""
        return re.split(r"[{*]", self.pattern, maxsplit=1)[0].rpartition("/")[0]

    @property
    def pathspecs(self) -> tuple[str, ...]:
        """The pathspecs with which git finds all files that may be documents."""
        if self.pattern:
            return (f":(glob){re.sub(r'{tag}|{package}', '*', self.pattern)}",)
        return (f":(literal){CATALOGUE}", *(f":(glob)**/*{ending}" for ending in ENDINGS))

    def may_be(self, path: str) -> bool:
        """Tell whether the file at `path`, which is relative to the root and has slashes, may be a document."""
        return self._regex.fullmatch(path) is not None if self.pattern else path.endswith(ENDINGS)

    def names(self, path: str, title: str = "", category: str = "") -> tuple[str, str]:
        """Return tag and package of a document: by the pattern, else by `category` and `title`, else by `path`."""
        if self.pattern:
            found = self._regex.fullmatch(path)
            named = found.groupdict() if found else {}
            return named.get("tag") or category or DEFAULT_TAG, named.get("package") or title
        *folders, name = path.split("/")
        # If each package has its own folder, the file may have any name.
        is_alone = bool(folders) and (folders[-1] == title or name == DOCUMENT)
        package = title or (folders[-1] if is_alone else name.rpartition(".")[0])
        return category or "".join(folders[:-1][-1:] if is_alone else folders[-1:]) or DEFAULT_TAG, package

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        text = "".join(_AS_REGEX.get(part, re.escape(part)) for part in _PART.findall(self.pattern))
        for name in ("tag", "package"):
            first, group, others = text.partition(_AS_REGEX[f"{{{name}}}"])
            text = f"{first}{group}{others.replace(group, f'(?P={name})')}" if group else text
        return re.compile(text)


ANYWHERE = Layout()  # if the user names none


def not_compared(what: str) -> str:
    """Return the message that documents outside `_cache/` are not compared; it begins with `what`, such as "2 are "."""
    return f"{what}not compared: where there is {CATALOGUE}/, documents are {CATALOGUE}/<tag>/<package>/{DOCUMENT}"


def why_contested(paths: Sequence[str], root: str = "") -> str:
    """Return the message that the files `paths` in `root` are documents of the same package and tag."""
    more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
    return f"{root}{paths[0]} and {root}{paths[1]}{more} are documents of the same package and tag; keep one of them"


def _problem(pattern: str) -> str:
    if "{package}" not in pattern:
        return "lacks {package}, the place where the names of packages are"
    if "".join(_PART.findall(pattern)) != pattern:
        return "has other placeholders than {tag} and {package}"
    if pattern.startswith("/") or any(part in ("", ".", "..") for part in pattern.split("/")):
        return "is no path from the root of the repository on"
    return "" if pattern.isprintable() else "has control characters"


def similar(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return up to `most` of `names` that resemble `name`, the most similar first."""
    return get_close_matches(name, list(names), most)


def did_you_mean(name: str, names: Iterable[str], most: int = 3) -> str:
    """Return the end of a message that suggests similar names ("; did you mean ...?"), or "" if none is similar."""
    near = similar(name, names, most)
    return f"; did you mean {' or '.join(near)}?" if near else ""
