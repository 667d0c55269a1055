"""Ask servers over HTTP, patiently but not for ever. The only module that talks to httpx.

`Client.get` is for sources: it tries again, follows redirects, and gives credentials to
nobody but the server they are for. `post` is for webhooks: one attempt, no redirects, and
whatever the server answered. Both end at a deadline, whatever the server does, and read no
more than they were told to.

Nothing here ever says a password, a token or the query of an address.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NoReturn
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx
from msgspec import Struct, field

from cachewatch import __version__
from cachewatch.errors import HttpError, RefusedAddress
from cachewatch.inflate import NotInflated, inflate

_AGENT = f"cachewatch/{__version__}"
_AT_ONCE = 16
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
_PORTS = {"http": 80, "https": 443}
_PACKED = {"gzip", "x-gzip", "deflate"}


class Limits(Struct, frozen=True, kw_only=True):
    """How long and how much."""

    seconds: float = 600.0  # for one answer, with all attempts and pauses
    silence: float = 30.0  # seconds without a byte after which an attempt is given up
    size: int = 512 * 2**20  # bytes of one answer, unpacked
    attempts: int = 4
    redirects: int = 5
    pause: float = 1.0  # seconds before the second attempt; doubled for each that follows
    longest_pause: float = 60.0


class Answer(Struct, frozen=True):
    """What a server said."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    is_cut: bool = False  # there was more than was asked for
    url: str = ""  # that answered in the end

    def retry_after(self, now: datetime | None = None) -> float | None:
        """Return how many seconds the server asks to wait, if it does."""
        return _seconds(self.headers.get("retry-after", ""), now or datetime.now(UTC))


