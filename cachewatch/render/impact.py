"""What would be rebuilt if a package changed, for people and for programs."""

from collections.abc import Iterator

from cachewatch.core.impact import Impact
from cachewatch.core.untrusted_text import safe
from cachewatch.render.ascii_json import encode
from cachewatch.render.statement_phrases import number
from cachewatch.render.templates import render

SCHEMA = "cachewatch.impact/1"

_NO_STACK = "(no stack)"
_MOST_PACKAGES = 40


def impact_json(asked: str, found: Impact) -> bytes:
    """Return an impact as one object of JSON."""
    values = {
        "schema": SCHEMA,
        "asked": asked,
        "hashes": found.asked,
        "specs": found.specs,
        "of_specs": found.of_specs,
        "stacks": [{"stack": s or None, "specs": n, "packages": p} for s, (n, p) in found.stacks.items()],
        "packages": [{"name": p, "specs": n, "direct": p in found.direct} for p, n in found.packages.items()],
    }
    return encode(values) + b"\n"


def impact_markdown(asked: str, where: str, found: Impact) -> bytes:
    """Return an impact as Markdown."""
    packages = [{"name": p, "specs": f"{n:,}", "direct": p in found.direct} for p, n in found.packages.items()]
    return render(
        "impact.md.j2",
        asked=asked,
        where=where,
        summary=_summary(found),
        stacks=[{"stack": s, "specs": f"{n:,}", "packages": f"{p:,}"} for s, (n, p) in found.stacks.items()],
        packages=packages[:_MOST_PACKAGES],
        more=number(len(packages) - _MOST_PACKAGES, "package") if len(packages) > _MOST_PACKAGES else "",
    ).encode()


def _summary(found: Impact) -> str:
    packages = number(len(found.packages), "package")
    return f"{number(found.specs, 'dependent spec')} of {packages} (of {found.of_specs:,} specs in the tag)"


def impact_lines(asked: str, where: str, found: Impact) -> Iterator[str]:
    """Yield an impact as lines for people."""
    yield f"{safe(asked)} in {safe(where)}: {_summary(found)}"
    if not found.specs:
        return
    yield ""
    width = max(len("stack"), *(len(safe(stack or _NO_STACK)) for stack in found.stacks))
    yield f"{'stack'.ljust(width)}   specs  packages"
    for stack, (specs, count) in found.stacks.items():
        yield f"{safe(stack or _NO_STACK).ljust(width)}  {specs:>6,}  {count:>8,}"
    yield ""
    yield "packages (* depends on it directly)"
    for package, specs in list(found.packages.items())[:_MOST_PACKAGES]:
        mark = " *" if package in found.direct else ""
        yield f"  {specs:>6,}  {safe(package)}{mark}"
    if (rest := len(found.packages) - _MOST_PACKAGES) > 0:
        yield f"  ... and {rest:,} more (--format json has all)"
