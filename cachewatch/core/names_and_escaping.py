"""Names: the order of tags, which files are documents, similar names, and how names and other text are shown safely.

`develop` is rebuilt every day, `develop-2025-06-01` is a snapshot of one day, `v0.23.1` a release. Documents are at
`_cache/<tag>/<package>/specs.md`, or where a pattern says, or else wherever a text file has records in its front matter
(documents/parsing_and_recognition.py). Names are untrusted: control and look-alike characters are escaped before a
terminal, log or table shows them, and in what channels send.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256

from msgspec import Struct

from cachewatch.core.versions_spellings_targets import version_key
from cachewatch.errors import UsageError

_SNAPSHOT = re.compile(r"(?P<series>.+)-\d{4}-\d{2}-\d{2}")
_RELEASE = re.compile(r"v\d+(\.\d+)*")


def series(tag: str) -> str | None:
    """Return the series of a tag: the branch of a snapshot, `v` for a release, or None for any other tag."""
    if match := _SNAPSHOT.fullmatch(tag):
        return match["series"]
    return "v" if _RELEASE.fullmatch(tag) else None


def is_snapshot(tag: str) -> bool:
    """Tell whether `tag` is the snapshot of a branch on one day; upstream deletes old snapshots."""
    return _SNAPSHOT.fullmatch(tag) is not None


def is_mutable(tag: str | None) -> bool:
    """Tell whether the specs of `tag` change; those of snapshots and releases do not."""
    return tag is None or series(tag) is None


def predecessors(tags: Iterable[str]) -> dict[str, str]:
    """Return the tag before each of `tags` in its series; tags without one are left out."""
    found: dict[str, str] = {}
    newest: dict[str, str] = {}  # by series
    for tag in sorted(tags, key=version_key):
        if own := series(tag):
            if own in newest:
                found[tag] = newest[own]
            newest[own] = tag
    return found


def in_order(tags: Iterable[str]) -> list[str]:
    """Sort tags in the order of the catalogue: branches, releases from the newest, snapshots from the newest."""
    newest_first = sorted(tags, key=version_key, reverse=True)
    return sorted(newest_first, key=_rank)


def _rank(tag: str) -> tuple[int, str]:
    own = series(tag)
    if own is None:
        return (0, tag)
    return (1, "") if own == "v" else (2, own)


CATALOGUE = "_cache"
DOCUMENT = "specs.md"
TAGS_FILE = "_data/tags.yaml"
DEFAULT_TAG = "develop"
# The catalogue of Spack's public build caches.
PUBLIC_REPOSITORY = "https://github.com/spack/cache.spack.io.git"

# Files beside the documents of a recorded build cache: the dependencies of the specs of a package, and, in the folder
# of a tag, the specs without a binary. No layout takes them for documents.
PACKAGE_GRAPH = "graph.json"
TAG_GRAPH = ".graph.json"

# Tells whether a package of this name is selected.
Wanted = Callable[[str], bool]

_NAME = re.compile(rb"[A-Za-z0-9._+@-]{1,128}")
ENDINGS = (".md", ".markdown", ".txt")
_PART = re.compile(r"\{tag\}|\{package\}|\*|[^{}*]+")
_AS_UPSTREAM = f"/{{tag}}/{{package}}/{DOCUMENT}"
_AS_REGEX = {"{tag}": "(?P<tag>[^/]+)", "{package}": "(?P<package>[^/]+)", "*": "[^/]*"}


def is_name(name: bytes) -> bool:
    """Tell whether `name` is allowed as the name of a tag or package."""
    return _NAME.fullmatch(name) is not None and name.strip(b".") != b"" and name.lower() != b".git"


class Layout(Struct, frozen=True, dict=True):
    """Where the documents of a repository are: where the pattern says or, without one, in `_cache/` or anywhere.

    A pattern is a path such as `catalogue/{tag}/{package}/specs.md`. Each placeholder, and `*`, stands for one name or
    a part of it. Without `_cache/`, any text file with records is a document.
    """

    pattern: str = ""

    @classmethod
    def parse(cls, pattern: str) -> "Layout":
        """Return the layout of a pattern that a user wrote. Raises UsageError if the pattern is invalid."""
        pattern = pattern.removeprefix("./")
        problem = _problem(pattern)
        if problem:
            raise UsageError(f"{pattern!r} {problem}; write a pattern such as 'catalogue/{{tag}}/{{package}}/specs.md'")
        return cls(pattern)

    @property
    def reads_contents(self) -> bool:
        """Whether the content of a document must be read to know its tag."""
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
        """The folder that contains all documents; "" for anywhere."""
        fixed, _, _ = re.split(r"[{*]", self.pattern, maxsplit=1)[0].rpartition("/")
        return fixed

    @property
    def pathspecs(self) -> tuple[str, ...]:
        """The pathspecs with which git finds all files that may be documents."""
        if self.pattern:
            return (f":(glob){re.sub(r'{tag}|{package}', '*', self.pattern)}",)
        return (f":(literal){CATALOGUE}", *(f":(glob)**/*{ending}" for ending in ENDINGS))

    def may_be(self, path: str) -> bool:
        """Tell whether the file at `path`, relative to the root and with slashes, may be a document."""
        return self._regex.fullmatch(path) is not None if self.pattern else path.endswith(ENDINGS)

    def may_be_called(self, name: str) -> bool:
        """Tell whether a file with this name may be a document, whatever its folder."""
        return bool(self.pattern) or name.endswith(ENDINGS)

    def names(self, path: str, title: str = "", category: str = "") -> tuple[str, str]:
        """Return the tag and package of a document; its content names the tag `category` and the package `title`."""
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
        parts = _PART.findall(self.pattern)
        return re.compile("".join(_AS_REGEX.get(part, re.escape(part)) for part in parts))


# The layout if the user names none.
ANYWHERE = Layout()


def not_compared(what: str) -> str:
    """Return the message that documents outside `_cache/` are not compared; `what` counts them, or is ""."""
    return f"{what}not compared: where there is {CATALOGUE}/, documents are {CATALOGUE}/<tag>/<package>/{DOCUMENT}"


def why_contested(paths: Sequence[str]) -> str:
    """Return the message that these files are documents of the same package and tag."""
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


def similar(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return up to `most` of `names` that resemble `name`, the most similar first."""
    return get_close_matches(name, list(names), most)