class Request(Struct, frozen=True):
    """What to ask for."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    expected: Collection[int] = ()  # what may be answered besides 200 and is no failure
    size: int | None = None  # bytes at most, if fewer than the limits allow


class Client:
    """Asks servers for files; keeps connections open until it is closed."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._runner = asyncio.Runner()
        self._client: httpx.AsyncClient | None = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        expected: Collection[int] = (),
        size: int | None = None,
    ) -> Answer:
        """Return the answer of 200 or of an `expected` status, or raise HttpError.

        An `Authorization` among the headers goes to the server of `url` and to no other.
        """
        return self._runner.run(self._get(Request(url, headers or {}, expected, size)))

    def get_all(self, requests: Iterable[Request]) -> Iterator[Answer | HttpError]:
        """Yield the answers to many requests in their order, a few under way at once."""
        batch: list[Request] = []
        for request in requests:
            batch.append(request)
            if len(batch) == 8 * _AT_ONCE:
                yield from self._runner.run(self._get_batch(batch))
                batch.clear()
        yield from self._runner.run(self._get_batch(batch))

    def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            self._runner.run(self._client.aclose())
            self._client = None
        self._runner.close()

    async def _get_batch(self, requests: list[Request]) -> list[Answer | HttpError]:
        free = asyncio.Semaphore(_AT_ONCE)

        async def get(request: Request) -> Answer | HttpError:
            async with free:
                try:
                    return await self._get(request)
                except HttpError as error:
                    return error

        return await asyncio.gather(*map(get, requests))

    async def _get(self, request: Request) -> Answer:
        check_url(request.url)
        if self._client is None:
            self._client = _client(self._limits.silence)
        deadline = time.monotonic() + self._limits.seconds
        for attempt in range(1, self._limits.attempts + 1):
            try:
                return await _within(deadline, request.url, self._follow(self._client, request))
            except HttpError as error:
                pause = self._pause(error, attempt)
                if pause is None or time.monotonic() + pause >= deadline:
                    raise _counted(error, attempt) from error
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt either answered or failed")

    def _pause(self, error: HttpError, attempt: int) -> float | None:
        """Return the seconds to wait before trying again, or None if that would not help."""
        if not error.is_transient or attempt == self._limits.attempts:
            return None
        if error.retry_after is not None:
            return error.retry_after
        backoff: float = min(self._limits.pause * 2.0 ** (attempt - 1), self._limits.longest_pause)
        return backoff * random.uniform(0.5, 1.0)  # noqa: S311  jitter is no secret

    async def _follow(self, client: httpx.AsyncClient, request: Request) -> Answer:
        url, headers = request.url, dict(request.headers)
        size = self._limits.size if request.size is None else request.size
        for _ in range(self._limits.redirects + 1):
            answer = await _ask(client, "GET", url, headers, most=size)
            if answer.status not in _REDIRECTS or answer.status in request.expected:
                return _accepted(answer, request, size)
            target = _target(url, answer)
            if origin(target) != origin(url):
                headers = {name: value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
            url = target
        raise HttpError(
            f"{shown(request.url)}: leads from one redirect to the next, more than {self._limits.redirects}"
        )


def post(
    url: str,
    body: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    seconds: float = 30.0,
    most: int = 64 * 2**10,
) -> Answer:
    """Send `body` once and return whatever was answered: any status, and at most `most` bytes.

    A redirect is returned, not followed. Raises HttpError, without a status, where nothing was
    answered within `seconds`; the server may have acted all the same.
    """
    check_url(url)

    async def send() -> Answer:
        async with _client(seconds) as client:
            asked = _ask(client, "POST", url, headers or {}, most=most, body=body)
            return await _within(time.monotonic() + seconds, url, asked)

    return asyncio.run(send())


def bearer(file: Path) -> Mapping[str, str]:
    """Return the header that carries the token in `file`."""
    return {"Authorization": f"Bearer {_secret(file)}"}


def basic(file: Path) -> Mapping[str, str]:
    """Return the header that carries what `file` holds: a user and a password with a colon between them."""
    user, colon, password = _secret(file).partition(":")
    if not colon:
        raise RefusedAddress(f"{file}: must hold user:password, on one line")
    value: str = httpx.BasicAuth(user, password)._auth_header  # noqa: SLF001  so that there is one way to spell it
    return {"Authorization": value}


def shown(url: str) -> str:
    """Return `url` as it may be told to people: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return "an address that cannot be read"


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


def check_url(url: str) -> None:
    """Raise RefusedAddress unless `url` is one of http or https that carries no password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL) as error:
        raise RefusedAddress(f"{shown(url)}: is not an address") from error
    if parts.scheme not in _PORTS or not host:
        raise RefusedAddress(f"{shown(url)}: is not an address of http or https")
    if parts.username is not None or parts.password is not None:
        raise RefusedAddress(f"{shown(url)}: carries a password; keep it in a file of its own")


def _client(silence: float) -> httpx.AsyncClient:
    """Return a client with the proxies that the environment names and the trust of this machine."""
    return httpx.AsyncClient(
        headers={"User-Agent": _AGENT, "Accept": "*/*", "Accept-Encoding": "gzip"},
        timeout=httpx.Timeout(silence),
        limits=httpx.Limits(max_connections=_AT_ONCE),
        follow_redirects=False,
        verify=_trust(),
    )


def _trust() -> ssl.SSLContext | bool:
    """Trust whom this machine trusts (or SSL_CERT_FILE says), and without any such list whom browsers trust."""
    paths = ssl.get_default_verify_paths()
    has_own = paths.cafile is not None or (paths.capath is not None and any(Path(paths.capath).iterdir()))
    return ssl.create_default_context() if has_own else True


async def _within(deadline: float, url: str, asked: Awaitable[Answer]) -> Answer:
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await asked
    except TimeoutError as error:
        raise HttpError(f"{shown(url)}: took too long", was_sent=True) from error


