"""The options that say how a build cache is read, shared by the commands that read one."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cachewatch.core.durations import parse_size
from cachewatch.core.selection import Globs
from cachewatch.errors import UsageError
from cachewatch.sources.buildcache.opening import Cache, is_catalogue

if TYPE_CHECKING:
    from cachewatch.sources.buildcache.opening import Cache

_OPTIONS = (
    click.option(
        "--tag",
        multiple=True,
        metavar="TAG",
        help="Tag name for a build cache (develop if omitted); for a catalogue, only tags that match this glob.",
    ),
    click.option("--stack", default="cache", metavar="NAME", help="Stack name for a build cache."),
    click.option(
        "--view", default="", show_default=False, metavar="NAME", help="Read this view's index instead of the main one."
    ),
    click.option("--max-index", default="4GiB", metavar="SIZE", help="Maximum size of an unpacked index."),
    click.option("--token-file", type=Path, metavar="FILE", help="File that contains a bearer token."),
    click.option("--login-file", type=Path, metavar="FILE", help="File that contains user:password."),
)


def cache_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a cache."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def cache_of(address: str, options: dict[str, Any]) -> "Cache":
    """Return the cache that the arguments of a command mean."""
    tags: tuple[str, ...] = options["tag"]
    max_index = parse_size(options["max_index"])
    if is_catalogue(address):
        return Cache(
            address=address,
            is_catalogue=True,
            wanted_tag=Globs(tags),
            token_file=options["token_file"],
            login_file=options["login_file"],
            max_index=max_index,
        )
    if len(tags) > 1:
        raise UsageError("--tag can be given only once for a build cache; only a catalogue has several tags")
    return Cache(
        address=address,
        tag=tags[0] if tags else "develop",
        stack=options["stack"],
        view=options["view"],
        token_file=options["token_file"],
        login_file=options["login_file"],
        max_index=max_index,
    )


def single_tag(
    address: str, tag: str | None, *, view: str, token_file: Path | None, login_file: Path | None
) -> "Cache":
    """Return a cache, or one tag of a catalogue."""
    wanted = tag or "develop"
    return Cache(
        address=address,
        is_catalogue=is_catalogue(address),
        tag=wanted,
        wanted_tag=lambda name: name == wanted,
        view=view,
        token_file=token_file,
        login_file=login_file,
    )
