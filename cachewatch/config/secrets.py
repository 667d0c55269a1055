"""Secrets, and the address of the state, which may need one.

A secret is in a file of its own, in the environment, or in a configuration file that nobody else can read. The
state is in a folder of this host, or in a PostgreSQL database that hosts share.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct
from pydantic import ValidationInfo, model_validator

from cachewatch.config.section import ConfigContext, ConfigSection, checked, key, keys_of
from cachewatch.config.types import FromText, path_in, url_parser
from cachewatch.errors import ConfigError

_MOST_BYTES = 2**16

# Secrets that were removed from the environment, so that no child process gets them; kept for the next reading.
_removed: dict[str, str] = {}


class Secret:
    """A text that must not be shown: its repr is only stars."""

    def __init__(self, value: str | Callable[[], str]) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself; raise ConfigError if it is only read now and cannot be read."""
        return self._value if isinstance(self._value, str) else self._value()

    def __repr__(self) -> str:
        return "Secret(***)"


class Given(Struct, frozen=True):
    """The text of one key of a secret: the secret, its file or its environment variable, depending on the key."""

    key: str
    text: str


class Hidden(FromText):
    """The type of a secret; the errors of its check `parse` do not repeat it.

    With `is_read_later`, it is needed even by commands that read no secrets: there it is read when it is revealed.
    """

    def __init__(self, parse: Callable[[str], Any], *, is_read_later: bool = False) -> None:
        super().__init__(parse, type="string")
        self._is_read_later = is_read_later

    def read(self, value: Any, info: ValidationInfo) -> Any:
        """Return the secret, read from wherever the configuration file says it is."""
        context: ConfigContext | None = info.context
        if not isinstance(value, Given) or context is None:
            return value
        if self._is_read_later and not context.with_secrets:
            return Secret(lambda: _found(value, context))
        return checked(_secret, value, self.parse, context)


class WithSecrets(ConfigSection):
    """A section with secrets, each of which has three keys: `name`, `name_file` and `name_env`."""

    @model_validator(mode="before")
    @classmethod
    def _keep_keys(cls, data: Any) -> Any:
        """Keep the key with each secret's text, because it determines whether that is a file, a variable or the secret."""
        if not isinstance(data, dict):
            return data
        keys = {name for name, each in keys_of(cls).items() if len(each.names) == 3}
        return {
            name: Given(name, value) if name in keys and isinstance(value, str) else value
            for name, value in data.items()
        }


def secret(name: str, about: str, default: Any = ...) -> Any:
    """Declare the three keys of a secret `name`; `about` describes it in the documentation."""
    return key(
        {
            name: about,
            f"{name}_file": f"file that contains the {about}",
            f"{name}_env": f"environment variable that contains the {about}",
        },
        default,
    )


def _secret(given: Given, check: Callable[[str], Any], context: ConfigContext) -> Secret:
    if given.key.endswith(("_file", "_env")) and not context.with_secrets:
        return Secret("")
    value = _found(given, context)
    check(value)
    return Secret(value)


def _found(given: Given, context: ConfigContext) -> str:
    if given.key.endswith("_file"):
        value = read_secret_file(given.text, context.folder)
    elif given.key.endswith("_env"):
        if given.text in os.environ:
            _removed[given.text] = os.environ.pop(given.text)
        if given.text not in _removed:
            raise ConfigError(f"the environment variable {given.text} is not set")
        value = _removed[given.text]
    elif context.file.stat().st_mode & 0o077:
        raise ConfigError(
            f"is a secret in a file that others can read; put it into `{given.key}_file:`, or `chmod 600 {context.file}`"
        )
    else:
        value = given.text
    if not value.strip():
        raise ConfigError("is empty, which no secret is")
    return value


def find_secret_file(folder: Path, name: str) -> Path:
    """Return the path of the secret file `name`, in systemd's credentials folder or relative to `folder`.

    Raises ConfigError if it is missing or everybody can read it.
    """
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
    """Return the content of the secret file `name`, without the line end; raise ConfigError if it cannot be read."""
    path = find_secret_file(folder, name)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{path} cannot be read ({reason})") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} is too long for a secret")
    return content.rstrip("\r\n")


Password = Annotated[Secret, Hidden(str)]
PasswordReadLater = Annotated[Secret, Hidden(str, is_read_later=True)]
SecretUrl = Annotated[Secret, Hidden(url_parser("https", "http"))]


SCHEME = "postgresql"
_SECRETS = ("password", "sslpassword")


class PostgresAddress(Struct, frozen=True):
    """The URL of a database, without its password, so that messages can show it."""

    url: str
    password: Secret | None = None

    def __str__(self) -> str:
        return self.url


StatePlace = Path | PostgresAddress


def state_named(text: str, folder: Path) -> StatePlace:
    """Return the path, relative to `folder`, or the database address that `text` names."""
    if re.match(r"[a-z][a-z0-9+.-]*:", text, re.IGNORECASE) is None:
        return path_in(folder, text)
    try:
        parts = urlsplit(text)
        is_address = parts.port != 0 and re.fullmatch("/[^/]+", parts.path) and not parts.fragment
        has_password = parts.password is not None or any(name in _SECRETS for name, _ in parse_qsl(parts.query))
    except ValueError:
        is_address = has_password = False
    if has_password:
        raise ConfigError("contains a password; write it into a file, and name that in `state_password_file:`")
    if not is_address or not text.startswith(f"{SCHEME}://") or not text.isprintable() or " " in text:
        raise ConfigError(
            "is neither a folder nor an address such as `postgresql://cachewatch@db.example.org/cachewatch`"
        )
    return PostgresAddress(text)