def did_you_mean(name: str, names: Iterable[str], most: int = 3) -> str:
    """Return the end of a message that suggests similar names ("; did you mean ...?"), or "" if none is similar."""
    near = similar(name, names, most)
    return f"; did you mean {' or '.join(near)}?" if near else ""


# Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 16.0.0, with the unassigned ones.
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# The rest of the category Cf: marks that enclose or annotate what follows.
_FORMATS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
# C0 and C1 controls, separators of lines and paragraphs, surrogates, and noncharacters.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_HALVES = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)
)

# Characters that change the direction of text.
_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"

# Characters that HTML and XML must not contain. Those of emoji are allowed, and so are tab and newline.
UNFIT = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\U000e0000-\U000e007f" + _TURNING + _HALVES
# Characters that are not visible. Both are the contents of character classes of regular expressions.
UNSEEN = _CONTROLS + IGNORABLE + _FORMATS + _HALVES
_UNSEEN = re.compile(f"[{UNSEEN}]")
_NOT_ASCII = re.compile(r"[^ -~]")


def safe(text: str) -> str:
    """Return `text` with every invisible character replaced by an escape."""
    return _UNSEEN.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def safe_name(text: str) -> str:
    """Return an untrusted name for display, with everything but ASCII escaped, so that no two names look alike."""
    return _NOT_ASCII.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def shortened(text: str, most: int) -> str:
    """Return `text` cut to `most` characters, with dots at the end; between words unless half would be lost."""
    if len(text) <= most:
        return text
    words = text[: most - 3].rpartition(" ")[0].rstrip()
    return f"{words} ..." if 2 * len(words) > most else f"{text[: most - 3].rstrip()}..."


def safe_lines(text: str) -> str:
    """Return a text of several lines, each made safe for display."""
    return "\n".join(map(safe, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def web_address(address: str | None) -> str | None:
    """Return `address` if mails may link to it (http, https or mailto), else None."""
    allowed = ("https://", "http://", "mailto:")
    return safe(address) if address and address.startswith(allowed) else None


_UNFIT = re.compile(f"[{UNFIT}]")
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9._+~-]+")


def one_line(text: str, most: int = 200) -> str:
    """Return `text` as one line of at most `most` characters, with invisible characters escaped."""
    return shortened(safe(" ".join(text.split())), most)


def one_word(text: str) -> str:
    """Return an ASCII word made from `text` for use in identifiers; different texts give different words."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60]
    return word if word == text else f"{word}-{hash_mark(text)}".lstrip("-")


def file_name(text: str) -> str:
    """Return a file name made from `text`; different texts give different names."""
    name = _UNFIT_FOR_NAME.sub("-", text).lstrip(".-")[:100]
    return name if name and name == text else f"{name or 'x'}-{hash_mark(text)}"


def plain_lines(text: str) -> str:
    """Return a text of several lines with all invisible characters escaped, and tabs as spaces."""
    lines = text.replace("\r\n", "\n").expandtabs().split("\n")
    return "\n".join(map(safe, lines))


def markup(text: str) -> str:
    """Return HTML or XML without forbidden characters and without those that reverse the direction of text."""
    return _UNFIT.sub("\ufffd", text.replace("\r\n", "\n"))


def hash_mark(text: str) -> str:
    """Return eight hexadecimal digits of a hash of `text`."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
