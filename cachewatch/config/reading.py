"""Find the configuration file and read it into a checked `Config`; report every mistake with its line.

Values stay text as written until the type of their key converts them: 07:30 is no number, and `no` is no boolean.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import ValidationError

from cachewatch.config.schedules_and_dates import check_zone
from cachewatch.config.sections import NOT_A_KEY, Broken, ConfigContext, ConfigNode, holds
from cachewatch.config.settings_and_subscriptions import Config, WholeConfig
from cachewatch.config.sources_and_channels import channel_models, source_models
from cachewatch.config.value_types_and_secrets import path_in
from cachewatch.errors import ConfigError
from cachewatch.runtime.files_and_locks import folder_around, read_inside


def read_whole(node: ConfigNode, context: ConfigContext) -> Config:
    """Return the Config in `node`, the root of the file. Raises ConfigError with all mistakes, if any."""
    values = node.plain | {NOT_A_KEY: node.file}
    _look_ahead(values, context)
    try:
        config = WholeConfig.model_validate(values, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        types = {"channels": channel_models(), "sources": source_models()}
        for detail in error.errors(include_url=False, include_input=False):
            location = detail["loc"]
            if location[2:3] and location[2] in types.get(str(location[0]), ()):
                location = (*location[:2], *location[3:])  # without the type, which pydantic adds after the name
            context.note(node.at(location), detail["msg"])
        context.raise_mistakes()
        raise ConfigError(f"{node.file}: is not a valid configuration") from error
    context.raise_mistakes()  # also those that break nothing, such as a repeated key
    # The digests of a subscription in another file would reveal what its environment contains.
    for name, subscription in config.subscriptions.items():
        path, theirs = subscription.match.environment, node.at(("subscriptions", name, "match", "environment"))
        if path and theirs.file != node.file and not folder_around(path, config.environment_folders):
            context.note(theirs, f"{path} is in none of the `environment_folders:`; the operator can add its folder")
    context.raise_mistakes()
    return config


def _look_ahead(values: Mapping[str, Any], context: ConfigContext) -> None:
    """Store names and settings that several sections need in `context`, before the sections are checked."""
    sources, subscriptions, channels = (
        section if isinstance(section := values.get(name), dict) else {}
        for name in ("sources", "subscriptions", "channels")
    )
    context.sources, context.subscriptions = frozenset(sources), frozenset(subscriptions)
    context.channels = {name: str(each.get("type", "")) for name, each in channels.items() if isinstance(each, dict)}
    with suppress(ConfigError):  # which is reported when the key is read
        if isinstance(zone := values.get("timezone"), str):
            context.zone = check_zone(zone)
    with suppress(ConfigError):
        if isinstance(templates := values.get("templates_dir"), str):
            context.templates = path_in(context.folder, templates)


_MOST_BYTES = 2**20
_MOST_DEPTH = 32
_HALF = re.compile("[\ud800-\udfff]")
_HINTS = {
    "a single document": "a file may contain only one, so remove the ---",
    "mapping values are not allowed": "a colon followed by a space starts a section; put quotes around the text",
    "cannot start any token": "text cannot begin with @, %, ` or a tab; put quotes around it, and indent with spaces",
    "scanning a tag": "text that begins with ! needs quotes around it",
    "did not find expected ',' or ']'": "a list that begins with [ ends with ]",
    "did not find expected ',' or '}'": "a section that begins with { ends with }",
    "alias": "text that begins with * needs quotes around it",
    "anchor": "text that begins with & needs quotes around it",
}


def read_config(given: Path | None, *, with_secrets: bool = True) -> Config:
    """Read and check the file `given` (None is the usual one), and `subscriptions.d/*.yaml` beside it.

    If not `with_secrets`, reads no secrets from files or variables. Raises ConfigError with every mistake and its line.
    """
    path = given or usual_config()
    if path is None:
        remedy = f"create one with `cachewatch init`, or name it with --config or ${VARIABLE}"
        raise ConfigError(f"there is no configuration ({', '.join(map(str, _places()))}); {remedy}")
    context = ConfigContext(file=path, with_secrets=with_secrets)
    try:
        entries = dict(_read_file(path, context, is_ours=True))
    except Broken:
        context.raise_mistakes()
        raise
    _add_subscriptions(entries, path, context)
    return read_whole(ConfigNode(value=entries, file=path, line=1, path=""), context)


def _add_subscriptions(entries: dict[str, ConfigNode], path: Path, context: ConfigContext) -> None:
    """Add the subscriptions in the files of `subscriptions.d` beside `path` to `entries`, in place."""
    main = entries.get("subscriptions")
    known = dict(main.value) if main and isinstance(main.value, Mapping) else {}
    folder, files = path.parent / "subscriptions.d", []
    try:
        files = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        context.mistakes.add((str(folder), 0, "", f"cannot be read: {error.strerror}"))
    for file in (each for each in files if each.suffix in (".yaml", ".yml") and not each.name.startswith(".")):
        with suppress(Broken):
            theirs = dict(_read_file(file, context, is_ours=False))
            own = theirs.pop("subscriptions", None)
            for node in theirs.values():
                context.note(node, "is not allowed here; files in subscriptions.d contain only `subscriptions:`")
            for name, node in _section(own, context).items() if own else ():
                if name in known:
                    context.note(node, f"stands in {known[name].file}:{known[name].line} already; choose another name")
                known.setdefault(name, node)
    if known and not (main and isinstance(main.value, str | tuple)):  # which is a mistake
        line = main.line if main else 1
        entries["subscriptions"] = ConfigNode(value=known, file=path, line=line, path="subscriptions")


def _section(node: ConfigNode, context: ConfigContext) -> Mapping[str, ConfigNode]:
    """Return the keys and values of a section. Raises Broken, with a mistake in `context`, if `node` is no section."""
    if not isinstance(node.value, Mapping):
        context.note(node, holds(node.plain, "section"))
        raise Broken
    return node.value


def _read_file(path: Path, context: ConfigContext, *, is_ours: bool) -> Mapping[str, ConfigNode]:
    """Return the sections of the YAML file `path`, which is not trusted unless `is_ours`. Raises Broken if unusable."""
    content, line = b"", 0
    try:
        if is_ours:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        else:  # somebody else may have written it, and must not make us read other files with our rights
            content = read_inside(path.parent, path.name, most=_MOST_BYTES)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"is larger than {_MOST_BYTES // 2**20} MiB, the limit for a configuration")
        return _section(_Tree(path, context).read(content.decode("utf-8-sig")), context)
    except Broken:
        raise
    except UnicodeDecodeError as error:
        line, message = content[: error.start].count(b"\n") + 1, "is not UTF-8 text; save it as UTF-8"
    except yaml.YAMLError as error:
        line, message = _explain(error, content)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    except ConfigError as error:
        message = str(error)
    context.mistakes.add((str(path), line, "", message))
    raise Broken


class _Tree:
    """Converts the YAML text of `file` to ConfigNodes; a node to which several aliases refer is converted once."""

    def __init__(self, file: Path, context: ConfigContext) -> None:
        self._make = partial(ConfigNode, file=file)
        self._context = context
        self._made: dict[yaml.Node, ConfigNode] = {}

    def read(self, text: str) -> ConfigNode:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):  # PyYAML's composer would recurse
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_DEPTH:
                self._refuse(event, "", f"is nested more than {_MOST_DEPTH} levels deep")
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        return self._node(root, 1, "", ()) if root else self._make(value={}, line=1, path="")

    def _node(self, node: yaml.Node, line: int, path: str, around: tuple[yaml.Node, ...]) -> ConfigNode:
        """Convert a YAML node to a ConfigNode; `line` is that of its key, `around` are the nodes that contain it."""
        if node in around:
            self._refuse(node, path, f"contains itself; {_HINTS['alias']}")
        if node not in self._made:
            if not node.tag.startswith("tag:yaml.org,2002:"):
                self._refuse(node, path, f"{node.tag} is read as a YAML tag; {_HINTS['scanning a tag']}")
            self._made[node] = self._make(value=self._value(node, path, (*around, node)), line=line, path=path)
        return self._made[node]

    def _value(self, node: Any, path: str, around: tuple[yaml.Node, ...]) -> Any:
        if isinstance(node, yaml.MappingNode):
            section: dict[str, ConfigNode] = {}
            for name, value in node.value:
                if not isinstance(name, yaml.ScalarNode):
                    self._refuse(name, path, "has a key that is not a word")
                key, line = self._text(name, path), _line_of(name)
                place = f"{path}.{key}" if path else key
                if key in section:
                    twice = f"stands in line {section[key].line} already; keep one of them"
                    self._context.note(self._make(value=None, line=line, path=place), twice)
                section.setdefault(key, self._node(value, line, place, around))
            return section
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._node(v, _line_of(v), f"{path}[{n}]", around) for n, v in enumerate(node.value, 1))
        text = self._text(node, path)
        return None if not node.style and text.lower() in ("", "~", "null") else text

    def _text(self, node: Any, path: str) -> str:
        if "\0" in node.value or _HALF.search(node.value):
            self._refuse(node, path, "contains a character that text cannot contain")
        return str(node.value)

    def _refuse(self, at: yaml.Node | yaml.Event, path: str, message: str) -> NoReturn:
        self._context.note(self._make(value=None, line=_line_of(at), path=path), message)
        raise Broken


def _line_of(at: Any) -> int:
    return int(at.start_mark.line) + 1


def _explain(error: yaml.YAMLError, content: bytes) -> tuple[int, str]:
    """Return the line of a YAML `error` in `content`, and a message; of an open bracket or quote, where it opens."""
    text = " ".join(str(error).split())
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or text
    hint = next((hint for words, hint in _HINTS.items() if words in text), "check the line, and the one above it")
    line = content.decode(errors="replace")[: getattr(error, "position", 0)].count("\n")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        is_open = str(error.problem).startswith(("did not find", "found unexpected end"))
        line = int(((is_open and error.context_mark) or error.problem_mark).line)
    return line + 1, f"is not YAML: {problem}; {hint}"


NAME = "cachewatch.yaml"
VARIABLE = "CACHEWATCH_CONFIG"


def usual_config() -> Path | None:
    """Return the configuration file to read by default: $CACHEWATCH_CONFIG, or a usual file; None if none exists."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else next((place for place in _places() if place.is_file()), None)


def _places() -> Iterator[Path]:
    # The file names programs to run, so a file of another user in the current folder is ignored.
    here = Path(NAME)
    if not here.is_file() or here.stat().st_uid in (0, os.geteuid()):
        yield here
    yield Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "cachewatch" / NAME
    yield Path("/etc/cachewatch") / NAME
