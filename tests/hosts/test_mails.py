"""What is read from the mails of a reader is what happened; what is missing, told twice or changed is noticed."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from model.catalogue import Document, Editor, Step, files_of, last_readable
from model.sums import Digest, Line, read_digest
from model.world import Stream
from station import Site, config

from hosts.mails import newest, problems

CONFIG = config("""\
channels:
  box: {type: maildir, path: "{folder}/box", from: c@example.org, attach: csv}
  files: {type: file, path: "{folder}/files/{subscription}-{key}.{ext}", formats: [json]}
operators: {channels: []}
subscriptions: {all: {to: [kim@example.org], channels: [box, files], changes: [all], when: each revision}}
""")
STEPS = (
    (Step("upgrade"), Step("remove", 1, "pb")),
    (Step("break", 0, "pc"), Step("extend", 0, "pa")),
    (Step("break", 0, "pa"), Step("add", 1, "pb", is_new=True)),
    (Step("repair", 0, "pc", is_new=True), Step("shrink", 0, "pd")),
    (Step("repair", 0, "pa"), Step("wave", 1)),
)
EVERYTHING = Stream("all", "regular", ())
Mails = list[bytes]


class Played(NamedTuple):
    """What a reader got, by mail and as files, and what upstream published."""

    mails: Mails
    files: list[Digest]
    line: Line


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A site whose upstream took all steps, with a digest after each."""
    letters = enumerate("abcdefgh", 1)
    builds: dict[str, Document] = {f"p{letter}": frozenset({10 * n, 10 * n + 1}) for n, letter in letters}
    editor = Editor({"develop": builds, "v1.0": builds})
    states = [{tag: dict(packages) for tag, packages in editor.tags.items()}]
    for steps in STEPS:
        for step in steps:
            editor.apply(step)
        states.append({tag: dict(packages) for tag, packages in editor.tags.items()})
    site = Site(tmp_path_factory.mktemp("site"), list(map(files_of, states)))
    site.configure(CONFIG)
    mails, files = [], []
    for number in range(len(states)):
        site.publish(number)
        site.run(later=timedelta(days=1))
        mails += [path.read_bytes() for path in _taken(site.folder / "box" / "new")]
        files += [read_digest(path.read_bytes()) for path in _taken(site.folder / "files")]
    last_read = [states[0]]
    for state in states[1:]:
        last_read.append(last_readable(last_read[-1], state))
    published, known = (dict(zip(site.commits, each, strict=True)) for each in (states, last_read))
    return Played(mails, files, Line(site.commits[0], site.commits[-1], published, known))


def _taken(folder: Path) -> list[Path]:
    """Take what is in a folder out of it."""
    found = list(folder.iterdir()) if folder.exists() else []
    return [path.rename(folder.parent / f"{path.name}.taken") for path in found]


def test_what_happened_adds_up(played: Played) -> None:
    assert list(problems(played.mails, EVERYTHING, played.line)) == []
    assert newest(played.mails) == played.line.last


def _renamed(mail: bytes) -> bytes:
    return re.sub(rb"(?m)^Message-ID: <", b"Message-ID: <other.", mail, count=1)


WRONG: dict[str, Callable[[Mails], Mails]] = {
    "the first is missing": lambda mails: mails[1:],
    "one is missing": lambda mails: mails[:2] + mails[3:],
    "the last is missing": lambda mails: mails[:-1],
    "nothing came": lambda _: [],
    "one came twice under two Message-IDs": lambda mails: [*mails[:1], _renamed(mails[0]), *mails[1:]],
    "two came in the wrong order": lambda mails: [mails[0], mails[2], mails[1], *mails[3:]],
    "one was changed under its Message-ID": lambda mails: [*mails, mails[0].replace(b"upgrade", b"Upgrade")],
    "one tells of what was never published": lambda mails: [
        re.sub(rb"\.\.[0-9a-f]{40}", b".." + b"0" * 40, mail) for mail in mails
    ],
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_noticed(played: Played, change: Callable[[Mails], Mails]) -> None:
    changed = change(played.mails)
    assert changed != played.mails
    assert list(problems(changed, EVERYTHING, played.line))
