"""`subscriptions:` and `silences:`: who hears of what, when, through which channels, and what nobody hears."""

from collections.abc import Iterable
from typing import Any

from cachewatch.config.addresses import MAIL
from cachewatch.config.channels import MAIL_TYPES
from cachewatch.config.forms import DAY, DURATION_OR_NEVER, PATH, TEXT, Form, choice, each, list_of, number
from cachewatch.config.model import Limit, Match, Silence, Subscription, Urgent
from cachewatch.config.nodes import Context, Node, unknown
from cachewatch.config.patterns import GLOBS, RANGES
from cachewatch.config.tables import Key, Table, named
from cachewatch.core.kinds import DEFAULT, GROUPS, chosen_kinds, kinds_named
from cachewatch.core.model import Kind
from cachewatch.core.patterns import Globs
from cachewatch.core.schedule import parse_when
from cachewatch.errors import ConfigError
from cachewatch.runtime import resources


def _changes(node: Node, context: Context) -> frozenset[Kind]:
    def word(node: Node, _: Context) -> str:
        text = node.text()
        kinds_named(text.removeprefix("+").removeprefix("-"))
        return text

    chosen = chosen_kinds(each(word, node.items(), context))
    if not chosen:
        raise ConfigError("selects no kind of change; see `cachewatch kinds`")
    return chosen


def _when(node: Node, context: Context) -> str:
    """Return a schedule as text, also where it was written as a section: `when: {cron: 30 7 * * 1}`."""
    if isinstance(node.value, dict) and node.value.keys() == {"cron"}:
        text = f"cron: {node.value['cron'].text()}"
    else:
        text = node.text()
    parse_when(text, context.zone)
    return text


def _channel(node: Node, context: Context) -> str:
    name = node.text()
    if name not in context.channels:
        raise ConfigError(f"there is no channel {name!r}; {unknown(name, context.channels)}")
    return name


def _source(node: Node, context: Context) -> str:
    (pattern,) = GLOBS.read(node, context)
    if not any(Globs([pattern.removeprefix("!")])(name) for name in context.sources):
        raise ConfigError(f"there is no source {pattern!r}; {unknown(pattern, context.sources)}")
    return str(pattern)


def _template(node: Node, context: Context) -> str:
    name = node.text()
    own = context.templates / name if context.templates else None
    if "/" in name or not name.endswith(".html.j2"):
        raise ConfigError(f"{name!r} is not a digest template; write a name that ends with .html.j2")
    if not ((own and own.is_file()) or resources.template(name) is not None):
        where = f"in {context.templates} or " if context.templates else ""
        raise ConfigError(f"there is no template {name!r} {where}among cachewatch's own")
    return name


def _renamed_from(node: Node, context: Context) -> str:
    name = node.text()
    if name in context.subscriptions:
        raise ConfigError(f"{name} is configured; write the name of a subscription that no longer exists")
    return name


def check_recipients(to: Iterable[str], channels: Iterable[str], context: Context) -> None:
    """Raise ConfigError where mail has nobody to go to, or addresses have no mail."""
    mails = [name for name in channels if context.channels.get(name) in MAIL_TYPES]
    if mails and not to:
        raise ConfigError(f"lacks `to:`: the channel {mails[0]} sends mail, and has to know to whom")
    if to and not mails:
        raise ConfigError("has `to:`, but none of its channels sends mail; add one to `channels:`")


CHANNEL_NAMES = list_of(Form(_channel, {"type": "string"}), is_set=True)
ADDRESSES = list_of(MAIL, is_set=True)
_CHANGES = Form(
    _changes,
    list_of(Form(_changes, {"type": "string", "pattern": f"^[+-]?({'|'.join([*GROUPS, *Kind])})$"})).schema,
)
_WHEN = Form(
    _when,
    {
        "oneOf": [
            {"type": "string", "examples": ["each revision", "daily 07:30", "weekly mon 07:30", "monthly 1 07:30"]},
            {
                "type": "object",
                "properties": {"cron": {"type": "string"}},
                "required": ["cron"],
                "additionalProperties": False,
            },
        ]
    },
)

