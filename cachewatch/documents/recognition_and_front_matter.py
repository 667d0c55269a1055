"""The front matter of a document: split it into lines, or read it as YAML, and check limits; also tags files.

A file outside of a folder like `_cache/` is a document if its front matter has the key `spec_details`.
The limits are far above any real document, and low enough to compare one in seconds (docs/limits.md lists them).

Lines that are not as the generator writes them are read as JSON or YAML. PyYAML's C composer crashes on deeply nested
text, so its events are checked first. Every scalar stays text, as written: 1.10 is a version, not a number.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, NoReturn

import yaml
from msgspec import Struct

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind, Facts, Signature
from cachewatch.core.names_and_layouts import Layout, in_order, is_name
from cachewatch.core.versions_spellings_targets import UNION_STACK
from cachewatch.errors import DocumentError, UnreadableDocument

MAX_BYTES = 32 * 2**20  # the largest real document has 333 kB; beyond this something else was committed
MAX_ENTRIES = 200_000  # of a folder; a catalogue of the whole public cache has some 10,000 in a tag
EMPTY = "is empty"  # why an empty document cannot be read
# A document in another form than the generator's takes up to 200 times its size in memory while it is read.
MAX_PATIENT_BYTES = 2**20
MAX_EVENTS = 100_000  # of YAML: each mapping, list and value is one or two

MAX_UNLIKE = 5_000  # signatures: real documents have tens
MAX_STACKS = 1_000
MAX_IN_RECORD = 1_000  # variants, or versions, of one spec
MAX_PLACES = 20_000  # versions times stacks, of all signatures: real documents have hundreds
MAX_VALUE = 1024  # characters
MAX_VARIANT = 4096  # one variant may list the checksums of dozens of patches
MAX_MESSAGE = 300


def check(signatures: Mapping[Signature, int], facts: Facts) -> None:
    """Raise UnreadableDocument if a document exceeds a limit; it has specs of these `signatures` and these `facts`."""
    _limit(len(signatures), MAX_UNLIKE, "has {} specs that differ in more than their hash")
    places = sum(len(signature.versions) * len(signature.stacks) for signature in signatures)
    _limit(places, MAX_PLACES, "has {} versions in stacks")
    _limit(len(facts["stacks"]), MAX_STACKS, "names {} stacks")
    for name, values in facts.items():
        most = MAX_VARIANT if name == "variants" else MAX_VALUE
        _limit(max(map(len, values), default=0), most, "names one of its {1} with {0} characters", name)
    for name in ("variants", "versions"):
        longest = max(map(len, map(attrgetter(name), signatures)), default=0)
        _limit(longest, MAX_IN_RECORD, "has a spec of {} {}", name)


def _limit(count: int, most: int, problem: str, name: str = "") -> None:
    if count > most:
        raise UnreadableDocument(f"{problem.format(f'{count:,}', name)}; the limit is {most:,}")


def brief(message: str) -> str:
    """Return `message`, cut to 300 characters if it is longer."""
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."


_MAX_DEPTH = 64
_MANY_KEYS = 1_000  # documents have ten, and each costs as much as a small document
# The start of a key's first line; other lines continue a value. In quotes, only our keys count: broken JSON has others.
_KEY = re.compile(r"""(?:([\w.-]+)|(["'])(title|layout|categories|meta|spec_details)\2) *:(?= |$)""")
_COMMENT = re.compile("^#.*", re.MULTILINE)
_TOO_MUCH = f"is not written as the generator writes documents; of such the limit is {MAX_PATIENT_BYTES // 2**20} MiB"
_NOT_NUMBERS = {"nan", ".nan", "infinity", "-infinity", "inf", ".inf", "-.inf", "+.inf"}
BOM = b"\xef\xbb\xbf"
_LFS_POINTER = b"version https://git-lfs"
_PLAIN_TITLE = re.compile(r'"([^"\\]*)"|([^"\'&*!|>{\[%@`#,:][^#:]*)')
_PLAIN_CATEGORIES = re.compile(r"\[([A-Za-z0-9._+@ ,-]*)\]")
_MARKERS = ("<<<<<<<", ">>>>>>>")
_USUAL_KEYS = {"title", "layout", "categories", "meta", "spec_details"}


class FrontMatter(Struct, frozen=True):
    """The values that are used of a document's front matter; `is_legacy` means that it has the form of 2022."""

    title: str
    tag: str
    # JSON text if it was split by lines; values if it was read as YAML, with all scalars as text. None without the key.
    details: Any
    meta: Any
    is_legacy: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether `meta` says that the document has no specs."""
        if isinstance(self.meta, str):
            return re.search(r'"num_specs": *0\b', self.meta) is not None
        return isinstance(self.meta, dict) and self.meta.get("num_specs") == "0"


def split(data: bytes) -> FrontMatter | None:
    """Split the front matter of `data` by lines; return None if it must be read as YAML. Raises UnreadableDocument."""
    values: dict[str, str] = {}
    for line in front_lines(data):
        if not line or line.isspace():
            continue
        end = line.find(":")
        key = line[:end]
        if key not in _USUAL_KEYS or not (line.startswith(" ", end + 1) or len(line) == end + 1):
            return None
        if key in values:
            raise UnreadableDocument(f"the key {key!r} stands twice")
        values[key] = line[end + 2 :].strip(" ")  # one line is nearly all of the document: it is copied once
    text = values.get("title", "")
    title = _PLAIN_TITLE.fullmatch(text)
    tag = _PLAIN_CATEGORIES.fullmatch(values.get("categories", "[]"))
    is_json = values.get("spec_details", "[").startswith("[") and values.get("meta", "{").startswith("{")
    if (text and title is None) or tag is None or not is_json:
        return None
    return FrontMatter(
        title=(text if title is None or title[1] is None else title[1]).strip(),
        tag=tag[1].split(",")[1].strip() if "," in tag[1] else "",
        details=values.get("spec_details"),
        meta=values.get("meta"),
    )


def front_lines(data: bytes) -> list[str]:
    """Return the lines of `data` between its two `---`, without line ends. Raises UnreadableDocument if it has none."""
    if data.startswith(_LFS_POINTER):
        raise UnreadableDocument("a Git LFS pointer, not the document; fetch the content with git lfs")
    try:
        text = data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableDocument("is not UTF-8") from error
    lines, start = [], 0
    # `str.split` looks at each character, `find` is faster on the one line that is nearly all of the text.
    while (end := text.find("\n", start)) >= 0:
        lines.append(text[start:end])
        start = end + 1
    lines.append(text[start:])
    if lines[0].endswith("\r"):
        lines = [line.removesuffix("\r") for line in lines]
    if any(line.startswith(_MARKERS) for line in lines):
        raise UnreadableDocument("holds the markers of an unresolved merge conflict")
    if not text or text.isspace():
        raise UnreadableDocument(EMPTY)
    if lines[0].rstrip() != "---":
        raise UnreadableDocument("does not begin with the line --- that opens a document")
    for number, line in enumerate(lines[1:], 1):
        if line.startswith("---") and line.rstrip() == "---":
            return lines[1:number]
    raise UnreadableDocument("ends before the line --- that closes it; it was cut off")


class _TextLoader(yaml.CSafeLoader):
    """PyYAML's safe loader, changed to leave every scalar as text."""


_TextLoader.yaml_implicit_resolvers = {}


def read_yaml(data: bytes) -> FrontMatter:
    """Return the front matter of `data`, a document in any form. Raises UnreadableDocument with the reason."""
    if len(data) > MAX_PATIENT_BYTES:
        raise UnreadableDocument(_TOO_MUCH)
    lines = front_lines(data)
    values = _values_by_key(lines)
    if values is None:
        values = load_yaml("\n".join(lines))
    if not isinstance(values, dict):
        raise UnreadableDocument("the front matter is not a mapping")
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UnreadableDocument("holds half a character (a lone surrogate)") from error
    except RecursionError as error:
        raise UnreadableDocument("is nested too deeply") from error
    categories = values.get("categories")
    return FrontMatter(
        title=str(values.get("title", "")),
        tag=str(categories[1]) if isinstance(categories, list) and len(categories) > 1 else "",
        details=values.get("spec_details"),
        meta=values.get("meta"),
        is_legacy="spec_files" in values,
    )


def load_yaml(text: str) -> Any:
    """Return the value of `text`, untrusted YAML, with scalars as text. Raises UnreadableDocument if it is unusable."""
    if len(text) > MAX_PATIENT_BYTES:
        raise UnreadableDocument(_TOO_MUCH)
    try:
        _check_events(text)
        return yaml.load(text, Loader=_TextLoader)  # noqa: S506  a subclass of the safe loader
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 2}, column {mark.column + 1})" if mark else ""
        raise UnreadableDocument(f"cannot be read as YAML: {problem}{where}") from error


