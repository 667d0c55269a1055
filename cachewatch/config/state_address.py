"""Where the state is: in a folder of this host, or in a PostgreSQL database that hosts share."""

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from msgspec import Struct

from cachewatch.config.nodes import Context
from cachewatch.config.secrets import Secret
from cachewatch.config.value_types import path_in
from cachewatch.errors import ConfigError

SCHEME = "postgresql"
_SECRETS = ("password", "sslpassword")


class PostgresAddress(Struct, frozen=True):
    """The address of a database, and its password apart, so that messages can name the address."""

    url: str
    password: Secret | None = None

    def __str__(self) -> str:
        return self.url


State = Path | PostgresAddress


def parse_state(text: str, context: Context) -> State:
    """Return the folder or the address that a file means."""
    return state_named(text, context.folder)


def state_named(text: str, folder: Path) -> State:
    """Return the folder, which may begin at `folder`, or the address that `text` means."""
    if re.match(r"[a-z][a-z0-9+.-]*:", text, re.IGNORECASE) is None:
        return path_in(folder, text)
    return PostgresAddress(_checked(text))


def _checked(text: str) -> str:
    parts = _split(text)
    if parts is not None and (
        parts.password is not None or any(name in _SECRETS for name, _ in parse_qsl(parts.query))
    ):
        raise ConfigError("contains a password; write it into a file, and name that in `state_password_file:`")
    is_address = parts is not None and text.startswith(f"{SCHEME}://") and re.fullmatch("/[^/]+", parts.path)
    if not is_address or not text.isprintable() or " " in text or (parts and parts.fragment):
        raise ConfigError(
            "is neither a folder nor an address such as `postgresql://cachewatch@db.example.org/cachewatch`"
        )
    return text


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        return parts if parts.port != 0 else None
    except ValueError:
        return None
