"""Make untrusted text harmless where it is shown: terminals, logs, tables, HTML, Markdown, chats and file names.

Control and look-alike characters are escaped, what Markdown would read as markup gets a backslash, and nobody is
notified by a mention.
"""

import re
from hashlib import sha256

# Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 16.0.0, with the unassigned ones.
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# The rest of the category Cf: marks that enclose or annotate the next characters.
_FORMATS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
# C0 and C1 controls, separators of lines and paragraphs, surrogates, and noncharacters.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_HALVES = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)
)

# Characters that change the direction of text.
_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"

# Characters that HTML and XML must not contain. Those of emoji are allowed, and so are tab and newline.
UNFIT = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\U000e0000-\U000e007f" + _TURNING + _HALVES
# Characters that are not visible. Both are the contents of character classes of regular expressions.
UNSEEN = _CONTROLS + IGNORABLE + _FORMATS + _HALVES
_UNSEEN = re.compile(f"[{UNSEEN}]")
_NOT_ASCII = re.compile(r"[^ -~]")
_SHELL_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=")


def safe(text: str) -> str:
    """Return `text` with every invisible character replaced by an escape."""
    return _UNSEEN.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def safe_name(text: str) -> str:
    """Return an untrusted name with everything but printable ASCII escaped, so that no two names look alike."""
    return _NOT_ASCII.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def is_shell_word(name: str) -> bool:
    """Tell whether a shell reads `name` as one plain word (at most 100 characters, and no option)."""
    return 0 < len(name) <= 100 and not name.startswith("-") and not set(name) - _SHELL_WORD


def shortened(text: str, most: int) -> str:
    """Return `text`, cut to `most` characters that end with "..."; cut between words unless half would be lost."""
    if len(text) <= most:
        return text
    words = text[: most - 3].rpartition(" ")[0].rstrip()
    return f"{words} ..." if 2 * len(words) > most else f"{text[: most - 3].rstrip()}..."


def safe_lines(text: str) -> str:
    """Return a text of several lines, in which every invisible character is replaced by an escape."""
    return "\n".join(map(safe, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def web_address(address: str | None) -> str | None:
    """Return `address`, made safe, if mails may link to it (http, https or mailto), else None."""
    allowed = ("https://", "http://", "mailto:")
    return safe(address) if address and address.startswith(allowed) else None


_UNFIT = re.compile(f"[{UNFIT}]")
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9._+~-]+")


def one_line(text: str, most: int = 200) -> str:
    """Return `text` as one line of at most `most` characters, with invisible characters escaped."""
    return shortened(safe(" ".join(text.split())), most)


def one_word(text: str) -> str:
    """Return an ASCII word made from `text`, for identifiers; different texts give different words."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60]
    return word if word == text else f"{word}-{hash_mark(text)}".lstrip("-")


def file_name(text: str) -> str:
    """Return a file name made from `text`; different texts give different names."""
    name = _UNFIT_FOR_NAME.sub("-", text).lstrip(".-")[:100]
    return name if name and name == text else f"{name or 'x'}-{hash_mark(text)}"


def plain_lines(text: str) -> str:
    """Return a text of several lines with all invisible characters escaped, and tabs as spaces."""
    return safe_lines(text.replace("\r\n", "\n").expandtabs())


def markup(text: str) -> str:
    """Return HTML or XML with U+FFFD for each character that is forbidden there or reverses text."""
    return _UNFIT.sub("\ufffd", text.replace("\r\n", "\n"))


def hash_mark(text: str) -> str:
    """Return eight hexadecimal digits of a hash of `text`."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


# Also with characters between the sign and the word: Zulip has `@**all**`, and soft hyphens are invisible.
_MENTION = re.compile(
    rf"(?<![\w.])@|@(?=[^\w\s]*(?:all|channel|everyone|here|room|stream|topic)\b)|<(?=[!@#])|@(?=[{UNSEEN}])"
)
_LINKED = re.compile(r"(?<=\])(?=[(\[])|(?<=\w:)(?=//)|(?<=www)(?=\.)")
# What a chat reads as markup within a line and at its start; other backslashes would be visible where messages
# are shown as they were sent, as in notifications. An underscore within a word (x86_64) is none in any chat.
_OF_ALL = r"[\\`*\[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)|(?<=~)~"
_MARKUP = {  # by preset
    # Spoilers; emoji, times and commands.
    "discord": (rf"{_OF_ALL}|\|(?=\|)|(?<=\|)\||<(?=a?:|t:|/|id:)", r"#(?=#{0,2} )|>|-(?=#? )|\d{1,9}\.(?= )"),
    # Channels; formulas.
    "mattermost": (rf"{_OF_ALL}|(?<![A-Za-z0-9])~(?=\w)|\$", r"#|>|[-+](?=[ -]|$)|\d{1,9}[.)](?= |$)"),
}
_COMMAND = re.compile(r"Command: (?:cachewatch|git|spack) ")


def chat_markdown(text: str, chat: str, *, is_start: bool = True) -> str:
    """Return `text`, escaped for `chat`: discord or mattermost. `is_start` tells whether it begins a line."""
    within, at_start = _MARKUP[chat]
    first = ""
    if is_start and (found := re.match(at_start, text)):
        first, text = f"{text[: found.end() - 1]}\\{found[0][-1]}", text[found.end() :]
    return first + re.sub(within, r"\\\g<0>", text)


def without_mentions(text: str) -> str:
    """Return `text` with broken-up mentions, so that no chat notifies anybody; `gcc@12` is not a mention."""
    return _MENTION.sub("\\g<0>\u200b", text)


def without_links(line: str) -> str:
    """Return `line` changed so that no chat makes links in it; a line with a command, to be copied, is not changed."""
    return line if _COMMAND.match(line) else _LINKED.sub("\u200b", line)


# What means something in the middle of a line; our templates never begin one with data. A single underscore within
# a word (x86_64) means nothing, and people read these files as they are, too.
_MARKDOWN = re.compile(r"([\\`*\[\]<|~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|\.(?<=www\.))")
# What GitHub and GitLab make a mention of a person or a link to an issue, which they do after they read the Markdown: on
# GitHub neither a backslash nor an entity helps. Both leave out code spans.
_REFERENCE = re.compile(
    r"((?:(?<![A-Za-z0-9])@[A-Za-z0-9][\w/-]*(?:\.\w+)*|[#!][0-9]+|(?<![A-Za-z0-9])G[HL]-[0-9]+)+)", re.IGNORECASE
)


def markdown(text: str) -> str:
    """Return `text` with everything escaped that has a meaning in Markdown, on GitHub or on GitLab."""
    parts = _REFERENCE.split(safe(text))
    return "".join(code(part) if number % 2 else _MARKDOWN.sub(r"\\\1", part) for number, part in enumerate(parts))


def code(text: str) -> str:
    """Return `text` as a code span of Markdown that no backtick in it can end; "" stays ""."""
    text = safe(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""