def _values_by_key(lines: list[str]) -> dict[str, Any] | None:
    """Return the value of each key, read from its own lines; None if `lines` can only be read together, as YAML."""
    texts: list[list[str]] = []
    for line in lines:
        if _KEY.match(line):
            texts.append([line])
        elif texts:
            texts[-1].append(line)
        elif line and not line.isspace() and not line.startswith("#"):
            return None
    if len(texts) > _MANY_KEYS:
        return None
    values: dict[str, Any] = {}
    for text in map("\n".join, texts):
        key = _KEY.match(text)
        pairs = _value(key[1] or key[3], text[key.end() :].strip(" "), text) if key else None
        if pairs is None:
            return None
        for name in values.keys() & pairs.keys():
            raise UnreadableDocument(f"the key {name!r} stands twice")
        values |= pairs
    return values


def _value(name: str, value: str, text: str) -> dict[str, Any] | None:
    """Return {`name`: its value}, from `value` as JSON or from the whole entry, `text`, as YAML; None if both fail."""
    if value.startswith(("{", "[")):
        value = _COMMENT.sub("", value)
        if name == "meta" and value.startswith("{"):
            return {name: value}  # records_parsing_diagnostics.py reports its errors; the document stays readable
        try:
            how: dict[str, Any] = {"parse_constant": _refuse_constant, "parse_float": str, "parse_int": str}
            return {name: json.loads(value, object_pairs_hook=_unique, **how)}
        except RecursionError as error:
            raise UnreadableDocument("is nested too deeply") from error
        except json.JSONDecodeError:
            pass
    try:
        mapping = load_yaml(text)
    except UnreadableDocument:
        return None
    return mapping if isinstance(mapping, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise UnreadableDocument(f"the key {twice[:60]!r} stands twice in one record")
    return mapping


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableDocument(f"holds {name}, which is not a number that JSON knows")


def _check_events(text: str) -> None:
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        if number > MAX_EVENTS:
            raise UnreadableDocument(f"holds more than {MAX_EVENTS:,} values in YAML, which no document does")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise UnreadableDocument("uses YAML anchors or aliases, which no document needs")
        if tag := getattr(event, "tag", None):
            raise UnreadableDocument(f"uses the YAML tag {tag}, which no document needs")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise UnreadableDocument(f"is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value.lower() in _NOT_NUMBERS:
            _refuse_constant(event.value)


def _construct_unique(loader: _TextLoader, node: yaml.MappingNode) -> dict[str, Any]:
    pairs = [
        (loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
        for key, value in node.value
    ]
    if not all(isinstance(name, str) for name, _ in pairs):
        raise UnreadableDocument("has a key that is not text")
    return _unique(pairs)


_TextLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_unique)


def read_tags_file(data: bytes) -> Mapping[str, frozenset[str]]:
    """Return the stacks of each tag from `data`, the bytes of a tags file; {} if it cannot be read."""
    try:
        listed = load_yaml(data.decode("utf-8", "replace"))
    except UnreadableDocument:
        return {}
    if isinstance(listed, dict):
        listed = listed.get("tags")
    if not isinstance(listed, list):
        return {}
    return {
        entry["name"]: frozenset(map(str, entry["stacks"])) - {UNION_STACK}
        for entry in listed
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("stacks"), list)
    }


def write_tags_file(stacks: Mapping[str, Collection[str]]) -> bytes:
    """Return the bytes of a tags file: the tags in `stacks` in usual order, each with its stacks and their union `root`."""
    listed = [{"name": tag, "stacks": sorted({*stacks[tag], UNION_STACK})} for tag in in_order(stacks)]
    return yaml.safe_dump(listed, sort_keys=False, width=1000).encode() if listed else b""


_CLOSING = re.compile(rb"^---[ \t\r]*$", re.MULTILINE)
_KEY_LINE = re.compile(rb"^[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?[ \t]*:", re.MULTILINE)
_PLAIN_VALUE = re.compile(rb'"(?P<text>[A-Za-z0-9._+@-]*)"|\[(?P<list>[A-Za-z0-9._+@ ,-]*)\]')
_DETAILS = re.compile(rb"^[\"']?spec_details[\"']?[ \t]*:", re.MULTILINE)
# How much of a file is read to recognize a document; the records, which may be long, come last in it.
MOST_BYTES = 2**20
NO_DOCUMENT = "no front matter with spec_details"
_MOST_OF_KEY = 4096  # that the title, or the categories, take


class Claim(Struct, frozen=True):
    """The package (title) and tag (category) that a document's front matter names; "" if it names none."""

    title: str = ""
    category: str = ""


class Recognized(Struct, frozen=True):
    """Which files are documents, and which other files lie where a document would (`replaced`), by (tag, package)."""

    documents: Mapping[tuple[str, str], Sequence[str]]  # the path, or several if several files claim to be the document
    replaced: Mapping[tuple[str, str], str]  # the path of a file that is none, where the document would lie
    diagnostics: Sequence[Diagnostic] = ()


def claim_of(content: bytes) -> Claim | None:
    """Return the package and tag that `content`, the start of a file, names; None if the file is no document."""
    content = content.removeprefix(BOM)
    if not content.startswith(b"---"):
        return None
    start = content.find(b"\n") + 1
    closing = _CLOSING.search(content, start) if start else None
    end = closing.start() if closing else len(content)
    if not start or _DETAILS.search(content, start, end) is None:
        return None
    title, categories = (_value_of(content[start:end], key) for key in (b"title", b"categories"))
    names = categories if isinstance(categories, list) else []
    category = next((str(name).strip() for name in names if name != "package"), "")
    return Claim(str(title).strip() if isinstance(title, str | int | float) else "", category)


def recognize(layout: Layout, claims: Mapping[str, Claim | None]) -> Recognized:
    """Return which files are documents by `layout` and by `claims`: what `claim_of` returned for each file, by path."""
    documents: dict[tuple[str, str], list[str]] = {}
    diagnostics: list[Diagnostic] = []

    def add(path: str, claim: Claim) -> None:
        tag, package = layout.names(path, claim.title, claim.category)
        odd = [name for name in (tag, package) if not is_name(name.encode("utf-8", "replace"))]
        if odd:
            message = f"ignored: {odd[0][:60]!r} cannot be the name of a {'tag' if odd[0] == tag else 'package'}"
            diagnostics.append(Diagnostic(path, DiagnosticKind.UNREADABLE, message))
        else:
            documents.setdefault((tag, package), []).append(path)

    for path, claim in claims.items():
        if claim is not None:
            add(path, claim)
    others = [path for path, claim in claims.items() if claim is None]
    replaced = _replaced(documents, others)
    for path in others if layout.pattern else ():
        if path not in replaced.values():
            add(path, Claim())
    return Recognized(documents, replaced, diagnostics)


def _replaced(
    documents: Mapping[tuple[str, str], Sequence[str]], others: Iterable[str]
) -> Mapping[tuple[str, str], str]:
    """Return, by (tag, package), the one of `others` that lies where the missing document of the package would lie.

    `others` are no documents. The tag's documents (`docs/v1/*.md`) show the place; some other tag has the package.
    """
    tags, known = ({place[part] for place in documents} for part in (0, 1))
    if len(tags) < 2 or not others:
        return {}
    owners: dict[str, set[str]] = {}  # by place, in which "*" stands for the package
    for (tag, package), (path, *_) in documents.items():
        owners.setdefault(_without(package, path), set()).add(tag)
    replaced: dict[tuple[str, str], str] = {}
    for path in others:
        stem = PurePosixPath(path).stem
        names = {*path.split("/"), stem, *(stem.replace(tag, "").strip("-_.") for tag in tags if tag in stem)}
        for package in sorted(names & known):
            tag, *more = owners.get(_without(package, path), {""})
            if tag and not more and (tag, package) not in documents:
                replaced[tag, package] = path
    return replaced


def _without(package: str, path: str) -> str:
    """Return `path` with "*" in place of each `package` in it that is not part of a longer word."""
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(package)}(?![A-Za-z0-9])", "*", path)


