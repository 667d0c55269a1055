"""The instruments find what they are for."""

from pathlib import Path

from browser.chromium import View
from browser.conftest import Audit, Show

_PAGE = '<!doctype html><html lang="en"><title>Page</title><main><h1>Page</h1>{}</main></html>'
_PHONE = View(360, "light")


def _write(folder: Path, body: str) -> Path:
    file = folder / "page.html"
    file.write_text(_PAGE.format(body))
    return file


def test_a_good_page_passes(show: Show, view: View, audit: Audit, tmp_path: Path) -> None:
    """Nothing is found on a page that has nothing wrong."""
    shown = show(_write(tmp_path, "<p>Good."), view)

    assert (shown.overflow(), shown.complaints, audit(shown)) == ([], [], [])


def test_what_sticks_out_is_named(show: Show, tmp_path: Path) -> None:
    """A table that is wider than a phone is found, and one that scrolls by itself is none."""
    wide = show(_write(tmp_path, '<div id="wide" style="width: 700px">wide</div>'), _PHONE)
    found = wide.overflow()
    held = show(_write(tmp_path, '<div style="overflow: auto"><div style="width: 700px">wide</div></div>'), _PHONE)

    assert any('id="wide"' in element for element in found)
    assert held.overflow() == []


def test_complaints_are_heard(show: Show, tmp_path: Path) -> None:
    """Errors of scripts, missing files and requests to the world are all noted."""
    body = (
        '<script>alert("hello"); null.x</script><img alt="" src="gone.png"><img alt="" src="https://example.org/x.png">'
    )
    complaints = " ".join(show(_write(tmp_path, body), _PHONE).complaints)

    assert "null" in complaints
    assert "asks: hello" in complaints
    assert "gone.png" in complaints
    assert "asks for https://example.org/x.png" in complaints


def test_the_audit_finds_diagnostics(show: Show, audit: Audit, tmp_path: Path) -> None:
    """Grey on grey, and a picture without words."""
    body = '<p style="color: #aaa; background: #bbb">faint</p><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">'
    found = " ".join(audit(show(_write(tmp_path, body), _PHONE)))

    assert "color-contrast" in found
    assert "image-alt" in found
