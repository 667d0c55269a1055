"""Pages as a person meets them: opened in Chromium, at a width and in a colour scheme."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request
from tools import CACHE

CHROMIUM = Path(os.environ.get("CACHEWATCH_CHROMIUM", "/usr/bin/chromium"))
# --host-resolver-rules: whatever a page may ask for, nothing leaves this machine.
_LEFT_OUT = ("gpu", "quic", "background-networking", "component-update", "sync")
ARGUMENTS = ["--no-sandbox", "--no-first-run", *(f"--disable-{each}" for each in _LEFT_OUT)]
ARGUMENTS.append("--host-resolver-rules=MAP * ~NOTFOUND")
# Where `make axe` puts it.
AXE = Path(os.environ.get("CACHEWATCH_AXE") or CACHE / "node_modules" / "axe-core" / "axe.min.js")

Scheme = Literal["light", "dark"]

# Names what sticks out, so that a failure can be repaired without a browser at hand.
_OVERFLOWING = """() => {
  const edge = document.documentElement.clientWidth;
  const scrolls = document.documentElement.scrollWidth > edge;
  const isHeld = e => { for (let p = e.parentElement; p; p = p.parentElement)
    if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
  return scrolls ? [document.documentElement.scrollWidth + " > " + edge, ...[...document.body.querySelectorAll("*")]
    .filter(e => e.getBoundingClientRect().right > edge + 0.5 && !isHeld(e))
    .slice(0, 5).map(e => e.outerHTML.slice(0, 200))] : [];
}"""


@dataclass(frozen=True)
class View:
    """How a page is looked at."""

    width: int
    scheme: Scheme
    height: int = 900
    javascript: bool = True

    def __str__(self) -> str:
        return f"{self.width}-{self.scheme}"


VIEWS = [View(360, "light"), View(360, "dark"), View(800, "light"), View(1440, "dark")]


@dataclass
class Shown:
    """A page that is open, and all that it complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def overflow(self) -> list[str]:
        """Name what makes the page scroll sideways; nothing should."""
        found: list[str] = self.page.evaluate(_OVERFLOWING)
        return found

    def picture(self, file: Path, *, whole: bool = True) -> Path:
        """Keep what the page looks like."""
        self.page.screenshot(path=file, full_page=whole)
        return file


def show(browser: Browser, address: str, view: View) -> Shown:
    """Open `address` (a file:// URL); end it with `shown.page.context.close()`."""
    size: Any = {"width": view.width, "height": view.height}
    context = browser.new_context(viewport=size, color_scheme=view.scheme, java_script_enabled=view.javascript)
    page = context.new_page()
    shown = Shown(page)

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            shown.complaints.append(f"{message.type}: {message.text}")

    def see(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "about:")):
            shown.complaints.append(f"asks for {request.url}")

    def dismiss(dialog: Dialog) -> None:
        shown.complaints.append(f"asks: {dialog.message}")
        dialog.dismiss()

    page.on("console", hear)
    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: shown.complaints.append(f"error: {error}"))
    page.on("request", see)
    page.on("requestfailed", lambda request: shown.complaints.append(f"not there: {request.url}"))
    page.goto(address, wait_until="load")
    return shown


def violations(shown: Shown, axe: str) -> list[str]:
    """Return what axe-core finds wrong with the page, rule by rule with the places."""
    # Without preload: it would ask for style sheets, which a page on disk may not.
    shown.page.evaluate(f"() => {{ {axe}\n }}")
    script = "() => window.axe.run(document, {resultTypes: ['violations'], preload: false})"
    found: dict[str, Any] = shown.page.evaluate(script)
    violations = [(rule, [node["html"][:160] for node in rule["nodes"][:4]]) for rule in found["violations"]]
    return [f"{rule['id']}: {rule['help']}: {nodes}" for rule, nodes in violations]
