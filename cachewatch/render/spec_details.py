"""What there is of a package or a spec: the facts of single specs, as text, and whole packages as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from cachewatch.core.model import Document, Side, Signature, known_hash
from cachewatch.core.untrusted_text import safe, safe_name
from cachewatch.render.ascii_json import ascii_only
from cachewatch.render.colour import Palette


class ShownPackage(Struct, frozen=True):
    """The document of a package, where it is from, and the revision that wrote it last, if that is known."""

    document: Document
    side: Side
    unchanged_since: Side | None = None


class ShownSpec(Struct, frozen=True):
    """One spec, and where it is from."""

    package: str
    hash: str
    signature: Signature
    side: Side


def render_spec(spec: ShownSpec, palette: Palette) -> Iterator[str]:
    """Yield all that is known of a spec, a fact a line."""
    signature = spec.signature
    version = ",".join(map(safe_name, signature.versions))
    yield palette.paint(
        f"{safe_name(spec.package)}@{version}{f' /{safe_name(spec.hash)}' if known_hash(spec.hash) else ''}", "bold"
    )
    facts = {
        "in": " ".join(filter(None, (spec.side.tag, spec.side.revision and spec.side.revision[:10], _day(spec.side)))),
        "stacks": ", ".join(signature.stacks) or "none: no stack builds it any more",
        "target": f"{signature.target} ({signature.os}, {signature.platform})",
        "compiler": signature.compiler,
        "variants": " ".join(signature.variants),
    }
    yield from (f"  {name:<8}  {safe(value)}" for name, value in facts.items() if value)


def packages_json(packages: Sequence[ShownPackage]) -> bytes:
    """Return every spec of these packages, by hash."""
    return _json({"packages": [_package(each) for each in packages]})


def specs_json(specs: Iterable[ShownSpec]) -> bytes:
    """Return these specs."""
    return _json({"specs": [{"package": s.package, **_side(s.side), **_spec(s.hash, s.signature)} for s in specs]})


def _package(shown: ShownPackage) -> dict[str, Any]:
    since = shown.unchanged_since
    return {
        "package": shown.document.package,
        **_side(shown.side),
        "unchanged_since": since.revision if since else None,
        "specs": [_spec(*each) for each in shown.document.specs.in_order()],
    }


def _side(side: Side) -> dict[str, str | None]:
    return {"tag": side.tag, "revision": side.revision, "time": side.time}


def _spec(spec_hash: str, signature: Signature) -> dict[str, Any]:
    return {"hash": known_hash(spec_hash), **msgspec.to_builtins(signature)}


def _json(value: object) -> bytes:
    return ascii_only(msgspec.json.format(msgspec.json.encode(value))) + b"\n"


def _day(side: Side) -> str:
    return side.time[:10] if side.time else ""
