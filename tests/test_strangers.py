"""Twice as much from a stranger takes less than three times the processor time of cachewatch and all that it starts."""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from conftest import Run
from gitservers import hostile_git
from helpers import document, history, record
from msgspec.structs import replace
from servers import Says, serving
from test_scaling import grows_like_its_size

from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.core.advice.environment_coverage import Environment, Need
from cachewatch.environments import cover_both
from cachewatch.errors import CachewatchError
from cachewatch.extensions.buildcaches.mirrors_and_registries import Image, Registry, Validator, fetch_index
from cachewatch.git.local_repository import Repository
from cachewatch.git.remote_urls_and_fetch_errors import Remote
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.http.client import RequestLimits

pytestmark = [pytest.mark.usefixtures("loopback"), pytest.mark.slow_cases]

# What there is to read of a number of things, in a folder; all of it is made before the time runs.
Way = Callable[[int, Path, Run], Callable[[], object]]

_CONFIG = """\
version: 1
state: state
sources: {public: {git: upstream.git}}
channels: {mail: {type: email, from: a@example.org, smtp: {host: localhost, security: none}}}
subscriptions:
  all:
    channels: [mail]
    to:
"""


def _error_of_a_server(words: int, _: Path, __: Run) -> Callable[[], object]:
    def ask() -> None:
        with hostile_git(error=3 * words) as address, suppress(CachewatchError):
            Remote(address).tip("main")

    return ask


def _challenge(words: int, _: Path, __: Run) -> Callable[[], object]:
    def ask() -> None:
        said = Says(401, headers={"WWW-Authenticate": "Bearer " + "a" * words})
        with serving(lambda _: said) as server:
            image = Image(Registry(server.url, "a/b"), {}, RequestLimits(attempts=1))
            with suppress(CachewatchError):
                fetch_index(image, Validator())
            image.close()

    return ask


def _tags(count: int, folder: Path, run: Run) -> Callable[[], object]:
    had = {"_cache/develop/zlib/specs.md": document([record(1)])}
    has = {f"_cache/v1.{number}/zlib/specs.md": document([record(1)]) for number in range(count)}
    history(folder / f"{count}.git", had, {**had, **has})
    return lambda: run("diff", "HEAD~1", "HEAD", "--stat", "--repo", folder / f"{count}.git")


def _tags_for_an_environment(count: int, folder: Path, _: Run) -> Callable[[], object]:
    has = {f"_cache/v1.{number}/zlib/specs.md": document([record(1)]) for number in range(count)}
    made = history(folder / f"{count}.git", {"_cache/develop/zlib/specs.md": document([record(1)])}, has)
    needs = (Need(package="zlib", version="1.0"),)

    def cover() -> None:
        with closing(Repository(made)) as repository:
            old, new = (resolve(repository, name) for name in ("HEAD~1", "HEAD"))
            sides = [[replace(side, tag=f"v1.{number}") for number in range(count)] for side in (old, new)]
            cover_both(repository, Environment(name="x", needs=needs), *sides)

    return cover


def _recipients(count: int, folder: Path, _: Run) -> Callable[[], object]:
    config = folder / f"{count}.yaml"
    config.write_text(_CONFIG + "".join(f"      - a{number}@example.org\n" for number in range(count)))
    config.chmod(0o600)
    return lambda: read_config(config)


# The least number of things, by what they are.
WAYS: dict[str, tuple[Way, int]] = {
    "the error of a git server": (_error_of_a_server, 16_000),
    "what a registry asks for": (_challenge, 20_000),
    "tags": (_tags, 2_000),
    "tags that an environment is held against": (_tags_for_an_environment, 500),
    "recipients": (_recipients, 4_000),
}


@pytest.mark.parametrize("way", WAYS)
def test_twice_as_much_takes_about_twice_as_long(way: str, run: Run, tmp_path: Path) -> None:
    """Or hits a limit."""
    make, least = WAYS[way]
    assert grows_like_its_size([make(least * times, tmp_path, run) for times in (1, 2, 4)])
