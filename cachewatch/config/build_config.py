"""A file's tree to a Config: what its sections must know of each other, and the line of every mistake."""

from collections.abc import Mapping
from contextlib import suppress

from pydantic import ValidationError

from cachewatch.config.base_section import NOT_A_KEY
from cachewatch.config.channels import CHANNEL_TYPES
from cachewatch.config.model import Config
from cachewatch.config.nodes import Context, Node, plain
from cachewatch.config.value_types import path_in
from cachewatch.core.schedule import check_zone
from cachewatch.errors import ConfigError
from cachewatch.runtime.untrusted_files import folder_around


def read_whole(node: Node, context: Context) -> Config:
    """Make a Config of the file's tree, or raise ConfigError with all its mistakes."""
    entries = node.section()
    _look_ahead(entries, context)
    values = {key: plain(each) for key, each in entries.items()} | {NOT_A_KEY: node.file}
    config = None
    try:
        config = Config.model_validate(values, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            context.note(node.at(_without_type(each["loc"])), each["msg"])
    context.raise_mistakes()  # a key that stands twice breaks nothing, and is a mistake still
    if config is None:
        raise ConfigError(f"{node.file}: is not a valid configuration")
    _check_environments(config, node, context)
    return config


def _check_environments(config: Config, node: Node, context: Context) -> None:
    """Let subscriptions of other files read no environment that the operator does not offer: digests tell what is in it."""
    for name, subscription in config.subscriptions.items():
        path, theirs = subscription.match.environment, node.at(("subscriptions", name, "match", "environment"))
        if path and theirs.file != node.file and not folder_around(path, config.environment_folders):
            context.note(theirs, f"{path} is in none of the `environment_folders:`; the operator can add its folder")
    context.raise_mistakes()


def _without_type(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return where an error is, without the type of the channel, which pydantic puts behind its name."""
    is_in_channel = location[:1] == ("channels",) and location[2:3] and location[2] in CHANNEL_TYPES
    return (*location[:2], *location[3:]) if is_in_channel else location


def _look_ahead(entries: Mapping[str, Node], context: Context) -> None:
    """Learn what sections refer to, whether or not those others are right."""

    def names(section: str) -> Mapping[str, Node]:
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
