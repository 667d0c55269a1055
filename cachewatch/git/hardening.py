"""How git is started: with an environment and a configuration that cachewatch controls completely.

Nothing that a shell, a user's configuration or a repository says can make git run a command,
ask for a password, follow a redirection or leave a process behind.
"""

import os
from collections.abc import Iterable, Mapping

from msgspec import Struct

from cachewatch.errors import BrokenSource

# What a person's shell may hand on: how to find git, and how to reach the network.
_INHERITED = (
    "PATH",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)

# How ssh is started; a shell reads it.
SSH = "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=3"

_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": SSH,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
}

_CONFIG = {
    "protocol.allow": "never",
    "transfer.fsckObjects": "true",
    "transfer.credentialsInUrl": "die",
    "transfer.bundleURI": "false",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "maintenance.auto": "false",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "safe.bareRepository": "explicit",
    "credential.helper": "",
}

# What git may speak when it fetches; when it only reads, nothing at all. A variable of the environment counts for more
# than all configuration, so that no repository can allow itself another one, such as `ext`, which runs a command.
_PROTOCOLS = ("https", "http", "ssh", "git", "file")

# Git takes a configuration from its environment, as _CONFIG is given, from 2.31 on; older than this is none that a
# system has which is still looked after.
OLDEST = (2, 34)
# Those that leave out of reach what a partial clone lacks where GIT_NO_LAZY_FETCH says so: 2.45, and older ones that
# were fixed in May 2024, by what their last number has to be.
_NOT_LAZY = {39: 4, 40: 2, 41: 1, 42: 2, 43: 4, 44: 1}

Version = tuple[int, ...]  # of git; nothing where it does not say


class Command(Struct, frozen=True):
    """What is started, and its whole environment, which others cannot read as they can arguments."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    def plus(self, *more: str) -> "Command":
        """Return the command with more arguments."""
        return Command((*self.arguments, *more), self.environment)


def git_command(
    *,
    may_fetch: bool = False,
    config: Iterable[tuple[str, str]] = (),
    environment: Mapping[str, str] | None = None,
) -> Command:
    """Return how to start git with an environment of our own making, and what the caller adds to it."""
    settings = list(_CONFIG.items())
    if may_fetch:
        settings += [(f"protocol.{name}.allow", "always") for name in _PROTOCOLS]
    settings += config
    values = {name: os.environ[name] for name in _INHERITED if name in os.environ} | _ENVIRONMENT
    values["GIT_ALLOW_PROTOCOL"] = ":".join(_PROTOCOLS) if may_fetch else ""
    values.update(environment or {})
    values["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        values[f"GIT_CONFIG_KEY_{number}"] = key
        values[f"GIT_CONFIG_VALUE_{number}"] = value
    return Command(("git",), values)


def fetches_by_itself(version: Version) -> bool:
    """Tell whether a git of this version may fetch what a partial clone lacks, without being asked."""
    if version[:2] >= (2, 45):
        return False
    return not version or version[2] < _NOT_LAZY.get(version[1], 1000)


def check_version(version: Version) -> None:
    """Raise BrokenSource where git is too old; one that does not say what it is gets no benefit but that."""
    if version and version < OLDEST:
        raise BrokenSource(
            f"git {'.'.join(map(str, version))} is older than {'.'.join(map(str, OLDEST))}, which cachewatch requires: "
            "it would ignore security settings; install a newer git"
        )
