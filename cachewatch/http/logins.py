"""Credentials out of files that not everybody can read, as headers."""

import base64
from collections.abc import Mapping
from pathlib import Path

from cachewatch.errors import RefusedAddress


def bearer(file: Path) -> Mapping[str, str]:
    """Return the header that carries the token in `file`."""
    return {"Authorization": f"Bearer {_secret(file)}"}


def basic(file: Path) -> Mapping[str, str]:
    """Return the header that carries what `file` holds: a user and a password with a colon between them."""
    user, colon, password = _secret(file).partition(":")
    if not colon:
        raise RefusedAddress(f"{file}: must hold user:password, on one line")
    value = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {value}"}


def _secret(file: Path) -> str:
    try:
        if file.stat().st_mode & 0o004:
            raise RefusedAddress(f"{file}: holds a secret that everybody can read; run: chmod o-r {file}")
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedAddress(f"{file}: cannot be read ({getattr(error, 'strerror', 'not text')})") from error
    if not text or not text.isprintable() or not text.isascii():
        raise RefusedAddress(f"{file}: must hold one line of plain text")
    return text
