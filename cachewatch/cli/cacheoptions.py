"""The options that say how a build cache is read, shared by the commands that read one."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cachewatch.errors import UsageError
from cachewatch.select import Globs

if TYPE_CHECKING:
    from cachewatch.sources.buildcache.opening import Cache

_OPTIONS = (
    click.option(
        "--tag",
        multiple=True,
        metavar="TAG",
        help="What to call the tag of a cache (develop); of a catalogue, only tags that match this glob.",
    ),
    click.option("--stack", default="cache", metavar="NAME", help="What to call the one stack of a cache (cache)."),
    click.option("--view", default="", metavar="NAME", help="Read this named index instead of the main one."),
    click.option("--max-index", default="4GiB", metavar="SIZE", help="How large an index may be, unpacked (4GiB)."),
    click.option("--token-file", type=Path, metavar="FILE", help="Send the token in FILE along."),
    click.option("--login-file", type=Path, metavar="FILE", help="Send the user:password in FILE along."),
)


def cache_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a cache."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def cache_of(address: str, options: dict[str, Any]) -> "Cache":
    """Return the cache that the arguments of a command mean."""
    from cachewatch.config.durations import parse_size  # noqa: PLC0415  slow to load, as what follows
    from cachewatch.sources.buildcache.opening import Cache, is_catalogue  # noqa: PLC0415

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
        raise UsageError("a build cache has one tag; only a catalogue has several")
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
    from cachewatch.sources.buildcache.opening import Cache, is_catalogue  # noqa: PLC0415  slow to load

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
