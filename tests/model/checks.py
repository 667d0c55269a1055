"""The one invariant: what every target got, added up, is what happened to what it asked for, each part once."""

import email
import email.policy
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from cachewatch.core.names_and_layouts import is_snapshot
from model.sums import Digest, Line, News, added_up, read_digest
from model.world import Stream, Told, World

_OUT = ("ready", "released")


def problems(world: World) -> Iterator[str]:
    """Yield everything that must not be, after recovery."""
    world.collect()
    for stream in world.streams:
        for problem in (*_sum_problems(world, stream), *_target_problems(world, stream)):
            yield f"{stream.subscription}/{stream.name}: {problem}"
    yield from world.silenced
    yield from _mail_problems(world)
    world.figures.digests += len(world.told)
    if held := [key for key, state in world.states.items() if state == "held"]:
        yield f"{held} are still held"


def _of(world: World, stream: Stream, *states: str) -> list[Told]:
    one = (stream.subscription, stream.name)
    found = [told for told in world.told.values() if (told.subscription, told.stream) == one]
    return [told for told in found if world.states[told.key] in states]


def _sum_problems(world: World, stream: Stream) -> Iterator[str]:
    """Add up what was told, and what operators dropped."""
    if not stream.is_everything:
        yield from _gone_problems(world, stream)
        return
    line = Line(world.first, world.line[-1], world.published, world.last_read, world.is_forgotten)
    yield from added_up(list(_read(world, stream)), stream.selected, line)


def _read(world: World, stream: Stream) -> Iterator[Digest]:
    """Read what was told or dropped.

    If operators had their time for some of a digest, what they still have time for is a digest of its own, made next.
    """
    made = _of(world, stream, *_OUT, "dropped", "superseded", "held")
    digests = [read_digest(each.json) for each in made]
    for told, digest, following in zip_longest(made, digests, digests[1:]):
        if world.states[told.key] in (*_OUT, "dropped"):
            is_split = digest.is_unconfirmed and following is not None and following.revision == digest.revision
            yield digest._replace(held=following.tags) if is_split else digest


def _gone_problems(world: World, stream: Stream) -> Iterator[str]:
    """What regular digests call gone was reported at once, too, unless a digest was held; of snapshots, nothing is."""
    regular = next(each for each in world.streams if each.subscription == stream.subscription)
    told, came = Counter[tuple[str, str]](), set[tuple[str, str]]()
    for each in _of(world, stream, *_OUT, "dropped", "superseded"):
        digest = read_digest(each.json)
        told += digest.gone()
        if world.states[each.key] == "superseded":
            came |= _named(world, digest.revision).difference(*(_named(world, base) for base in digest.bases))
    for each in _of(world, regular, *_OUT):
        digest = read_digest(each.json)
        bases = [stream.selected(world.published[base]) for base in digest.bases]
        lacked = {lack for news in digest.news for lack in _lacked_by_both(world, news)}
        for tag, package in (digest.gone() - told).keys() - came - lacked:
            # Of a tag without anything that was asked for, nothing is reported.
            had = {(tag, each) for base in bases for each in base.get(tag, {})}
            if not is_snapshot(tag) and (package or not had <= told.keys()):
                yield f"{tag}/{package} is gone, which was not told at once"


def _named(world: World, revision: str) -> set[tuple[str, str]]:
    """Name the packages in a revision, and the tags, which have no package."""
    return {(tag, package) for tag, packages in world.published[revision].items() for package in ("", *packages)}


def _lacked_by_both(world: World, news: News) -> Iterator[tuple[str, str]]:
    """Yield what a new release is said to lack if the one before it lacked that, too, when the new one was there."""
    for package in news.gone if news.base != news.tag else ():
        if any(news.tag in tags and package not in tags.get(news.base, {}) for tags in world.last_read.values()):
            yield news.tag, package


def _target_problems(world: World, stream: Stream) -> Iterator[str]:
    notices = [path.read_text("utf-8") for path in (world.folder / "desk").glob("*.txt")]  # what operators know
    for told in _of(world, stream, *_OUT):
        found = {(each.channel, each.target): each for each in world.deliveries.values() if each.digest == told.key}
        wanted = {(channel, target.replace("{key}", told.key)) for channel, target in stream.targets}
        if found.keys() != wanted:
            yield f"goes to {sorted(found)} and not to {sorted(wanted)}"
        for delivery in found.values():
            if delivery.state in ("dead", "suppressed"):
                if not any(delivery.target in notice for notice in notices):
                    yield f"{delivery} is {delivery.state}, and no operator knows"
            elif delivery.state != "sent" and told.key in world.stored:  # a pass may send it and forget it
                yield f"{delivery} is not sent"
            elif delivery.channel == "files" and Path(delivery.target).read_bytes() != told.json:
                yield f"{delivery} says something else"
    for channel, target in stream.targets:
        if channel == "feed":
            yield from _feed_problems(world, stream, Path(target))


def _feed_problems(world: World, stream: Stream, path: Path) -> Iterator[str]:
    entries = re.findall(rb"<entry>.*?<id>(.*?)</id>", path.read_bytes(), re.DOTALL) if path.exists() else []
    told = _of(world, stream, *_OUT)
    # A clock that is a year ahead makes the service forget digests of more than a month ago.
    least = sum(each.key in world.stored for each in told)
    if len(set(entries)) != len(entries) or not min(100, least) <= len(entries) <= min(100, len(told)):
        yield f"{len(told)} digests, of which {least} are stored, are {len(entries)} entries of the feed"


def _mail_problems(world: World) -> Iterator[str]:
    """Hold what mail servers and Maildirs took against what is written down as sent."""
    box = [path.read_bytes() for path in sorted((world.folder / "out/box/new").glob("*"))]
    for target, taken in {**world.mail.taken, str(world.folder / "out/box"): box}.items():
        bodies = by_message_id(taken)
        rows = sorted(each for each in world.deliveries.values() if each.target == target)
        for problem in different_copies(bodies):
            yield f"{target}: {problem}"
        if unknown := bodies.keys() - {each.message_id for each in rows}:
            yield f"{target}: got {sorted(unknown)}, which nobody made"
        sent = [each.message_id for each in rows if each.state == "sent"]
        if missing := set(sent) - bodies.keys():
            yield f"{target}: did not get {sorted(map(str, missing))}"
        if len(set(sent)) != len(sent):
            yield f"{target}: two digests have one Message-ID"
        order = [message_id for message_id in bodies if message_id in sent]
        if "@" in target and order != [message_id for message_id in sent if message_id in bodies]:
            yield f"{target}: got its messages in another order than they were made"
        world.figures.messages += len(bodies)
        world.figures.copies += len(taken) - len(bodies)


def by_message_id(taken: Sequence[bytes]) -> dict[str, set[bytes]]:
    """Return the messages that have each Message-ID, in the order in which the first of each came."""
    bodies: defaultdict[str, set[bytes]] = defaultdict(set)
    for message in taken:
        name = email.message_from_bytes(message, policy=email.policy.default)["Message-ID"]
        bodies[str(name)].add(message)
    return bodies


def different_copies(bodies: Mapping[str, set[bytes]]) -> Iterator[str]:
    """Yield what is sent again, but not as it was."""
    for message_id, found in bodies.items():
        if len(found) > 1:
            yield f"{len(found)} different messages are {message_id}"
