"""Send HTTP requests with a deadline and a size limit, and turn every failure into an HttpError with advice.

`Client.get` is for sources: it retries, follows redirects, and sends credentials only to the server that they are for.
`post` is for webhooks: one attempt, no redirects, and any answer is returned. Messages never contain a password, a
token or the query of a URL.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from math import inf
from pathlib import Path
from urllib.parse import urljoin

import certifi
import httpx2
from msgspec import Struct

from cachewatch import __version__
from cachewatch.errors import HttpError, RefusedAddress, TooLarge
from cachewatch.http.allowed_addresses import check_target, check_url, connection_check, origin, shown
from cachewatch.runtime.files_and_locks import NotInflated, TooMuch, TooPacked, inflate


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The limits of time and size for requests."""

    seconds: float = 600.0  # for one answer, with all attempts and pauses
    total: float = inf  # seconds for all answers to one client, without the time between requests
    silence: float = 30.0  # seconds without a byte after which an attempt is given up
    size: int = 512 * 2**20  # bytes of one answer, unpacked
    attempts: int = 4  # for one answer, with the first
    pause: float = 1.0  # seconds before the second attempt; doubled for each that follows


class Answer(Struct, frozen=True):
    """The answer of a server to one request."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    is_cut: bool = False  # the body was longer than the limit
    url: str = ""  # the URL that answered, after all redirects

    def __repr__(self) -> str:  # asyncio makes one of each result, and a body may be large
        return f"Answer({self.status}, {self.url!r})"

    def retry_after(self, now: datetime | None = None) -> float | None:
        """Return the seconds that Retry-After asks to wait from `now` (None: the present); None without a valid one."""
        text = self.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, TypeError):
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


_MOST_REDIRECTS = 5
_LONGEST_PAUSE = 60.0  # seconds
_LONGEST_REPLY = 64 * 2**10  # bytes of the answer to a POST
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
_HINTS = dict.fromkeys((401, 403), ": the credentials are missing, wrong or not sufficient")
_HINTS |= dict.fromkeys((404, 410), ": nothing exists at this address")
_HINTS |= {407: ": the proxy requires credentials", 429: ": too many requests"}


class Client:
    """Sends GET requests and keeps connections open until it is closed."""

    def __init__(self, limits: RequestLimits | None = None) -> None:
        self._limits = limits or RequestLimits()
        self._runner = asyncio.Runner()
        self._client = _client(self._limits.silence)
        self._waited = 0.0  # seconds spent waiting for answers

    def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        expected: Collection[int] = (),
        size: int | None = None,
        named_by: str = "",
    ) -> Answer:
        """Return the answer of `url` if its status is 200 or in `expected`. Raises HttpError otherwise.

        Raises TooLarge if the answer has more than `size` bytes (None: the client's limit). Credentials are sent only
        to the server of `url`. Neither `named_by`, the URL that supplied `url` ("": none), nor a redirect may lead from
        the internet to private networks.
        """
        check_url(url)
        limits, begun = self._limits, time.monotonic()
        left = limits.total - self._waited
        if left <= 0:
            raise HttpError(f"{shown(url)}: all answers together took more than {limits.total:,.0f} s")
        deadline = begun + min(limits.seconds, left)
        most = limits.size if size is None else size
        attempt, pause = 1, limits.pause
        try:
            while True:
                try:
                    asked = _follow(self._client, url, headers or {}, expected=expected, most=most, named_by=named_by)
                    return self._runner.run(_within(deadline, url, asked))
                except HttpError as error:
                    # Jitter is no secret.
                    wait = pause * random.uniform(0.5, 1.0) if error.retry_after is None else error.retry_after  # noqa: S311
                    if not error.is_transient or attempt == limits.attempts or time.monotonic() + wait >= deadline:
                        error.args = (f"{error} ({attempt} attempts)",) if attempt > 1 else error.args
                        raise
                time.sleep(wait)
                attempt, pause = attempt + 1, min(2 * pause, _LONGEST_PAUSE)
        finally:
            self._waited += time.monotonic() - begun

    def close(self) -> None:
        """Close all connections."""
        self._runner.run(self._client.aclose())
        self._runner.close()


async def _follow(
    client: httpx2.AsyncClient,
    asked: str,
    headers: Mapping[str, str],
    *,
    expected: Collection[int],
    most: int,
    named_by: str,
) -> Answer:
    url = asked
    if named_by:
        await check_target(named_by, url)
    for _ in range(_MOST_REDIRECTS + 1):
        answer = await _ask(client, "GET", url, headers, most=most, named_by=named_by)
        if answer.status not in _REDIRECTS or answer.status in expected:
            return _accepted(answer, expected, most)
        try:
            target = urljoin(url, answer.headers.get("location", ""))
            check_url(target)
        except (ValueError, RefusedAddress) as error:
            raise HttpError(f"{shown(url)}: redirects to a forbidden address") from error
        if url.startswith("https:") and not target.startswith("https:"):
            raise HttpError(f"{shown(url)}: redirects from https to http, which is refused")
        if origin(target) != origin(url):
            await check_target(url, target)
            named_by = url
            headers = {name: value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
        url = target
    raise HttpError(f"{shown(asked)}: redirects too often, more than {_MOST_REDIRECTS}")


def post(url: str, body: bytes, *, headers: Mapping[str, str] | None = None, seconds: float = 30.0) -> Answer:
    """Send `body` once and return the answer, whatever its status (redirects are not followed), cut to 64 KiB.

    Raises HttpError if no answer came within `seconds`; the server may have acted on the request all the same.
    """
    check_url(url)

    async def send() -> Answer:
        async with _client(seconds) as client:
            asked = _ask(client, "POST", url, headers or {}, most=_LONGEST_REPLY, body=body)
            return await _within(time.monotonic() + seconds, url, asked)

    return asyncio.run(send())


def _client(silence: float) -> httpx2.AsyncClient:
    """Return a client that uses the proxies of the environment and waits at most `silence` seconds for each byte."""
    return httpx2.AsyncClient(
        headers={"User-Agent": f"cachewatch/{__version__}", "Accept": "*/*", "Accept-Encoding": "gzip"},
        timeout=httpx2.Timeout(silence),
        follow_redirects=False,
        verify=_trust(),
    )


def _trust() -> ssl.SSLContext:
    """Return a TLS context that trusts this machine's certificates or SSL_CERT_FILE; if none, those of browsers."""
    paths = ssl.get_default_verify_paths()
    has_own = paths.cafile is not None or (paths.capath is not None and any(Path(paths.capath).iterdir()))
    return ssl.create_default_context(cafile=None if has_own else certifi.where())


async def _within(deadline: float, url: str, asked: Awaitable[Answer]) -> Answer:
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await asked
    except TimeoutError as error:
        raise HttpError(f"{shown(url)}: took too long", was_sent=True) from error


async def _ask(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    most: int,
    body: bytes | None = None,
    named_by: str = "",
) -> Answer:
    extensions = {"trace": connection_check(named_by, url)} if named_by else {}
    asked = client.stream(method, url, headers=dict(headers), content=body, extensions=extensions)
    try:
        async with asked as response:
            received, is_cut = BytesIO(), False  # which gives its bytes away without a copy
            async for chunk in response.aiter_raw():
                is_cut = received.tell() + len(chunk) > most
                received.write(chunk[: most - received.tell()])
                if is_cut:
                    break
            data = received.getvalue()
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, UnicodeError) as error:
        raise RefusedAddress(f"{shown(url)}: is not an http or https address") from error
    except httpx2.HTTPError as error:
        raise _failure(url, error) from error
    is_strict = method == "GET" and response.status_code == 200
    fields = {name.lower(): value for name, value in response.headers.items()}
    coding = fields.get("content-encoding", "identity").strip().lower()
    if coding in {"gzip", "x-gzip", "deflate"} and not is_cut and data:
        try:
            data = inflate(data, most=most)
        except NotInflated as error:
            message = f"{shown(url)}: {error}"
            if is_strict and isinstance(error, TooMuch):
                raise TooLarge(message) from error
            if is_strict:
                raise HttpError(message, is_transient=not isinstance(error, TooPacked)) from error
            data, is_cut = b"", True
    elif coding != "identity" and is_strict and data:
        raise HttpError(f"{shown(url)}: is packed as {coding[:20]!r}, which was not requested")
    return Answer(response.status_code, fields, data, is_cut, url)


