"""`sources:` where revisions come from."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cachewatch.config.forms import DURATIONS, PATH, SIZES, TEXT, Form, choice, path_in
from cachewatch.config.model import Poll, Source
from cachewatch.config.nodes import Context, Node
from cachewatch.config.patterns import GLOBS
from cachewatch.config.secrets import find_secret_file
from cachewatch.config.tables import Key, Table, named
from cachewatch.errors import ConfigError

_OPTIONS = ("tag", "stack", "view")  # of a single build cache
_TYPES_OF = {"branch": ("git",), "max_index": ("buildcache", "catalogue")}
_OF_CACHES = ("token_file", "login_file")
_SCP_LIKE = re.compile(r"[\w.@-]+:(?!//).+")
_LEAST_PERIOD = timedelta(seconds=1)


def _repository(node: Node, context: Context) -> str:
    """Return the address of a repository: a URL as it is, a path from the folder of the file on."""
    text = node.text()
    if not text or not text.isprintable() or text.startswith("-"):
        raise ConfigError(f"{text!r} is not an address; write a URL such as https://host/repository.git, or a path")
    if "://" not in text:
        return (
            text if _SCP_LIKE.fullmatch(text) and "/" not in text.partition(":")[0] else str(_absolute(text, context))
        )
    return _url(text)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a URL: {error}") from error
    if parts.password is not None:
        raise ConfigError(
            "contains a password, which would end up in logs; remove it and name a file under `credentials:`"
        )
    return text


def _absolute(text: str, context: Context) -> Path:
    return path_in(context.folder, text)


def _secret_path(node: Node, context: Context) -> str:
    name = node.text()
    return str(find_secret_file(name, context.folder) if context.with_secrets else path_in(context.folder, name))


def _make_poll(**values: timedelta) -> Poll:
    poll = Poll(**values)
    if poll.every < _LEAST_PERIOD or poll.timeout < _LEAST_PERIOD:
        raise ConfigError("every and timeout must be at least a second")
    if "jitter" not in values:
        # Of a short period, not more than a part.
        return Poll(**values, jitter=min(poll.jitter, poll.every / 12))
    return poll


def _make_source(name: str, **values: Any) -> Source:
    kind = values.setdefault("type", "git")
    if "address" not in values:
        raise ConfigError(f"lacks `{'git' if kind == 'git' else 'url'}:` (where the revisions are)")
    options = {option: values.pop(option) for option in _OPTIONS if option in values}
    for key in options.keys() | values.keys() & {"branch", "max_index"}:
        if kind not in _TYPES_OF.get(key, ("buildcache",)):
            raise ConfigError(f"a source of the type {kind} has no {key}; remove `{key}:`")
    for key in values.get("credentials", {}):
        if (kind == "git") == (key in _OF_CACHES):
            use = (
                "ssh_key_file, known_hosts_file, netrc_file, store_file or helper"
                if kind == "git"
                else "token_file or login_file"
            )
            raise ConfigError(f"`credentials:` of the type {kind} are {use}")
    if values.keys() & {"credentials"} and kind != "git":
        _check_secrecy(values["address"])
    return Source(name=name, options=options, **values)


def _check_secrecy(address: str) -> None:
    """Refuse credentials for a build cache that would go over a network in the clear."""
    if address.startswith(("http://", "oci+http://")):
        from cachewatch.http.urls import check_secrecy  # noqa: PLC0415  slow to load

        check_secrecy(address.removeprefix("oci+"))


_SECRET_FILE = Form(_secret_path, {"type": "string"})

POLL = Table(
    "How often the source is asked",
    {
        "every": Key(DURATIONS, "time between two polls (1h)"),
        "jitter": Key(DURATIONS, "up to so much later, so that not everybody comes at once (5m)"),
        "timeout": Key(DURATIONS, "when a poll is given up (10m)"),
    },
    _make_poll,
)

CREDENTIALS = Table(
    "How to prove who we are; secrets stay in files that only their owner can read",
    {
        "ssh_key_file": Key(_SECRET_FILE, "private key for git over ssh", "ssh_key"),
        "known_hosts_file": Key(PATH, "keys of the servers that git may talk to over ssh", "known_hosts"),
        "netrc_file": Key(_SECRET_FILE, "file in the form of ~/.netrc, for git over https", "netrc"),
        "store_file": Key(_SECRET_FILE, "file in the form of git-credential-store, for git over https", "store"),
        "helper": Key(TEXT, "any other helper, as git's own credential.helper names it"),
        "token_file": Key(_SECRET_FILE, "file with a bearer token, for a build cache"),
        "login_file": Key(_SECRET_FILE, "file with user:password on one line, for a build cache"),
    },
    lambda **values: {name: str(value) for name, value in values.items()},
)

SOURCE = Table(
    "Where revisions come from",
    {
        "type": Key(
            choice("git", "buildcache", "catalogue"), "git (as if left out), or a live build cache or catalogue"
        ),
        "git": Key(Form(_repository, {"type": "string"}), "URL or path of the repository", "address"),
        "url": Key(Form(_repository, {"type": "string"}), "URL or path of a build cache or catalogue", "address"),
        "branch": Key(TEXT, "branch to follow; the repository's own choice if left out"),
        "tags": Key(GLOBS, "tags to look at; all if left out"),
        "tag": Key(TEXT, "what to call the one tag of a build cache (develop)"),
        "stack": Key(TEXT, "what to call the one stack of a build cache (cache)"),
        "view": Key(TEXT, "a named index of a build cache, instead of the main one"),
        "max_index": Key(SIZES, "how many bytes an index of a build cache may have, unpacked (4GiB)"),
        "poll": Key(POLL.form(), POLL.about),
        "stale_after": Key(DURATIONS, "when missing news is news: operators and readers are told (4d)"),
        "first_run": Key(choice("silent", "report"), "whether the first pass reports the newest revision (silent)"),
        "since": Key(TEXT, "a date or revision to start from, instead of the newest"),
        "credentials": Key(CREDENTIALS.form(), CREDENTIALS.about),
    },
    _make_source,
)


def _read_source(name: str, node: Node, context: Context) -> Source:
    source: Source = SOURCE.read(node, context, name=name)
    return source


SOURCES = named(_read_source, SOURCE.schema(), "Where revisions come from, by names")
