"""Make strangers' text harmless in headers, bodies, markup, names of files, and chats."""

import re
from hashlib import sha256
from urllib.parse import urlsplit

from cachewatch.safetext import safe

# What XML 1.0 forbids, C1 controls, bidirectional controls, and halves of characters. Tab and newline stay.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
    "|[\U0001fffe\U0001ffff\U0002fffe\U0002ffff\U000e0000-\U000e007f]"
)
_MENTION = re.compile(r"(?<![\w.])@(?=\w)|@(?=(?:all|channel|everyone|here|room)\b)")
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9._+~-]+")


def one_line(text: str, most: int = 200) -> str:
    """Return `text` as one line of at most `most` characters, without anything that cannot be seen."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def one_word(text: str, most: int = 60) -> str:
    """Return an ASCII word for `text` that can stand in an identifier; different texts give different words."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:most]
    return word if word == text else f"{word}-{_mark(text)}".lstrip("-")


def file_name(text: str, most: int = 100) -> str:
    """Return `text` as one part of a path; different texts give different parts."""
    name = _UNFIT_FOR_NAME.sub("-", text).lstrip(".-")[:most]
    return name if name and name == text else f"{name or 'x'}-{_mark(text)}"


def plain_lines(text: str) -> str:
    """Return the lines of a plain text, with everything that is not plainly visible written as an escape."""
    lines = text.replace("\r\n", "\n").expandtabs().split("\n")
    return "\n".join(map(safe, lines))


def markup(text: str) -> str:
    """Return HTML or XML in which no character is forbidden or turns the text around."""
    return _UNFIT.sub("\ufffd", text.replace("\r\n", "\n"))


def without_secret_url(text: str, url: str) -> str:
    """Return `text` without the parts of `url` behind its server: who knows them may use it."""
    parts = urlsplit(url)
    for secret in (parts.path, parts.query, *(part for part in parts.path.split("/") if len(part) >= 8)):
        text = text.replace(secret, "***") if len(secret) > 1 else text
    return text


def without_mentions(text: str) -> str:
    """Return `text` in which no chat sees a call to anybody; `gcc@12` is none."""
    return _MENTION.sub("@\u200b", text)


def shortened(text: str, most: int, link: str | None = None) -> str:
    """Return as many whole lines of `text` as `most` characters hold, and where the rest is if there is one."""
    if len(text) <= most:
        return text
    rest = "... shortened" + (f": {link}" if link and len(link) < most // 2 else "")
    kept = text[: most - len(rest) - 1]
    kept = kept[: kept.rfind("\n")] if "\n" in kept else kept
    return f"{kept}\n{rest}"


def _mark(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
