"""Secrets: in files of their own, in the environment, or in a configuration that nobody else can read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cachewatch.config.forms import Form, path_in
from cachewatch.config.model import Secret
from cachewatch.config.nodes import Context, Node
from cachewatch.config.tables import Key
from cachewatch.errors import ConfigError

_MOST_BYTES = 2**16

# What was taken out of the environment, so that no child process gets it, for the next reading.
_taken: dict[str, str] = {}


def secret_keys(name: str, about: str, check: Callable[[str], Any] = str) -> dict[str, Key]:
    """Return the keys that give one secret: `name`, `name_file` and `name_env`."""

    def inline(node: Node, _: Context) -> Secret:
        if node.file.stat().st_mode & 0o077:
            raise ConfigError(
                f"is a secret in a file that others can read; put it into `{name}_file:`, or `chmod 600 {node.file}`"
            )
        return _checked(node.text(), check)

    def from_file(node: Node, context: Context) -> Secret:
        if not context.with_secrets:
            return Secret("")
        return _checked(read_secret_file(node.text(), context.folder), check)

    def from_environment(node: Node, context: Context) -> Secret:
        return _checked(_from_environment(node.text()), check) if context.with_secrets else Secret("")

    text = {"type": "string"}
    return {
        name: Key(Form(inline, text), f"{about}; in a file that only its owner can read", name),
        f"{name}_file": Key(Form(from_file, text), f"{about}: the file that holds it, see Secrets", name),
        f"{name}_env": Key(Form(from_environment, text), f"{about}: the environment variable that holds it", name),
    }


def find_secret_file(name: str, folder: Path) -> Path:
    """Return where the secret file `name` is: among systemd's credentials, or in `folder`."""
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if credentials and "/" not in name and Path(credentials, name).exists():
        return Path(credentials, name)
    path = path_in(folder, name)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        also = f", nor is it in {credentials}" if credentials else ""
        raise ConfigError(f"{path} cannot be read ({error.strerror}){also}") from error
    if mode & 0o007:
        raise ConfigError(f"{path} holds a secret and can be read by everybody; run chmod o-rwx {path}")
    return path


def read_secret_file(name: str, folder: Path) -> str:
    """Return what the secret file `name` holds, without the newline at its end."""
    path = find_secret_file(name, folder)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{path} cannot be read ({reason})") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} is too long for a secret")
    return content.rstrip("\r\n")


def _from_environment(name: str) -> str:
    if name in os.environ:
        _taken[name] = os.environ.pop(name)
    if name not in _taken:
        raise ConfigError(f"the environment variable {name} is not set")
    return _taken[name]


def _checked(value: str, check: Callable[[str], Any]) -> Secret:
    if not value.strip():
        raise ConfigError("is empty, which no secret is")
    check(value)
    return Secret(value)
