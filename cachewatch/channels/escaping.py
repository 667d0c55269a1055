"""Make strangers' text harmless in headers, bodies, markup, names of files, and chats."""

import re
from enum import Enum
from hashlib import sha256
from urllib.parse import urlsplit

from cachewatch.core.untrusted_text import UNFIT, UNSEEN, safe


class Markdown(Enum):
    """The dialects of chats."""

    DISCORD = "discord"
    MATTERMOST = "mattermost"


_UNFIT = re.compile(f"[{UNFIT}]")
# What nothing forbids; to drop it first is quicker than to search a long page.
_PLAIN = bytes(n for n in range(0x80) if not _UNFIT.match(chr(n)))
# Whatever stands between the sign and the word: `@**all**` calls in Zulip, and nobody sees a soft hyphen.
_MENTION = re.compile(
    rf"(?<![\w.])@|@(?=[^\w\s]*(?:all|channel|everyone|here|room|stream|topic)\b)|<(?=[!@#])|@(?=[{UNSEEN}])"
)
_LINK = re.compile(r"(?<=\])(?=[(\[])|(?<=\w:)(?=//)|(?<=www)(?=\.)")
# What a chat takes for markup within a line and at its start; a backslash more than that would be seen where messages
# are shown as they were sent, as in notifications. An underscore within a word (x86_64) is none in any chat.
_OF_ALL = r"[\\`*\[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)|(?<=~)~"
_MARKUP = {
    # Spoilers; emoji, times and commands.
    Markdown.DISCORD: (rf"{_OF_ALL}|\|(?=\|)|(?<=\|)\||<(?=a?:|t:|/|id:)", r"#(?=#{0,2} )|>|-(?=#? )|\d{1,9}\.(?= )"),
    # Channels; formulas.
    Markdown.MATTERMOST: (rf"{_OF_ALL}|(?<![A-Za-z0-9])~(?=\w)|\$", r"#|>|[-+](?=[ -]|$)|\d{1,9}[.)](?= |$)"),
}
_COMMAND = re.compile(r"Command: (?:cachewatch|git|spack) ")
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9._+~-]+")


def one_line(text: str, most: int = 200) -> str:
    """Return `text` as one line of at most `most` characters, without anything that cannot be seen."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def one_word(text: str) -> str:
    """Return an ASCII word for `text` that can stand in an identifier; different texts give different words."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60]
    return word if word == text else f"{word}-{_mark(text)}".lstrip("-")


def file_name(text: str) -> str:
    """Return `text` as one part of a path; different texts give different parts."""
    name = _UNFIT_FOR_NAME.sub("-", text).lstrip(".-")[:100]
    return name if name and name == text else f"{name or 'x'}-{_mark(text)}"


def plain_lines(text: str) -> str:
    """Return the lines of a plain text, with everything that is not plainly visible written as an escape."""
    lines = text.replace("\r\n", "\n").expandtabs().split("\n")
    return "\n".join(map(safe, lines))


def markup(text: str) -> str:
    """Return HTML or XML in which no character is forbidden or turns the text around."""
    text = text.replace("\r\n", "\n")
    rest = text.encode(errors="surrogatepass").translate(None, _PLAIN).decode(errors="surrogatepass")
    return _UNFIT.sub("\ufffd", text) if _UNFIT.search(rest) else text


def markdown(text: str, chat: Markdown, *, is_start: bool = True) -> str:
    """Return one line as it is, in the Markdown of a chat; `is_start` tells whether nothing stands before it."""
    within, at_start = _MARKUP[chat]
    first = ""
    if is_start and (found := re.match(at_start, text)):
        first, text = f"{text[: found.end() - 1]}\\{found[0][-1]}", text[found.end() :]
    return first + re.sub(within, r"\\\g<0>", text)


def without_secret_url(text: str, url: str) -> str:
    """Return `text` without the parts of `url` behind its server: who knows them may use it."""
    parts = urlsplit(url)
    for secret in (parts.path, parts.query, *(part for part in parts.path.split("/") if len(part) >= 8)):
        text = text.replace(secret, "***") if len(secret) > 1 else text
    return text


def without_mentions(text: str) -> str:
    """Return `text` in which no chat sees a call to anybody; `gcc@12` is none."""
    return _MENTION.sub("\\g<0>\u200b", text)


def without_links(line: str) -> str:
    """Return a line in which no chat sees a link; a command can be copied as it is."""
    return line if _COMMAND.match(line) else _LINK.sub("\u200b", line)


def _mark(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
