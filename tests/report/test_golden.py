"""Three weeks of digests, exactly: tests/golden/digests has them as examples, and docs/pictures of them."""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scripted
import weeks
from conftest import Golden

from cachewatch.cli.sample_digests import sample_digest, sample_notice
from cachewatch.report.digest_and_message_values import MAX_HTML, Digest, RenderedDigest
from cachewatch.report.digests.rendering_and_sizes import render_digest, render_notice


def mail_text(rendered: RenderedDigest) -> str:
    """Return what a reader of plain text sees."""
    return f"Subject: [{rendered.subscription}] {rendered.title}\n\n{rendered.text}"


def hold(golden: Golden, name: str, rendered: RenderedDigest) -> None:
    """Hold every form of `digest` to its file."""
    text, facts = mail_text(rendered), json.dumps(json.loads(rendered.json), indent=1) + "\n"
    assert text == golden(f"digests/{name}.txt", text)
    assert rendered.html == golden(f"digests/{name}.html", rendered.html)
    assert rendered.markdown == golden(f"digests/{name}.md", rendered.markdown)
    assert facts == golden(f"digests/{name}.json", facts)


@pytest.mark.parametrize(("name", "make"), [("quiet", weeks.quiet_week), ("versions", weeks.version_week)])
def test_a_week(golden: Golden, tmp_path: Path, name: str, make: Callable[[Path], Digest]) -> None:
    """A week with nothing but rebuilds, and one with new versions and a loss."""
    rendered = render_digest(make(tmp_path))

    hold(golden, name, rendered)
    assert rendered.attachments == ()


@pytest.mark.parametrize("name", scripted.WEEKS)
def test_a_scripted_week(golden: Golden, tmp_path: Path, name: str) -> None:
    """A week of one cause: the subject and the first screen name it."""
    rendered = render_digest(scripted.digest_of(tmp_path, name))

    text = mail_text(rendered)

    assert text == golden(f"weeks/{name}.txt", text)
    assert rendered.html == golden(f"weeks/{name}.html", rendered.html)
    assert len(rendered.text.splitlines()) < 60
    words = r"(?:packages?|binar(?:y|ies)|old builds?|upgrades?|downgrades?|specs?)"
    said = re.findall(rf"(?<![\w.])(\d[\d,]*) {words}\b", rendered.text)
    assert {int(number.replace(",", "")) for number in said} <= set(numbers_of(json.loads(rendered.json)))


def numbers_of(value: Any) -> Iterator[int]:
    """Yield the numbers of a digest's JSON, and how many entries its lists have."""
    if isinstance(value, dict | list):
        yield len(value)
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers_of(each)
    elif isinstance(value, int):
        yield value


@pytest.mark.slow
@pytest.mark.nightly
def test_a_prune(golden: Golden, tmp_path: Path) -> None:
    """A prune of 200,000 specs is a short mail, with all of it attached where that is asked for."""
    rendered = render_digest(weeks.prune_week(tmp_path), attach=True)
    (attached,) = rendered.attachments
    lines = list(csv.DictReader(io.StringIO(gzip.decompress(attached.content).decode(), newline="")))

    hold(golden, "prune", rendered)
    assert len(rendered.html.encode()) <= MAX_HTML
    assert attached.name == "changes.csv.gz"
    assert sum(line["change"] == "spec-removed" for line in lines) > weeks.PRUNED


def test_samples(golden: Golden) -> None:
    """Every heading that a digest can have, and a notice."""
    digest, notice = render_digest(sample_digest()), render_notice(sample_notice())

    hold(golden, "sample", digest)
    hold(golden, "notice", notice)
    assert "To do" in digest.text
    assert len(re.findall("was the first since|Nothing was published", digest.page)) == 1
    assert notice.subscription == "operators"
