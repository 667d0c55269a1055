"""The section `sources:`: the repositories and build caches to watch, and how they are polled."""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import model_validator

from cachewatch.config.sections_and_mistakes import ConfigContext, ConfigSection, checked, key, mistake, not_in_file
from cachewatch.config.value_types_and_secrets import (
    ByName,
    ByType,
    ConvertedFrom,
    Duration,
    FromText,
    Glob,
    PathInFolder,
    Several,
    Text,
    find_secret_file,
    path_in,
)
from cachewatch.core.names_and_layouts import ANYWHERE, Layout
from cachewatch.errors import ConfigError
from cachewatch.hooks import extensions, models
from cachewatch.http.allowed_addresses import check_secrecy

_OF_CACHES = ("token_file", "login_file")
_OF_GIT = "ssh_key_file, known_hosts_file, store_file or helper"
_SCP_LIKE = re.compile(r"[\w.@-]+:(?!//).+")
# A URL that everybody may know: no path of this machine, and nothing that looks like a secret.
_PUBLIC = re.compile(r"(?:https?|git)://[^@?#]+")
_LEAST_PERIOD = timedelta(seconds=1)


def _repository(text: str, context: ConfigContext) -> str:
    """Return the address of a repository: a URL unchanged, or a path relative to the configuration file's folder."""
    if not text or not text.isprintable() or text.startswith("-"):
        raise ConfigError(f"{text!r} is not an address; write a URL such as https://host/repository.git, or a path")
    if "://" in text:
        try:
            password = urlsplit(text).password
        except ValueError as error:
            raise ConfigError(f"{text!r} is not a URL: {error}") from error
        if password is not None:
            message = "contains a password, which would end up in logs; remove it and name a file under `credentials:`"
            raise ConfigError(message)
        return text
    is_scp_like = _SCP_LIKE.fullmatch(text) and "/" not in text.partition(":")[0]
    return text if is_scp_like else str(path_in(context.folder, text))


Address = Annotated[str, FromText(_repository)]
SecretPath = Annotated[
    Path,
    FromText(lambda name, file: (find_secret_file if file.with_secrets else path_in)(file.folder, name), type="string"),
]


class Poll(ConfigSection):
    """How often the source is polled."""

    every: Duration = key("time between two polls, at least one second", timedelta(hours=1))
    jitter: Duration = key(
        "maximum random delay of a poll, so that clients do not all poll at the same time",
        lambda values: min(timedelta(minutes=5), values["every"] / 12),
        if_left_out="5m, or a twelfth of `every` if that is less",
    )
    timeout: Duration = key("time after which a poll is given up", timedelta(minutes=10))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.every < _LEAST_PERIOD or self.timeout < _LEAST_PERIOD:
            raise mistake("every and timeout must be at least a second")
        return self


class Credentials(ConfigSection):
    """How to log in. Git uses no other credentials; secrets are in files that only their owner can read."""

    ssh_key: SecretPath | None = key("private key for git over ssh", None, name="ssh_key_file", if_left_out="none")
    known_hosts: PathInFolder | None = key(
        "public keys of the servers that git may contact over ssh", None, name="known_hosts_file", if_left_out="none"
    )
    store: SecretPath | None = key(
        "file in the format of git-credential-store, for git over https", None, name="store_file", if_left_out="none"
    )
    helper: Text | None = key("any other credential helper, as in git's `credential.helper`", None, if_left_out="none")
    token_file: SecretPath | None = key("file that contains a bearer token for a build cache", None, if_left_out="none")
    login_file: SecretPath | None = key(
        "file that contains `user:password` on one line, for a build cache", None, if_left_out="none"
    )


class Source(ConfigSection):
    """The keys of all types of source."""

    name: str = not_in_file()
    type: str = key("`git`: a repository or a folder of documents; the other types are those below", "git")
    address: str = not_in_file()  # the name of the source, unless its type has a key for the address
    tags: Several[Glob] = key("tags to watch", (), if_left_out="all")
    poll: Poll = key("how often the source is polled", Poll())
    stale_after: Duration = key(
        "time without news after which operators are notified; digests say so too,"
        " unless the source is usually silent for that long",
        timedelta(days=4),
    )
    first_run: Literal["silent", "report"] = key(
        "what the first pass does: `silent` begins at the newest revision, `report` reports that revision", "silent"
    )
    since: Text | None = key("date or revision to begin at", None, if_left_out="the newest revision")
    credentials: Annotated[
        dict[str, str],
        ConvertedFrom(Credentials, lambda found, _: {name: str(value) for name, value in found if value is not None}),
    ] = key("how to log in", {})

    @property
    def public_address(self) -> str:
        """URL of the repository for readers of digests; "" if there is none."""
        return self.address if self.type == "git" and _PUBLIC.fullmatch(self.address) else ""

    @property
    def layout(self) -> Layout:
        """Where documents lie in the repository."""
        return ANYWHERE


class GitSource(Source):
    """A git repository, or a folder of documents."""

    address: Address = key(
        "URL or path of the repository, or path of a folder of documents; a URL must not contain a password", name="git"
    )
    branch: Text | None = key("branch of the repository", None, if_left_out="the repository's default branch")
    documents: Text | None = key(
        "where the documents of a repository are, as a path with {package} and, if need be, {tag} in it, such as"
        " `catalogue/{tag}/{package}/specs.md`",
        None,
        if_left_out="`_cache/`, or else wherever a text file is a document",
    )

    @property
    def layout(self) -> Layout:
        """Where documents lie in the repository."""
        return Layout.parse(self.documents) if self.documents else ANYWHERE

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.documents:
            checked(Layout.parse, self.documents)
        if any(name in _OF_CACHES for name in self.credentials):
            raise mistake(f"`credentials:` of the type git are {_OF_GIT}")
        return self


class LiveSource(Source):
    """A live build cache at a URL, recorded at each poll."""

    address: Address = key("URL or path of what is published", name="url")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(name not in _OF_CACHES for name in self.credentials):
            raise mistake(f"`credentials:` of the type {self.type} are token_file or login_file")
        if self.credentials and self.address.startswith(("http://", "oci+http://")):
            checked(check_secrecy, self.address.removeprefix("oci+"))  # they would be sent over a network unencrypted
        return self


def source_models() -> Mapping[str, type[ConfigSection]]:
    """Return the model of each type of source."""
    own: dict[str, type[ConfigSection]] = {"git": GitSource}
    return own | models([kind for kind in extensions().source_kinds if kind.type not in own])


Sources = ByName[Annotated[Source, ByType("sources", source_models, "git")]]
