"""Which files of a revision or a folder are documents, and of which packages and tags.

`_cache/<tag>/<package>/specs.md` is what upstream has. Where there is none, a document is known by what it is: a text
file whose front matter has records (documents/recognizing.py). A pattern may say instead where documents are.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property

from msgspec import Struct

from cachewatch.errors import UsageError

CATALOGUE = "_cache"
DOCUMENT = "specs.md"
TAGS_FILE = "_data/tags.yaml"
DEFAULT_TAG = "develop"
# The catalogue of Spack's public build caches.
PUBLIC_REPOSITORY = "https://github.com/spack/cache.spack.io.git"

# Beside the documents of a recorded build cache: what each spec of a package was made of, and, in the folder of a
# tag, the specs that are no binaries. No rule of the layout takes them for documents.
PACKAGE_GRAPH = "graph.json"
TAG_GRAPH = ".graph.json"

# Chooses packages by name.
Wanted = Callable[[str], bool]

_NAME = re.compile(rb"[A-Za-z0-9._+@-]{1,128}")
_ENDINGS = (".md", ".markdown", ".txt")
_PART = re.compile(r"\{tag\}|\{package\}|\*|[^{}*]+")
_AS_UPSTREAM = f"/{{tag}}/{{package}}/{DOCUMENT}"
_AS_REGEX = {"{tag}": "(?P<tag>[^/]+)", "{package}": "(?P<package>[^/]+)", "*": "[^/]*"}


def is_name(name: bytes) -> bool:
    """Tell whether a tag or a package can be called `name`."""
    return _NAME.fullmatch(name) is not None and name.strip(b".") != b"" and name.lower() != b".git"


class Layout(Struct, frozen=True, dict=True):
    """Where documents are; without a pattern, `_cache/` or else wherever a file is one.

    A pattern is a path such as `catalogue/{tag}/{package}/specs.md`. Each placeholder, and `*`, stands for one name or
    a part of it.
    """

    pattern: str = ""

    @classmethod
    def parse(cls, pattern: str) -> "Layout":
        """Return the layout of a pattern that a user wrote; raises UsageError with what is wrong with it."""
        pattern = pattern.removeprefix("./")
        problem = _problem(pattern)
        if problem:
            raise UsageError(f"{pattern!r} {problem}; write a pattern such as 'catalogue/{{tag}}/{{package}}/specs.md'")
        return cls(pattern)

    @property
    def reads_contents(self) -> bool:
        """Whether it takes the content of a document to know its tag."""
        return "{tag}" not in self.pattern

    @property
    def wanted(self) -> str:
        """What is looked for, in words."""
        if self.pattern:
            return f"files {self.pattern}"
        return (
            f"{CATALOGUE}/<tag>/<package>/{DOCUMENT}, or *.md, *.markdown and *.txt files that begin with --- and have"
            " spec_details"
        )

    @property
    def catalogue(self) -> str:
        """The folder of all tags where packages have folders as upstream has them; "" if this layout has none."""
        fixed = self.pattern.removesuffix(_AS_UPSTREAM) if self.pattern else CATALOGUE
        return "" if "{" in fixed or "*" in fixed else fixed

    @property
    def folder(self) -> str:
        """The folder below which all documents are; "" is everywhere."""
        fixed, _, _ = re.split(r"[{*]", self.pattern, maxsplit=1)[0].rpartition("/")
        return fixed

    @property
    def pathspecs(self) -> tuple[str, ...]:
        """What git is to look at for all files that may be documents."""
        if self.pattern:
            return (f":(glob){re.sub(r'{tag}|{package}', '*', self.pattern)}",)
        return (f":(literal){CATALOGUE}", *(f":(glob)**/*{ending}" for ending in _ENDINGS))

    def may_be(self, path: str) -> bool:
        """Tell whether the file at `path`, with slashes and from the root on, may be a document."""
        return self._regex.fullmatch(path) is not None if self.pattern else path.endswith(_ENDINGS)

    def may_be_called(self, name: str) -> bool:
        """Tell whether a file of this name may be a document in some folder."""
        return bool(self.pattern) or name.endswith(_ENDINGS)

    def names(self, path: str, title: str = "", category: str = "") -> tuple[str, str]:
        """Return the tag and the package of the document at `path`, which says itself that it is of the other two."""
        if self.pattern:
            found = self._regex.fullmatch(path)
            named = found.groupdict() if found else {}
            return named.get("tag") or category or DEFAULT_TAG, named.get("package") or title
        *folders, name = path.split("/")
        # Where each package has a folder, the file has any name.
        is_alone = bool(folders) and (folders[-1] == title or name == DOCUMENT)
        package = title or (folders[-1] if is_alone else name.rpartition(".")[0])
        return category or "".join(folders[:-1][-1:] if is_alone else folders[-1:]) or DEFAULT_TAG, package

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        parts = _PART.findall(self.pattern)
        return re.compile("".join(_AS_REGEX.get(part, re.escape(part)) for part in parts))


# What holds unless somebody says otherwise.
ANYWHERE = Layout()


def why_contested(paths: Sequence[str]) -> str:
    """Say that these files are of one package and tag."""
    more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
    return f"{paths[0]} and {paths[1]}{more} are documents of the same package and tag; keep one of them"


def _problem(pattern: str) -> str:
    if "{package}" not in pattern:
        return "lacks {package}, the place where the names of packages are"
    if any(pattern.count(name) > 1 for name in ("{tag}", "{package}")):
        return "has a placeholder twice"
    if "".join(_PART.findall(pattern)) != pattern:
        return "has other placeholders than {tag} and {package}"
    if pattern.startswith("/") or any(part in ("", ".", "..") for part in pattern.split("/")):
        return "is no path from the root of the repository on"
    return "" if pattern.isprintable() else "has control characters"
