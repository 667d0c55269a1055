"""Send digests to a URL as JSON, one request each, which the receiver can verify and tell from a repetition.

Requests carry an Idempotency-Key that is the same for all attempts and, if a signing key is configured, the signature
of Standard Webhooks over that key, the time and the body.
"""

import base64
import binascii
import hmac
import time
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import urlsplit

from msgspec.structs import replace

from cachewatch.channels.chats import WithoutSession, one_line, webhook_body, without_secret_url
from cachewatch.config.channels import WebhookConfig
from cachewatch.config.secrets import Secret
from cachewatch.errors import HttpError, RefusedAddress
from cachewatch.http import client as http
from cachewatch.report.values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
)

_LATER = frozenset({408, 425, 429})
_THIS_MESSAGE = frozenset({400, 406, 409, 411, 415, 422, 451})


class WebhookChannel(WithoutSession):
    """Sends digests to a URL as JSON."""

    def __init__(self, config: WebhookConfig) -> None:
        self.name = config.name
        self._config = config

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one request."""
        return [self._message(rendered, rendered.key)]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the request again with a new Idempotency-Key, since it would otherwise be taken for a repetition."""
        title = f"Resent: {rendered.title.removeprefix('Resent: ')}"
        return self._message(replace(rendered, title=title), f"{original.message_id} {rendered.created.isoformat()}")

    def deliver(self, message: Message) -> DeliveryResult:
        """Send one request."""
        seconds = self._config.timeout.total_seconds()
        try:
            answer = http.post(
                self._config.url.reveal(), message.payload, headers=self._headers(message), seconds=seconds
            )
        except HttpError as error:
            is_ours = not error.is_transient and not error.was_sent  # the certificate, the proxy
            outcome = DeliveryOutcome.BLOCKED if is_ours else DeliveryOutcome.DEFERRED
            said = self._without_secrets(str(error))
            return DeliveryResult(outcome, said, may_have_arrived=error.was_sent, is_channel=True)
        except RefusedAddress as error:
            return DeliveryResult(DeliveryOutcome.BLOCKED, self._without_secrets(str(error)), is_channel=True)
        return self._meaning(answer)

    def _message(self, rendered: RenderedDigest, identity: str) -> Message:
        target = place(self._config.url)
        name = sha256(f"{self.name}\0{target}\0{identity}".encode(errors="surrogatepass")).hexdigest()[:32]
        return Message(
            key=rendered.key,
            target=target,
            payload=webhook_body(self._config.preset, rendered),
            content_type="application/json",
            message_id=f"digest-{name}",
            created=rendered.created,
        )

    def _headers(self, message: Message) -> dict[str, str]:
        name = message.message_id or ""
        headers = {"Content-Type": message.content_type, "Idempotency-Key": name}
        if self._config.signing_key is not None:
            moment = str(int(time.time()))
            signed = f"{name}.{moment}.".encode() + message.payload
            mac = base64.b64encode(hmac.digest(_key(self._config.signing_key), signed, "sha256")).decode()
            headers |= {"webhook-id": name, "webhook-timestamp": moment, "webhook-signature": f"v1,{mac}"}
        return headers

    def _meaning(self, answer: http.Answer) -> DeliveryResult:
        status = answer.status
        if 200 <= status < 300:
            return SENT
        said = self._without_secrets(f"{status} {answer.body[:1000].decode('utf-8', 'replace')}")
        if status in _LATER or status >= 500:
            return DeliveryResult(DeliveryOutcome.DEFERRED, said, retry_after=answer.retry_after(), is_channel=True)
        if status == 413:
            return DeliveryResult(DeliveryOutcome.TOO_LARGE, said)
        if status in _THIS_MESSAGE:
            return DeliveryResult(DeliveryOutcome.DEAD, said)
        if 300 <= status < 400:
            said = f"{status}: the URL redirects; configure the new address"
        return DeliveryResult(DeliveryOutcome.BLOCKED, said, is_channel=True)

    def _without_secrets(self, text: str) -> str:
        """Return `text` as one line without secrets: the URL, its parts and the signing key."""
        text = without_secret_url(text, self._config.url.reveal())
        if self._config.signing_key is not None:
            text = text.replace(self._config.signing_key.reveal(), "***")
        return one_line(text, 300)


def place(url: Secret) -> str:
    """Return only scheme and host of `url`, the rest of which is secret."""
    parts = urlsplit(url.reveal())
    return one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")


def _key(secret: Secret) -> bytes:
    """Return the bytes to sign with: decoded from base64 if the secret begins with `whsec_`, else the secret itself."""
    text = secret.reveal()
    if text.startswith("whsec_"):
        try:
            return base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return text.encode()