MATCH = Table(
    "What it is about: all keys must agree, one pattern of each is enough, and ! excludes",
    {
        "sources": Key(list_of(Form(_source, {"type": "string"})), "names of sources"),
        "tags": Key(GLOBS, "tags, such as develop or v*"),
        "packages": Key(GLOBS, "names of packages, such as py-* or !py-test*"),
        "stacks": Key(GLOBS, "stacks, such as ml-linux-*"),
        "targets": Key(GLOBS, "targets, such as x86_64_v3"),
        "oses": Key(GLOBS, "operating systems, such as ubuntu*"),
        "compilers": Key(GLOBS, "compilers, such as gcc (every version of it) or gcc@13*"),
        "versions": Key(RANGES, "versions as Spack writes them: @1.2:, @:2, @1.2.3, @=1.2"),
    },
    Match,
)

WATCH = Table(
    MATCH.about,
    {
        **MATCH.keys,
        "environment": Key(PATH, "a spack.lock, a spack.yaml or their folder: only the packages that it needs"),
        "pinned": Key(TEXT, "a snapshot that you stay with, such as develop-2025-06-01: what the newest would change"),
    },
    Match,
)

LIMIT = Table(
    "How much a digest may hold",
    {
        "rows": Key(number(1, 100_000), "lines of each section (25)"),
        "hold_above": Key(number(1, 10**9), "changed specs above which operators are asked first (5000)"),
        "hold_for": Key(
            DURATION_OR_NEVER, "how long they are asked before it goes out as not confirmed (24h), or never"
        ),
    },
    Limit,
)

URGENT = Table(
    "Some kinds of change at once, through other channels",
    {
        "changes": Key(_CHANGES, "what is urgent", is_needed=True),
        "channels": Key(CHANNEL_NAMES, "where it goes", is_needed=True),
        "to": Key(ADDRESSES, "who gets it by mail; those of the subscription if left out"),
    },
    Urgent,
)

SUBSCRIPTION = Table(
    "Who wants to hear of what, and when",
    {
        "description": Key(TEXT, "what it is for, in a line that readers see"),
        "to": Key(ADDRESSES, "addresses that get it by mail"),
        "match": Key(WATCH.form(), WATCH.about),
        "changes": Key(_CHANGES, "kinds of change: [default, -compiler, +rebuilt]; see `cachewatch kinds`"),
        "when": Key(_WHEN, "each revision, daily 07:30, weekly mon 07:30, monthly 1 07:30, or cron"),
        "urgent": Key(URGENT.form(), URGENT.about),
        "channels": Key(CHANNEL_NAMES, "where it goes", is_needed=True),
        "renamed_from": Key(
            Form(_renamed_from, {"type": "string"}),
            "its old name, under which it was sent until now: it goes on from there",
        ),
        "group_by": Key(TEXT, "without effect", is_obsolete=True),
        "if_empty": Key(choice("skip", "send", "monthly"), "what happens when nothing changed (skip)"),
        "limit": Key(LIMIT.form(), LIMIT.about),
        "template": Key(
            Form(_template, {"type": "string"}), "a template of your own in `templates_dir:`, such as ours.html.j2"
        ),
    },
    Subscription,
)

SILENCE = Table(
    "Changes that nobody should hear of for a time",
    {
        "match": Key(MATCH.form(), MATCH.about, is_needed=True),
        "changes": Key(_CHANGES, "kinds of change; all if left out"),
        "until": Key(DAY, "the first day on which they are told again", is_needed=True),
        "reason": Key(TEXT, "why; readers see it", is_needed=True),
    },
    Silence,
)


def _read_subscription(name: str, node: Node, context: Context) -> Subscription:
    values: dict[str, Any] = {"changes": DEFAULT}
    found = Table(SUBSCRIPTION.about, SUBSCRIPTION.keys, dict).read(node, context)
    subscription = Subscription(name=name, **(values | found))
    check_recipients(subscription.to, subscription.channels, context)
    urgent = subscription.urgent
    if urgent is not None and any(context.channels[channel] in MAIL_TYPES for channel in urgent.channels):
        check_recipients(urgent.to or subscription.to, urgent.channels, context)
    return subscription


def _read_silence(name: str, node: Node, context: Context) -> Silence:
    silence: Silence = SILENCE.read(node, context, name=name)
    if silence.match == Match():
        raise ConfigError("would silence everything; set in `match:` what to silence")
    return silence


SUBSCRIPTIONS = named(_read_subscription, SUBSCRIPTION.schema(), "Who wants to hear of what, and when, by names")
SILENCES = named(_read_silence, SILENCE.schema(), "Changes that nobody should hear of for a time, by names")