async def _ask(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    most: int,
    body: bytes | None = None,
) -> Answer:
    async with _translated(url), client.stream(method, url, headers=dict(headers), content=body) as response:
        data, is_cut = await _read(response, most)
        found = {name.lower(): value for name, value in response.headers.items()}
        coding = found.get("content-encoding", "identity").strip().lower()
        if coding in _PACKED and not is_cut and data:
            data, is_cut = _unpacked(data, most, url, is_strict=method == "GET" and response.status_code == 200)
        elif coding != "identity" and response.status_code == 200 and method == "GET" and data:
            raise HttpError(f"{shown(url)}: is packed as {coding[:20]!r}, which was not asked for")
        return Answer(response.status_code, found, data, is_cut, url)


async def _read(response: httpx.Response, most: int) -> tuple[bytes, bool]:
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > most:
            return bytes(data[:most]), True
    return bytes(data), False


def _unpacked(data: bytes, most: int, url: str, *, is_strict: bool) -> tuple[bytes, bool]:
    try:
        return inflate(data, most=most), False
    except NotInflated as error:
        if is_strict:
            raise HttpError(f"{shown(url)}: {error}", is_transient=True) from error
        return b"", True


@asynccontextmanager
async def _translated(url: str) -> AsyncIterator[None]:
    """Turn every failure of httpx into one of ours."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
        raise RefusedAddress(f"{shown(url)}: is not an address of http or https") from error
    except httpx.HTTPError as error:
        _fail(url, error)


def _fail(url: str, error: httpx.HTTPError) -> NoReturn:
    if certificate := _cause(error, ssl.SSLCertVerificationError):
        why = getattr(certificate, "verify_message", "") or "it cannot be verified"
        raise HttpError(f"{shown(url)}: the certificate is not trusted: {why}") from error
    match error:
        case httpx.ProxyError():
            message = "the proxy refused"
        case httpx.ConnectTimeout():
            message = "no connection in time"
        case httpx.TimeoutException():
            message = "the server fell silent"
        case httpx.ConnectError():
            message = f"no connection ({_first_line(error) or 'refused'})"
        case httpx.RemoteProtocolError() | httpx.ReadError():
            message = "the connection was cut"
        case _:
            message = _first_line(error) or type(error).__name__
    is_refused = isinstance(error, httpx.ProxyError)
    was_sent = not isinstance(error, httpx.ProxyError | httpx.ConnectError | httpx.ConnectTimeout)
    raise HttpError(f"{shown(url)}: {message}", is_transient=not is_refused, was_sent=was_sent) from error


def _cause(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _accepted(answer: Answer, request: Request, most: int) -> Answer:
    if answer.status == 200 or answer.status in request.expected:
        if answer.is_cut and answer.status == 200:
            raise HttpError(f"{shown(answer.url)}: has more than {most:,} bytes")
        return answer
    raise HttpError(
        f"{shown(answer.url)}: the server answered {answer.status}{_hint(answer.status)}",
        status=answer.status,
        is_transient=answer.status in _TRANSIENT,
        retry_after=answer.retry_after() if answer.status in _TRANSIENT else None,
    )


def _hint(status: int) -> str:
    match status:
        case 401 | 403:
            return ": it wants other credentials, or none of yours may see this"
        case 404 | 410:
            return ": there is nothing there"
        case 407:
            return ": the proxy wants credentials"
        case 429:
            return ": it is asked too often"
        case _ if status >= 500:
            return ": it has a problem of its own"
        case _:
            return ""


def _target(url: str, answer: Answer) -> str:
    try:
        target = urljoin(url, answer.headers.get("location", ""))
        check_url(target)
    except (ValueError, RefusedAddress) as error:
        raise HttpError(f"{shown(url)}: redirects to where nobody may go") from error
    if url.startswith("https:") and not target.startswith("https:"):
        raise HttpError(f"{shown(url)}: redirects from https to http, which is refused")
    return target


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return what tells servers apart: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _counted(error: HttpError, attempts: int) -> HttpError:
    if attempts == 1:
        return error
    return HttpError(
        f"{error} ({attempts} attempts)",
        status=error.status,
        is_transient=error.is_transient,
        retry_after=error.retry_after,
    )


def _seconds(text: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After means: a number of them, or a date."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
