"""Find the configuration file and read it to a checked `Config`, with the line of every mistake.

Every scalar stays the text that was written, so that 07:30 is no number and `no` no flag before a type asks for
one. YAML is read event by event: deep nesting costs no recursion, and every value has its line.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import ValidationError

from cachewatch.config.channels import channel_models
from cachewatch.config.model import Config, WholeConfig
from cachewatch.config.schedule import check_zone
from cachewatch.config.section import NOT_A_KEY, Broken, ConfigContext, ConfigNode, Mistake, plain
from cachewatch.config.sources import source_models
from cachewatch.config.types import path_in
from cachewatch.errors import ConfigError
from cachewatch.runtime.files import folder_around, read_inside


def read_whole(node: ConfigNode, context: ConfigContext) -> Config:
    """Make a Config of the file's tree, or raise ConfigError with all its mistakes."""
    entries = node.section()
    _look_ahead(entries, context)
    values = {key: plain(each) for key, each in entries.items()} | {NOT_A_KEY: node.file}
    config = None
    try:
        config = WholeConfig.model_validate(values, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            context.note(node.at(_without_type(each["loc"])), each["msg"])
    context.raise_mistakes()  # a key that stands twice breaks nothing, and is a mistake still
    if config is None:
        raise ConfigError(f"{node.file}: is not a valid configuration")
    _check_environments(config, node, context)
    return config


def _check_environments(config: Config, node: ConfigNode, context: ConfigContext) -> None:
    """Let subscriptions of other files read no environment that the operator does not offer: digests tell what is in it."""
    for name, subscription in config.subscriptions.items():
        path, theirs = subscription.match.environment, node.at(("subscriptions", name, "match", "environment"))
        if path and theirs.file != node.file and not folder_around(path, config.environment_folders):
            context.note(theirs, f"{path} is in none of the `environment_folders:`; the operator can add its folder")
    context.raise_mistakes()


def _without_type(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return where an error is, without the type of the channel or source, which pydantic puts behind its name."""
    types = {"channels": channel_models(), "sources": source_models()}.get(str(location[0])) if location else None
    return (*location[:2], *location[3:]) if types and location[2:3] and location[2] in types else location


def _look_ahead(entries: Mapping[str, ConfigNode], context: ConfigContext) -> None:
    """Learn what sections refer to, whether or not those others are right."""

    def names(section: str) -> Mapping[str, ConfigNode]:
        value = entries[section].value if section in entries else None
        return value if isinstance(value, Mapping) else {}

    context.sources = frozenset(names("sources"))
    context.subscriptions = frozenset(names("subscriptions"))
    types = {
        name: node.value.get("type") for name, node in names("channels").items() if isinstance(node.value, Mapping)
    }
    context.channels = {name: str(node.value) if node else "" for name, node in types.items()}
    zone, templates = entries.get("timezone"), entries.get("templates_dir")
    with suppress(ConfigError):  # which is told when the key is read
        if zone is not None and isinstance(zone.value, str):
            context.zone = check_zone(zone.value)
    with suppress(ConfigError):
        if templates is not None and isinstance(templates.value, str):
            context.templates = path_in(context.folder, templates.value)


_MOST_BYTES = 2**20
_MOST_DEPTH = 32
_HALF = re.compile("[\ud800-\udfff]")
_HINTS = {
    "mapping values are not allowed": "a colon followed by a space starts a section; put quotes around the text",
    "cannot start any token": "text cannot begin with @, %, ` or a tab; put quotes around it, and indent with spaces",
    "scanning a tag": "text that begins with ! needs quotes around it",
    "did not find expected ',' or ']'": "a list that begins with [ ends with ]",
    "did not find expected ',' or '}'": "a section that begins with { ends with }",
    "alias": "text that begins with * needs quotes around it",
    "anchor": "text that begins with & needs quotes around it",
}


def read_config(path: Path, *, with_secrets: bool = True) -> Config:
    """Read and check the file at `path`, and `subscriptions.d/*.yaml` beside it.

    Without secrets, they are all empty: nothing can be sent or fetched, but anybody who may
    read the file can ask what it means. Raises ConfigError, whose message lists every mistake
    with its line.
    """
    context = ConfigContext(file=path, with_secrets=with_secrets)
    try:
        entries = dict(_section(_read_tree(path, context), context))
    except Broken:
        context.raise_mistakes()
        raise
    _add_subscriptions(entries, path, context)
    return read_whole(ConfigNode(value=entries, file=path, line=1, path=""), context)


def _add_subscriptions(entries: dict[str, ConfigNode], path: Path, context: ConfigContext) -> None:
    """Add the subscriptions of other files, which have the same form and nothing else in them."""
    main = entries.get("subscriptions")
    found = dict(main.value) if main and isinstance(main.value, Mapping) else {}
    for file in _others(path.parent / "subscriptions.d", context):
        for name, node in _subscriptions_in(file, context).items():
            if name in found:
                context.note(node, f"stands in {found[name].file}:{found[name].line} already; choose another name")
            found.setdefault(name, node)
    if found:
        entries["subscriptions"] = ConfigNode(
            value=found, file=path, line=main.line if main else 1, path="subscriptions"
        )


def _others(folder: Path, context: ConfigContext) -> list[Path]:
    try:
        files = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        context.mistakes.append(Mistake(str(folder), 0, "", f"cannot be read: {error.strerror}"))
        return []
    return [file for file in files if file.suffix in (".yaml", ".yml") and not file.name.startswith(".")]


def _subscriptions_in(file: Path, context: ConfigContext) -> Mapping[str, ConfigNode]:
    try:
        entries = _section(_read_tree(file, context, _read_others), context)
        for name in entries.keys() - {"subscriptions"}:
            context.note(entries[name], "is not allowed here; files in subscriptions.d contain only `subscriptions:`")
        if "subscriptions" not in entries:
            return {}
        return _section(entries["subscriptions"], context)
    except Broken:
        return {}


def _section(node: ConfigNode, context: ConfigContext) -> Mapping[str, ConfigNode]:
    """Return the keys and values of a section; where it is none, that is noted, and Broken raised."""
    try:
        return node.section()
    except ConfigError as error:
        context.note(node, str(error))
        raise Broken from error


def _read_own(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES + 1)


def _read_others(path: Path) -> bytes:
    """Read what may be by somebody who may write in that folder, and read nothing else with our rights."""
    return read_inside(path.parent, path.name, most=_MOST_BYTES)


def _read_tree(path: Path, context: ConfigContext, read: Callable[[Path], bytes] = _read_own) -> ConfigNode:
    """Return the tree of a file; what is wrong with it as a whole is noted, and Broken raised."""
    content = b""
    try:
        content = read(path)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"is larger than {_MOST_BYTES // 2**20} MiB, the limit for a configuration")
        return _Composer(path, context).compose(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        context.mistakes.append(Mistake(str(path), line, "", "is not UTF-8 text; save it as UTF-8"))
    except yaml.YAMLError as error:
        context.mistakes.append(Mistake(str(path), _line(error, content), "", _explain(error)))
    except Broken:
        pass
    except (ConfigError, OSError) as error:
        reason = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        context.mistakes.append(Mistake(str(path), 0, "", reason))
    raise Broken


class _Composer:
    """Makes a tree of YAML's events."""

    def __init__(self, file: Path, context: ConfigContext) -> None:
        self._file = file
        self._context = context
        self._anchors: dict[str, ConfigNode] = {}

    def compose(self, text: str) -> ConfigNode:
        events: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)
        next(events)
        if isinstance(next(events), yaml.StreamEndEvent):
            return self._make({}, 1, "")
        tree = self._node(next(events), events, 1, "", 0)
        next(events)
        extra = next(events)
        if not isinstance(extra, yaml.StreamEndEvent):
            self._refuse(extra, "", "begins a second document; a file may contain only one, so remove the ---")
        return tree

    def _node(self, event: Any, events: Iterator[Any], line: int, path: str, depth: int) -> ConfigNode:
        """Return the value that begins with `event`; `line` is that of its key."""
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                self._refuse(event, path, f"*{event.anchor} refers to nothing; {_HINTS['alias']}")
            return self._anchors[event.anchor]
        if event.tag is not None and not event.tag.startswith("tag:yaml.org,2002:"):
            self._refuse(event, path, f"{event.tag} is read as a YAML tag; {_HINTS['scanning a tag']}")
        if depth > _MOST_DEPTH:
            self._refuse(event, path, f"is nested more than {_MOST_DEPTH} levels deep")
        node = self._make(self._value(event, events, path, depth), line, path)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _value(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Any:
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(events, path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return tuple(self._items(events, path, depth))
        self._check_text(event, path)
        is_plain = event.implicit[0]
        return None if is_plain and event.value.lower() in ("", "~", "null") else event.value

    def _mapping(self, events: Iterator[Any], path: str, depth: int) -> dict[str, ConfigNode]:
        found: dict[str, ConfigNode] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._refuse(event, path, "has a key that is not a word")
            self._check_text(event, path)
            key = event.value
            line = _line_of(event)
            node = self._node(next(events), events, line, f"{path}.{key}" if path else key, depth + 1)
            if key in found:
                self._context.note(
                    self._make(None, line, node.path), f"stands in line {found[key].line} already; keep one of them"
                )
            found.setdefault(key, node)
        return found

    def _check_text(self, event: Any, path: str) -> None:
        if "\0" in event.value or _HALF.search(event.value):
            self._refuse(event, path, "contains a character that text cannot contain")

    def _items(self, events: Iterator[Any], path: str, depth: int) -> Iterator[ConfigNode]:
        number = 0
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            number += 1
            yield self._node(event, events, _line_of(event), f"{path}[{number}]", depth + 1)

    def _make(self, value: Any, line: int, path: str) -> ConfigNode:
        return ConfigNode(value=value, file=self._file, line=line, path=path)

    def _refuse(self, event: Any, path: str, message: str) -> NoReturn:
        self._context.note(self._make(None, _line_of(event), path), message)
        raise Broken


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _line(error: yaml.YAMLError, content: bytes) -> int:
    """Return the line that YAML complains about: where the mistake began, if it knows."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        is_open = str(error.problem).startswith(("did not find", "found unexpected end"))
        mark = (error.context_mark or error.problem_mark) if is_open else error.problem_mark
        return int(mark.line) + 1
    return content.decode(errors="replace")[: getattr(error, "position", 0)].count("\n") + 1


def _explain(error: yaml.YAMLError) -> str:
    said = " ".join(str(error).split())
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or said
    hint = next((hint for words, hint in _HINTS.items() if words in said), "check the line, and the one above it")
    return f"is not YAML: {problem}; {hint}"


NAME = "cachewatch.yaml"
VARIABLE = "CACHEWATCH_CONFIG"


def find_config(given: Path | None = None) -> Path:
    """Return the path of the file: `given`, $CACHEWATCH_CONFIG, or the first of `places` that is there."""
    variable = os.environ.get(VARIABLE)
    if given is not None or variable:
        return given or Path(str(variable))
    places = list(_places())
    for place in places:
        if place.is_file():
            return place
    raise ConfigError(
        f"there is no configuration ({', '.join(map(str, places))}); create one with `cachewatch init`,"
        f" or name it with --config or ${VARIABLE}"
    )


def _places() -> Iterator[Path]:
    # A file names programs to run, so one that a stranger put into this folder does not count.
    here = Path(NAME)
    if not here.is_file() or here.stat().st_uid in (0, os.geteuid()):
        yield here
    yield Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "cachewatch" / NAME
    yield Path("/etc/cachewatch") / NAME
