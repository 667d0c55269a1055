"""How git is started: with an environment and a configuration of our own making, and nothing else.

Nothing that a shell, a user's configuration or a repository says can make git run a command,
ask for a password, follow a redirection or leave a process behind.
"""

import os

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

_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=3",
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

# What git may speak when it fetches; when it only reads, nothing at all.
_PROTOCOLS = ("https", "http", "ssh", "git", "file")


def git_command(*, may_fetch: bool = False) -> list[str]:
    """Return how to start git with an environment of our own making."""
    config = dict(_CONFIG)
    if may_fetch:
        config |= {f"protocol.{name}.allow": "always" for name in _PROTOCOLS}
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ} | _ENVIRONMENT
    environment["GIT_CONFIG_COUNT"] = str(len(config))
    for number, (key, value) in enumerate(config.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    # GitPython adds to the environment that it inherits and can take nothing away.
    return ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "git"]
