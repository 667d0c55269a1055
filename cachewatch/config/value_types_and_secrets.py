"""The types of values in the configuration file: how each is parsed from text, and its JSON Schema.

Only text is converted. Values that code passes must already have the right type, as pydantic checks.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from email.utils import parseaddr
from inspect import signature
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BeforeValidator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from cachewatch.config.schedules_and_quiet_times import DURATION, SIZE, parse_duration, parse_size
from cachewatch.config.sections import (
    NOT_A_KEY,
    ConfigContext,
    ConfigSection,
    checked,
    holds,
    key,
    keys_of,
    mistake,
    mistake_at,
    unknown,
)
from cachewatch.core.filters_and_spec_patterns import matcher
from cachewatch.core.versions_spellings_targets import parse_ranges
from cachewatch.errors import ConfigError
from cachewatch.hooks import extensions

_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MAIL = re.compile(rf"{_LOCAL}@{_LABEL}(\.{_LABEL})*")


def parse_mail(text: str) -> str:
    """Return `text` if it is a mail address without a name, such as ops@example.org. Raises ConfigError if not."""
    if not text.isascii():
        remedy = "use an address without accents, and the xn-- form of the domain"
        raise ConfigError(f"{text!r} is not plain ASCII, which many mail servers refuse (they lack SMTPUTF8); {remedy}")
    if len(text) > 254 or not _MAIL.fullmatch(text):
        raise ConfigError(f"{text!r} is not a mail address; write it as name@example.org")
    return text


def parse_sender(text: str) -> str:
    """Return `text` if it is one mail address, with or without a name. Raises ConfigError if not."""
    name, address = parseaddr(text)  # of two addresses, some versions of Python return the first, others none
    is_one = text.rstrip().endswith(f"<{address}>") or (not name and text.strip() == address)
    if not text.isprintable() or not address or not is_one:
        remedy = "write Name <name@example.org>, with quotes around special characters"
        raise ConfigError(f"{text!r} is not a mail address; {remedy}")
    parse_mail(address)
    return text


def address_of(text: str) -> str:
    """Return the address in `Name <name@example.org>`; `text` itself if it is an address without a name."""
    return (parseaddr(text)[1] or text) if "<" in text else text


def parse_host(text: str) -> str:
    """Return `text` if it is a host name or an IP address. Raises ConfigError if not."""
    is_ipv6 = ":" in text and re.fullmatch(r"[0-9A-Fa-f:.]+", text)
    if not is_ipv6 and (len(text) > 253 or not _HOST.fullmatch(text)):
        raise ConfigError(f"{text!r} is not a host; write only its name or address: smtp.example.org")
    return text


def parse_listen(text: str) -> str:
    """Return `text` if it is an address to listen on, `host:port`. Raises ConfigError if not."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r} is not an address to listen on; write 127.0.0.1:9469, or [::1]:9469")
    parse_host(host.removeprefix("[").removesuffix("]"))
    return text


def url_parser(*schemes: str) -> Callable[[str], str]:
    """Return a function that checks URLs with these schemes; its errors do not show the URL, which may be secret."""

    def parse(text: str) -> str:
        example = f"write one that begins with {' or '.join(f'{scheme}:' for scheme in schemes)}"
        try:
            parts = urlsplit(text)
            has_host = parts.scheme == "mailto" or (parts.hostname and (parts.port or True))
        except ValueError as error:
            raise ConfigError(f"is not a URL; {example}") from error
        if parts.scheme not in schemes or not text.isascii() or not text.isprintable() or " " in text or not has_host:
            raise ConfigError(f"is not a URL; {example}")
        return text

    return parse


def parse_unsubscribe(text: str) -> str:
    """Return `text` if it is a `mailto:` or `https:` URL. Raises ConfigError if not."""
    url_parser("mailto", "https")(text)
    if text.startswith("mailto:"):
        parse_mail(text.removeprefix("mailto:").partition("?")[0])
    return text