def _failure(url: str, error: httpx2.HTTPError) -> HttpError:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        why = cause.verify_message or "it cannot be verified"
        return HttpError(f"{shown(url)}: the certificate is not trusted: {why}")
    first = (str(error).splitlines() or [""])[0][:200]
    faults: Mapping[type[httpx2.HTTPError], str] = {
        httpx2.ProxyError: "the proxy refused",
        httpx2.ConnectTimeout: "no connection in time",
        httpx2.TimeoutException: "the server stopped sending",
        httpx2.ConnectError: f"no connection ({first or 'refused'})",
        httpx2.RemoteProtocolError: "the connection was cut",
        httpx2.ReadError: "the connection was cut",
    }
    message = next((fault for kind, fault in faults.items() if isinstance(error, kind)), first or type(error).__name__)
    was_sent = not isinstance(error, httpx2.ProxyError | httpx2.ConnectError | httpx2.ConnectTimeout)
    is_transient = not isinstance(error, httpx2.ProxyError)
    return HttpError(f"{shown(url)}: {message}", is_transient=is_transient, was_sent=was_sent)


def _accepted(answer: Answer, expected: Collection[int], most: int) -> Answer:
    """Return `answer`. Raises HttpError unless its status is 200 or `expected`, TooLarge if a 200 is cut at `most`."""
    status, where = answer.status, shown(answer.url)
    if status != 200 and status not in expected:
        hint = _HINTS.get(status, ": the problem is on the server" if status >= 500 else "")
        is_transient = status in {408, 425, 429, 500, 502, 503, 504}
        wait, message = answer.retry_after() if is_transient else None, f"{where}: the server answered {status}{hint}"
        raise HttpError(message, is_transient=is_transient, retry_after=wait)
    if answer.is_cut and status == 200:
        raise TooLarge(f"{where}: has more than {most:,} bytes")
    return answer
