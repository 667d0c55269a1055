"""What operators are asked about held digests: each question once, whoever holds, and however often a newer digest comes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from cachewatch.config.model import Config
from cachewatch.service.alerts import Alert, AlertKey, AlertKind
from cachewatch.service.tracks import URGENT
from cachewatch.store.held import HeldDigest, Loss

# Digests that a notice has commands for, and that fit into one of them.
_NAMED, _NAMED_AT_ONCE = 30, 6

_ADVICE = "A newer digest takes its place, and goes out if it is as usual again."


def questions(config: Config, digests: Sequence[HeldDigest]) -> Iterator[Alert]:
    """Yield an alert for each digest that is too large, and for each loss, which may hold many."""
    holders: defaultdict[tuple[str, str], list[tuple[HeldDigest, Loss]]] = defaultdict(list)
    for digest in digests:
        if not digest.losses:
            yield _too_large(config, digest)
        for loss in digest.losses:
            holders[loss.source, loss.tag].append((digest, loss))
    for found in holders.values():
        yield _lost(config, [digest for digest, _ in found], [loss for _, loss in found])


def place(source: str, tag: str) -> str:
    """Say where a loss is."""
    return f"{tag} of {source}" if tag else source


def _too_large(config: Config, digest: HeldDigest) -> Alert:
    return Alert(
        key=AlertKey(AlertKind.DIGEST_HELD, digest.subscription, digest.stream),
        title=f"{'an urgent' if digest.stream == URGENT else 'a'} digest for {digest.subscription} is held",
        lines=(f"It has {digest.reason}.", f"Look at it, and release it or drop it. {_ADVICE}"),
        commands=tuple(_commands(config, [digest])),
    )


def _lost(config: Config, digests: list[HeldDigest], losses: list[Loss]) -> Alert:
    said = ", ".join(dict.fromkeys(loss.said for loss in losses))
    names = ", ".join(_name(config, digest) for digest in digests[:_NAMED])
    others = f" and {len(digests) - _NAMED} more, which `cachewatch status` lists" if len(digests) > _NAMED else ""
    advice = "See whether upstream published all that it has, and release what is held or drop it."
    return Alert(
        key=AlertKey(AlertKind.SUSPICIOUS_LOSS, losses[0].source, losses[0].tag),
        title=f"a suspicious loss in {place(losses[0].source, losses[0].tag)}",
        lines=(f"{said}; held for {names}{others}.", f"{advice} {_ADVICE}"),
        commands=tuple(_commands(config, digests[:_NAMED])),
    )


def _commands(config: Config, digests: list[HeldDigest]) -> Iterator[str]:
    first = digests[0]
    if first.subscription in config.subscriptions:
        yield f"cachewatch preview {first.subscription}{' --urgent' if first.stream == URGENT else ''}"
    for start in range(0, len(digests), _NAMED_AT_ONCE):
        names = " ".join(_name(config, digest) for digest in digests[start : start + _NAMED_AT_ONCE])
        yield f"cachewatch deliveries release {names}"
        yield f"cachewatch deliveries drop {names} --reason '...'"


def _name(config: Config, digest: HeldDigest) -> str:
    """Name a held digest so that commands are right for a newer one too."""
    known = config.subscriptions.get(digest.subscription)
    has_one_stream = known is not None and known.urgent is None
    return digest.subscription if has_one_stream else f"{digest.subscription}/{digest.stream}"
