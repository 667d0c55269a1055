"""The hooks by which extensions add to cachewatch, and the installed extensions. docs/extending.md has examples.

An extension's `__init__.py` imports this module and nothing else, so that a command loads only what it uses: rows name
objects as `module:object` (`cachewatch.cli.diff_and_fail_on:diff`), and `load` imports such an object when it is needed.
"""

import pkgutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeVar

import pluggy

from cachewatch.errors import UsageError

_Function = TypeVar("_Function", bound=Callable[..., Any])
_declares = pluggy.HookspecMarker("cachewatch")
# By package and name, since importing a submodule such as `commands` replaces the function of that name in the package.
_implemented: defaultdict[str, dict[str, Callable[..., Any]]] = defaultdict(dict)


def extends(function: _Function) -> _Function:
    """Mark a function of an extension as its implementation of the hook with the same name, and return it."""
    _implemented[function.__module__][function.__name__] = pluggy.HookimplMarker("cachewatch")(function)
    return function


class Command(NamedTuple):
    """A command: the section of the help that lists it, its name, a line of help, and its `module:object`."""

    section: str
    name: str
    summary: str
    object: str


class SourceKind(NamedTuple):
    """A type of source; `settings` and `watched` name its pydantic model and the class of the local copy of a source.

    `holdings` names a function that returns the specs of some packages in a live source, for `coverage --source`.
    """

    type: str  # the value of `type:` in the configuration
    settings: str  # `module:object`, like the others
    watched: str
    holdings: str = ""


class ChannelKind(NamedTuple):
    """A type of channel; `settings` and `channel` name its pydantic model and its class as `module:object`."""

    type: str  # the value of `type:` in the configuration
    settings: str
    channel: str


class Settings(NamedTuple):
    """A section of the configuration: its key (the extension's name), its model (`module:object`), a description."""

    type: str
    settings: str
    about: str


class Hooks(Protocol):
    """The functions that an extension may implement in its package, marked with `@extends`."""

    @_declares
    def commands(self) -> Sequence[Command]:
        """Return the commands that the extension adds."""

    @_declares
    def source_kinds(self) -> Sequence[SourceKind]:
        """Return the types of sources that the extension adds."""

    @_declares
    def channel_kinds(self) -> Sequence[ChannelKind]:
        """Return the types of channels that the extension adds."""

    @_declares
    def settings(self) -> Settings:
        """Return the section of the configuration for the extension; users may omit it."""

    @_declares(firstresult=True)
    def open_state(self, address: Any) -> Any:
        """Return an object that can open the state at `address`; None if this extension cannot."""
        # The object has the methods `open`, `open_to_read` and `exists`.

    @_declares
    def after_poll(self, context: Any, source: Any) -> None:
        """Do further work after a poll of `source`, with the `context` of the service; digests do not wait for it."""

    @_declares(firstresult=True)
    def past(self, repository: Any, log: Any) -> Any:
        """Return an object with the history of `repository`; None if there is no history. `log` is for its warnings."""
        # The object has the methods `stay`, `until`, `returned`, `alternative` and `close`.

    @_declares(firstresult=True)
    def causes(self, repository: Any) -> Any:
        """Return an object that says why specs were rebuilt."""
        # The object has the methods `of_changesets`, `of_digest`, `of_environment` and `graph`.


class Extensions:
    """The installed extensions: cachewatch's own, and those of other packages with an entry point."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager("cachewatch")
        self._manager.add_hookspecs(Hooks)
        self.hook = self._manager.hook
        self.loaded: dict[str, str] = {}  # the Python package of each extension, by its name
        self.failed: dict[str, str] = {}  # why an extension cannot be used, by its name
        others = {each.name: each.load for each in entry_points(group="cachewatch.extensions")}
        own: dict[str, Callable[[], Any]] = {
            each.name: partial(import_module, f"cachewatch.extensions.{each.name}")
            for each in pkgutil.iter_modules([str(Path(__file__).with_name("extensions"))])
        }
        for name, import_it in (own | {name: each for name, each in others.items() if name not in own}).items():
            try:
                package = import_it()
                self._manager.register(SimpleNamespace(**{**vars(package), **_implemented[package.__name__]}), name)
                self._manager.check_pending()
                for declared in ("commands", "source_kinds", "channel_kinds", "settings"):
                    getattr(self.hook, declared)()
                self.loaded[name] = package.__name__
            except Exception as error:  # noqa: BLE001  whatever is wrong with one, the others work
                self.failed[name] = f"{type(error).__name__}: {error}"
                if self._manager.has_plugin(name):
                    self._manager.unregister(name=name)
        self.source_kinds: Sequence[SourceKind] = [*chain(*reversed(self.hook.source_kinds()))]
        self.channel_kinds: Sequence[ChannelKind] = [*chain(*reversed(self.hook.channel_kinds()))]
        self.commands: Sequence[Command] = [*chain(*reversed(self.hook.commands()))]


@cache
def extensions() -> Extensions:
    """Return the extensions; they are imported on the first call."""
    return Extensions()


def lacking(what: str, name: str) -> str:
    """Return a message that `what` needs the extension `name`, and why that extension cannot be used."""
    why = extensions().failed.get(name)
    return f"{what} needs the extension `{name}`, which {f'cannot be loaded: {why}' if why else 'is not installed'}"


def models(kinds: Sequence[SourceKind | ChannelKind | Settings]) -> dict[str, Any]:
    """Return the pydantic model of each type, by type; note types that cannot be imported in `extensions().failed`."""
    by_type = {}
    for kind in kinds:
        try:
            by_type[kind.type] = load(kind.settings)
        except Exception as error:  # noqa: BLE001  as above
            extensions().failed[kind.type] = str(error)
    return by_type


def load(reference: str) -> Any:
    """Import and return an object; `reference` is `module:object`. Raises UsageError if that fails."""
    module, _, name = reference.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{reference} cannot be loaded: {error}") from error
