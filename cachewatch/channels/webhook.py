"""JSON to a URL: one request per digest, which the other side can check and tell from a repetition.

Requests carry an Idempotency-Key that stays the same over all attempts and, where a key is
configured, the signature of Standard Webhooks over that name, the time, and the body.
"""

import base64
import binascii
import hmac
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from urllib.parse import urlsplit

from msgspec.structs import replace

from cachewatch import http
from cachewatch.channels.clean import one_line, without_secret_url
from cachewatch.channels.presets import message
from cachewatch.config.model import Secret, WebhookConfig
from cachewatch.core.delivery import SENT, Answer, Carrier, Letter, Parcel, Shelf, Verdict
from cachewatch.errors import HttpError, RefusedAddress

_LATER = frozenset({408, 425, 429})
_THIS_MESSAGE = frozenset({400, 406, 409, 411, 415, 422, 451})
_LONGEST_WAIT = 3600.0  # seconds, whatever a server asks for


class WebhookChannel:
    """JSON to a URL."""

    def __init__(self, config: WebhookConfig) -> None:
        self.name = config.name
        self._config = config

    def pack(self, letter: Letter) -> Sequence[Parcel]:
        """Return one request."""
        return [self._parcel(letter, letter.key)]

    def repack(self, letter: Letter, original: Parcel) -> Parcel:
        """Return the same request under a name of its own, or it would be taken for a repetition."""
        title = f"Resent: {letter.title.removeprefix('Resent: ')}"
        return self._parcel(replace(letter, title=title), f"{original.message_id} {letter.created.isoformat()}")

    @contextmanager
    def open(self, shelf: Shelf) -> Iterator[Carrier]:  # noqa: ARG002  the contract of a channel
        """Begin a run."""
        yield _WebhookCarrier(self._config)

    def _parcel(self, letter: Letter, identity: str) -> Parcel:
        target = place(self._config.url)
        name = sha256(f"{self.name}\0{target}\0{identity}".encode(errors="surrogatepass")).hexdigest()[:32]
        return Parcel(
            key=letter.key,
            target=target,
            payload=message(self._config.preset, letter),
            content_type="application/json",
            message_id=f"digest-{name}",
            created=letter.created,
        )


class _WebhookCarrier:
    """Sends requests."""

    def __init__(self, config: WebhookConfig) -> None:
        self._config = config

    def deliver(self, parcel: Parcel) -> Answer:
        """Send one request."""
        seconds = self._config.timeout.total_seconds()
        try:
            answer = http.post(
                self._config.url.reveal(), parcel.payload, headers=self._headers(parcel), seconds=seconds
            )
        except HttpError as error:
            return self._failed(error)
        except RefusedAddress as error:
            return Answer(verdict=Verdict.BLOCKED, said=self._discreet(str(error)), is_channel=True)
        return self._meaning(answer)

    def _headers(self, parcel: Parcel) -> dict[str, str]:
        name = parcel.message_id or ""
        headers = {"Content-Type": parcel.content_type, "Idempotency-Key": name}
        if self._config.signing_key is not None:
            moment = str(int(time.time()))
            signed = f"{name}.{moment}.".encode() + parcel.payload
            mac = base64.b64encode(hmac.digest(_key(self._config.signing_key), signed, "sha256")).decode()
            headers |= {"webhook-id": name, "webhook-timestamp": moment, "webhook-signature": f"v1,{mac}"}
        return headers

    def _failed(self, error: HttpError) -> Answer:
        """Return what it means that nothing was answered."""
        is_ours = not error.is_transient and not error.was_sent  # the certificate, the proxy
        return Answer(
            verdict=Verdict.BLOCKED if is_ours else Verdict.DEFERRED,
            said=self._discreet(str(error)),
            may_have_arrived=error.was_sent,
            is_channel=True,
        )

    def _meaning(self, answer: http.Answer) -> Answer:
        status = answer.status
        if 200 <= status < 300:
            return SENT
        said = self._discreet(f"{status} {answer.body[:1000].decode('utf-8', 'replace')}")
        if status in _LATER or status >= 500:
            wait = answer.retry_after()
            wait = None if wait is None else min(wait, _LONGEST_WAIT)
            return Answer(verdict=Verdict.DEFERRED, said=said, retry_after=wait, is_channel=True)
        if status == 413:
            return Answer(verdict=Verdict.TOO_LARGE, said=said)
        if status in _THIS_MESSAGE:
            return Answer(verdict=Verdict.DEAD, said=said)
        if 300 <= status < 400:
            said = f"{status}: the URL redirects; configure the new address"
        return Answer(verdict=Verdict.BLOCKED, said=said, is_channel=True)

    def _discreet(self, text: str) -> str:
        """Return one line of `text` in which no secret is: neither the URL nor its parts, nor the key."""
        text = without_secret_url(text, self._config.url.reveal())
        if self._config.signing_key is not None:
            text = text.replace(self._config.signing_key.reveal(), "***")
        return one_line(text, 300)


def place(url: Secret) -> str:
    """Return the server of `url`, which is all of it that may be told: the rest is what lets one in."""
    parts = urlsplit(url.reveal())
    return one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")


def _key(secret: Secret) -> bytes:
    """Return the bytes to sign with: `whsec_` says that base64 follows, all else is taken as it is."""
    text = secret.reveal()
    if text.startswith("whsec_"):
        try:
            return base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return text.encode()