def no_documents(files: Iterable[tuple[str, bool]], documents: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return diagnostics on those of `files` (path, is it empty?), all no documents, with names like `documents`."""
    ends = {PurePosixPath(path).suffix for path in documents}
    others = ((PurePosixPath(path), path, is_empty) for path, is_empty in files)
    named = sorted((path, is_empty) for name, path, is_empty in others if name.stem.islower() and name.suffix in ends)
    empty = [Diagnostic(path, DiagnosticKind.UNREADABLE, EMPTY) for path, is_empty in named if is_empty]
    found = [path for path, is_empty in named if not is_empty]
    are = f"this and {len(found) - 1:,} more are no documents" if found[1:] else "is no document"
    message = f"{are}: {NO_DOCUMENT}"
    return (*empty, *(Diagnostic(path, DiagnosticKind.INCONSISTENT, message, is_loss=False) for path in found[:1]))


def _value_of(front: bytes, key: bytes) -> object:
    """Return the value of `key` in the front matter `front`; None if missing. Other keys, maybe long, stay unparsed."""
    key_match = next((match for match in _KEY_LINE.finditer(front) if match[1] == key), None)
    if key_match is None:
        return None
    after = _KEY_LINE.search(front, key_match.end())
    text = front[key_match.end() : min(after.start() if after else len(front), key_match.end() + _MOST_OF_KEY)]
    plain = _PLAIN_VALUE.fullmatch(text.strip())
    if plain is not None:
        listed = plain["list"]
        return plain["text"].decode() if listed is None else [name.strip() for name in listed.decode().split(",")]
    try:  # the indentation of a list is the same in all lines
        return load_yaml(text.decode("utf-8", "replace").strip("\r\n"))
    except DocumentError:
        return None


def ignored_entries_note(label: str, names: Collection[bytes]) -> list[Diagnostic]:
    """Return a list with a note that `names`, entries of the folder `label`, are ignored; [] if `names` is empty."""
    if not names:
        return []
    first = min(names)
    named = safe(first[:60].decode("utf-8", "backslashreplace"))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    is_link = is_name(first)
    reason = (
        "a link, a module, or listed twice" if is_link else "names may have only letters of ASCII, digits and ._+@-"
    )
    return [Diagnostic(label, DiagnosticKind.UNREADABLE, f"ignored '{named}'{more}: {reason}")]