T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class FromText:
    """The type of a value that `parse` makes from text, and from the ConfigContext if it takes two arguments."""

    # `schema` is the JSON Schema of the text; if it is empty, pydantic makes one.

    def __init__(self, parse: Callable[..., Any], **schema: Any) -> None:
        self.parse = parse
        self._schema = schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(self._schema) or handler(schema)

    def _read(self, value: Any, info: ValidationInfo) -> Any:
        context = [info.context] if len(signature(self.parse).parameters) > 1 else []
        return checked(self.parse, value, *context) if isinstance(value, str) and all(context) else value


class CheckedText(FromText):
    """The type of a text that stays as it is; the text is valid if `parse` raises no error for it."""

    def _read(self, value: Any, info: ValidationInfo) -> Any:
        super()._read(value, info)
        return value


class ConvertedFrom:
    """A type for pydantic: a section or list of the type `of` is read, and the value is `make(it, ConfigContext)`."""

    def __init__(self, of: Any, make: Callable[[Any, ConfigContext], Any]) -> None:
        self._of, self._make = of, make

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any, inner: Callable[[Any], Any], info: ValidationInfo) -> Any:
            return checked(self._make, inner(value), info.context) if info.context else value

        return core_schema.with_info_wrap_validator_function(read, handler.generate_schema(self._of))


class ByType:
    """The type of a section whose `type:` (or `default`) selects one of `models`; messages call such sections `of`."""

    def __init__(self, of: str, models: Callable[[], Mapping[str, type[ConfigSection]]], default: str = "") -> None:
        self._of, self._models, self._default = of, models, default

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        models = self._models()
        choices = {name: handler.generate_schema(model) for name, model in models.items()}
        union = core_schema.tagged_union_schema(choices, discriminator="type", metadata={"default": self._default})
        return core_schema.no_info_before_validator_function(lambda value: self._check(value, models), union)

    def _check(self, value: Any, models: Mapping[str, type[ConfigSection]]) -> Any:
        """Return the section with its type, perhaps the default. Raises a pydantic error if the type is unknown."""
        if not isinstance(value, dict):
            return value
        kind = value.get("type", self._default)
        if kind == "":
            raise mistake(f"lacks `type:`; it is one of {', '.join(models)}")
        if not isinstance(kind, str):
            raise mistake_at(("type",), holds(kind, "value"))
        if kind not in models:
            why = extensions().failed.get(kind)
            raise mistake(why or f"there is no type {kind!r} of {self._of}; {unknown(kind, models)}")
        return {**value, "type": kind}


class OneOrMore:
    """The type of a list that may also be written as one value, of the Python type `single`."""

    def __init__(self, single: type = str) -> None:
        self._single = single

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            lambda value: (value,) if isinstance(value, self._single) else value, handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        several = handler(schema)
        return {"oneOf": [several["items"], several]}


def _with_names(value: Any) -> Any:
    """Return the section `value`, with the key of each entry added to the entry as its name."""
    if not isinstance(value, dict):
        return value
    return {name: {**each, NOT_A_KEY: name} if isinstance(each, dict) else each for name, each in value.items()}


def check_name(name: str) -> str:
    """Return `name` if it can be used in paths, headers and commands. Raises ConfigError if not."""
    if not _NAME.fullmatch(name):
        form = "up to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
        raise ConfigError(f"{name!r} is not a valid name: use {form}")
    return name


def path_in(folder: Path, text: str) -> Path:
    """Return the path `text`, which may be relative to `folder` or begin with ~. Raises ConfigError if it is empty."""
    try:
        return folder / Path(_text(text)).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{text} has no home folder to begin with; write the whole path") from error


