"""What went wrong with a request, in one kind of error and in words that help."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import httpx2

from cachewatch.errors import HttpError, RefusedAddress
from cachewatch.http.urls import shown
from cachewatch.http.values import Answer

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


@asynccontextmanager
async def translated(url: str) -> AsyncIterator[None]:
    """Turn every failure of httpx2 into one of ours."""
    try:
        yield
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, UnicodeError) as error:
        raise RefusedAddress(f"{shown(url)}: is not an http or https address") from error
    except httpx2.HTTPError as error:
        _fail(url, error)


def _fail(url: str, error: httpx2.HTTPError) -> NoReturn:
    if certificate := _cause(error, ssl.SSLCertVerificationError):
        why = getattr(certificate, "verify_message", "") or "it cannot be verified"
        raise HttpError(f"{shown(url)}: the certificate is not trusted: {why}") from error
    match error:
        case httpx2.ProxyError():
            message = "the proxy refused"
        case httpx2.ConnectTimeout():
            message = "no connection in time"
        case httpx2.TimeoutException():
            message = "the server stopped sending"
        case httpx2.ConnectError():
            message = f"no connection ({_first_line(error) or 'refused'})"
        case httpx2.RemoteProtocolError() | httpx2.ReadError():
            message = "the connection was cut"
        case _:
            message = _first_line(error) or type(error).__name__
    is_refused = isinstance(error, httpx2.ProxyError)
    was_sent = not isinstance(error, httpx2.ProxyError | httpx2.ConnectError | httpx2.ConnectTimeout)
    raise HttpError(f"{shown(url)}: {message}", is_transient=not is_refused, was_sent=was_sent) from error


def _cause(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _hint(status: int) -> str:
    match status:
        case 401 | 403:
            return ": the credentials are missing, wrong or not sufficient"
        case 404 | 410:
            return ": nothing exists at this address"
        case 407:
            return ": the proxy requires credentials"
        case 429:
            return ": too many requests"
        case _ if status >= 500:
            return ": the problem is on the server"
        case _:
            return ""


def counted(error: HttpError, attempts: int) -> HttpError:
    """Return `error` with the number of attempts that it took to be sure."""
    if attempts == 1:
        return error
    return HttpError(
        f"{error} ({attempts} attempts)",
        status=error.status,
        is_transient=error.is_transient,
        retry_after=error.retry_after,
    )


def refusal(answer: Answer) -> HttpError:
    """Return the error that an answer is which nobody wanted."""
    is_transient = answer.status in _TRANSIENT
    return HttpError(
        f"{shown(answer.url)}: the server answered {answer.status}{_hint(answer.status)}",
        status=answer.status,
        is_transient=is_transient,
        retry_after=answer.retry_after() if is_transient else None,
    )
