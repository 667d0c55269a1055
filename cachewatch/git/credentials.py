"""How git authenticates to a server, and how the secrets stay out of every message.

Secrets stay in files that git, ssh or a helper opens itself: none is ever in an argument, in
an environment, in the configuration of a clone or in our memory.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from cachewatch.core.untrusted_text import safe
from cachewatch.errors import BrokenSource, UsageError
from cachewatch.git.hardening import SSH

_HIDDEN = "..."
# Whatever stands before the colon, and ends at the first sign that no address has: a server may have written it.
_USERINFO = re.compile(r"(://)[^\s/@'\"]*@")
_QUERY = re.compile(r"(://[^\s?'\"]{0,2000}\?)[^\s'\"]+")


class Access(Struct, frozen=True, kw_only=True):
    """The files that the administrator names for one source; git is handed their names only."""

    ssh_key: Path | None = None
    known_hosts: Path | None = None
    netrc: Path | None = None
    store: Path | None = None  # in the form of git-credential-store
    helper: str | None = None  # any other helper, as in git's own credential.helper

    @classmethod
    def named(cls, values: Mapping[str, str]) -> "Access":
        """Return the access that a configuration spells out. Raises UsageError for a name that means nothing."""
        if unknown := values.keys() - set(cls.__struct_fields__):
            known = ", ".join(cls.__struct_fields__)
            raise UsageError(f"credentials: {safe(min(unknown))} is none of those that git can use: {known}")
        chosen: dict[str, Any] = {name: value if name == "helper" else Path(value) for name, value in values.items()}
        return cls(**chosen)

    @property
    def settings(self) -> list[tuple[str, str]]:
        """The configuration that git is given."""
        helpers = [self.helper] if self.helper else []
        if self.store is not None:
            # It may look a password up. Told of one that was refused, git's own helper would erase it for good.
            ask = f"git credential-store --file={shlex.quote(str(self.store))} get"
            helpers.append(f'!f() {{ test "$1" != get || {ask}; }}; f')
        return [("credential.helper", helper) for helper in helpers]

    @contextmanager
    def environment(self) -> Iterator[Mapping[str, str]]:
        """Offer the environment that git is given, while it runs."""
        self._check()
        values = {}
        if self.ssh_key is not None or self.known_hosts is not None:
            values["GIT_SSH_COMMAND"] = self._ssh()
        if self.netrc is None:
            yield values
            return
        # The library that git speaks HTTP with looks nowhere but in the home folder.
        with TemporaryDirectory(prefix="cachewatch-") as home:
            Path(home, ".netrc").symlink_to(self.netrc.absolute())
            yield values | {"HOME": home}

    def _ssh(self) -> str:
        options = [f"-oIdentityFile={self.ssh_key}", "-oIdentitiesOnly=yes"] if self.ssh_key else []
        if self.known_hosts is not None:
            options.append(f"-oUserKnownHostsFile={self.known_hosts}")
        return shlex.join([*shlex.split(SSH), *options])

    def _check(self) -> None:
        for path in (self.ssh_key, self.known_hosts, self.netrc, self.store):
            try:
                if path is not None:
                    path.open("rb").close()
            except OSError as error:
                raise BrokenSource(
                    f"{path}: {error.strerror}; this file is named in the credentials of a source"
                ) from None


def redact(text: str, address: str = "") -> str:
    """Return `text` without the user, the password or the query of any URL, above all of `address`."""
    for secret in _secrets(address):
        text = text.replace(secret, _HIDDEN)
    text = _QUERY.sub(rf"\1{_HIDDEN}", _USERINFO.sub(rf"\1{_HIDDEN}@", text))
    return safe(text)


def _secrets(address: str) -> list[str]:
    try:
        parts = urlsplit(address)
        found = [parts.password or "", *(value for _, _, value in (i.partition("=") for i in parts.query.split("&")))]
        if parts.scheme.startswith("http"):
            found.append(parts.username or "")
    except ValueError:
        return []
    secrets = {form for value in found for form in (value, unquote(value)) if len(form) > 2}
    return sorted(secrets, key=len, reverse=True)