def whole_number(least: int, most: int) -> FromText:
    """Return the type of a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        digits = text.replace("_", "")
        if not re.fullmatch(r"\d{1,15}", digits, re.ASCII) or not least <= int(digits) <= most:
            raise ConfigError(f"{text!r} is not a whole number from {least} to {most}")
        return int(digits)

    return FromText(parse, type="integer", minimum=least, maximum=most)


def placeholders(*names: str, needed: str = "") -> FromText:
    """Return the type of a path or URL that may contain {name} for each of `names`, and must contain {needed}."""

    def parse(text: str) -> str:
        try:
            fields = [(name, form or kind) for _, name, form, kind in Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise ConfigError(f"{text!r}: {error}; braces may only enclose names, as in {{subscription}}") from error
        for name, extra in fields:
            if name not in names or extra:
                raise ConfigError(f"{{{name}}} is not a placeholder here; {unknown(name, names)}")
        if needed and needed not in dict(fields):
            raise ConfigError(f"{text!r} lacks {{{needed}}}, without which one digest would overwrite another")
        return text

    return FromText(parse)


def _text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ConfigError("is empty or contains control characters; write one line of text")
    return text


def _mode(text: str) -> int:
    if not re.fullmatch(r"0?[0-7]{3}", text) or not int(text, 8) & 0o400 or int(text, 8) & 0o113:
        raise ConfigError(f"{text!r} is not a mode of a file that its owner reads and not everybody writes; write 0644")
    return int(text, 8)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a date; write it as 2026-12-01") from error


def _duration_or_never(text: str) -> timedelta | None:
    try:
        return None if text == "never" else parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"{error}, or never") from error


def _glob(text: str) -> str:
    body = text.removeprefix("!")
    if not body or not text.isprintable():
        raise ConfigError(f"{text!r} is not a pattern; write a glob such as py-* or !*-rocm, or /a regular expression/")
    matcher(body)
    return text


def _once(values: tuple[T, ...]) -> tuple[T, ...]:
    if twice := [value for value, times in Counter(values).items() if times > 1]:
        raise ConfigError(f"{twice[0]!r} is listed twice; remove one")
    return values


Text = Annotated[str, FromText(_text)]
Name = Annotated[str, FromText(check_name, type="string", pattern=f"^{_NAME.pattern}$")]
Duration = Annotated[timedelta, FromText(parse_duration, type="string", pattern=DURATION)]
DurationOrNever = Annotated[
    timedelta | None, FromText(_duration_or_never, oneOf=[{"const": "never"}, {"type": "string", "pattern": DURATION}])
]
Size = Annotated[int, FromText(parse_size, oneOf=[{"type": "string", "pattern": SIZE}, {"type": "integer"}])]
# Without quotes, editors may take a mode for a number.
Mode = Annotated[int, FromText(_mode, oneOf=[{"type": "string", "pattern": "^0?[0-7]{3}$"}, {"type": "integer"}])]
Day = Annotated[date, FromText(_day, type="string", format="date")]
PathInFolder = Annotated[Path, FromText(lambda text, file: path_in(file.folder, text), type="string")]

Mail = Annotated[str, FromText(parse_mail, type="string", format="email")]
Recipient = Annotated[str, FromText(lambda text: parse_sender(text) if "<" in text else parse_mail(text))]
Sender = Annotated[str, FromText(parse_sender)]
Host = Annotated[str, FromText(parse_host)]
Listen = Annotated[str, FromText(parse_listen)]
Web = Annotated[str, FromText(url_parser("https", "http"), type="string", format="uri")]
Unsubscribe = Annotated[str, FromText(parse_unsubscribe)]

Several = Annotated[tuple[T, ...], OneOrMore()]
Once = Annotated[Several[T], AfterValidator(lambda values: checked(_once, values))]
ByName = Annotated[dict[Name, T], BeforeValidator(_with_names)]
Glob = Annotated[str, FromText(_glob)]
Range = Annotated[str, CheckedText(lambda text: parse_ranges(text.removeprefix("!")))]


_MOST_BYTES = 2**16

# Secrets, by environment variable. Variables are removed, so that no child process gets them; a reload finds them here.
_removed: dict[str, str] = {}


class Secret:
    """A text that must not be shown: its repr has only stars."""

    def __init__(self, value: str | Callable[[], str]) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret. Raises ConfigError if it has to be read for this and cannot be read."""
        return self._value if isinstance(self._value, str) else self._value()

    def __repr__(self) -> str:
        return "Secret(***)"


class Given(Struct, frozen=True):
    """A key for a secret, and its value: the secret itself, or the name of its file or environment variable."""

    key: str
    text: str


class Hidden(FromText):
    """The type of a secret that `parse` checks; the errors of `parse` must not contain it.

    Some commands read no secrets. If `is_read_later`, they can still read this one: `reveal` reads it when called.
    """

    def __init__(self, parse: Callable[[str], Any], *, is_read_later: bool = False) -> None:
        super().__init__(parse, type="string")
        self._is_read_later = is_read_later

    def _read(self, value: Any, info: ValidationInfo) -> Any:
        context: ConfigContext | None = info.context
        if not isinstance(value, Given) or context is None:
            return value
        if self._is_read_later and not context.with_secrets:
            return Secret(lambda: _found(value, context))
        if value.key.endswith(("_file", "_env")) and not context.with_secrets:
            return Secret("")
        text = checked(_found, value, context)
        checked(self.parse, text)
        return Secret(text)


class WithSecrets(ConfigSection):
    """A section with secrets, each of which can be given by three keys: `name`, `name_file` and `name_env`."""

    @model_validator(mode="before")
    @classmethod
    def _keep_keys(cls, data: Any) -> Any:
        """Return `data` with the text of each secret replaced by a Given, whose key tells where the secret is."""
        if not isinstance(data, dict):
            return data
        keys = {name for name, each in keys_of(cls).items() if len(each.names) == 3}
        return data | {name: Given(name, text) for name, text in data.items() if name in keys and isinstance(text, str)}


def secret(name: str, about: str, default: Any = ...) -> Any:
    """Return the declaration of a secret with the keys `name`, `name_file` and `name_env`; `about` describes it."""
    file, variable = f"file that contains the {about}", f"environment variable that contains the {about}"
    return key({name: about, f"{name}_file": file, f"{name}_env": variable}, default)


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
        remedy = f"put it into `{given.key}_file:`, or `chmod 600 {context.file}`"
        raise ConfigError(f"is a secret in a file that others can read; {remedy}")
    else:
        value = given.text
    if not value.strip():
        raise ConfigError("is empty, which no secret is")
    return value


def find_secret_file(folder: Path, name: str) -> Path:
    """Return the path of the secret file `name`: in systemd's folder of credentials if it is there, else in `folder`.

    Raises ConfigError if the file in `folder` is missing, or if every user of the machine has access to it.
    """
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if credentials and "/" not in name and Path(credentials, name).exists():
        return Path(credentials, name)
    path = path_in(folder, name)
    try:
        if path.stat().st_mode & 0o007:
            raise ConfigError(f"{path} holds a secret and can be read by everybody; run chmod o-rwx {path}")
    except OSError as error:
        also = f", nor is it in {credentials}" if credentials else ""
        raise ConfigError(f"{path} cannot be read ({error.strerror}){also}") from error
    return path


def read_secret_file(name: str, folder: Path) -> str:
    """Return the text in the secret file `name`, without the line end. Raises ConfigError if it is unreadable."""
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


class PostgresAddress(Struct, frozen=True):
    """The URL of a PostgreSQL database, which messages may show because it has no password; and the password."""

    url: str
    password: Secret | None = None

    def __str__(self) -> str:
        return self.url


StatePlace = Path | PostgresAddress


def state_named(text: str, folder: Path) -> StatePlace:
    """Return `text` as the address of a database, or as a path from `folder`. Raises ConfigError if it is neither."""
    if re.match(r"[a-z][a-z0-9+.-]*:", text, re.IGNORECASE) is None:
        return path_in(folder, text)
    try:
        parts = urlsplit(text)
        is_address = parts.port != 0 and re.fullmatch("/[^/]+", parts.path) and not parts.fragment
        secrets = {"password", "sslpassword"} & dict(parse_qsl(parts.query)).keys()
        has_password = parts.password is not None or bool(secrets)
    except ValueError:
        is_address = has_password = False
    if has_password:
        raise ConfigError("contains a password; write it into a file, and name that in `state_password_file:`")
    if not is_address or not text.startswith("postgresql://") or not text.isprintable() or " " in text:
        example = "postgresql://cachewatch@db.example.org/cachewatch"
        raise ConfigError(f"is neither a folder nor an address such as `{example}`")
    return PostgresAddress(text)
