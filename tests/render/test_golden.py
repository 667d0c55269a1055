"""Three weeks of digests, to the letter: tests/golden/digests has them as examples, and docs/pictures of them."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import scripted
import weeks
from conftest import Golden

from cachewatch.core.delivery import Letter
from cachewatch.render.alerts import render_notice
from cachewatch.render.lint import lint_letter
from cachewatch.render.mail import MAX_HTML, render_letter
from cachewatch.render.samples import sample_digest, sample_notice
from cachewatch.report.digest import Digest


def hold(golden: Golden, name: str, letter: Letter) -> None:
    """Hold every form of `letter` to its file."""
    golden(f"digests/{name}.txt", f"Subject: [{letter.subscription}] {letter.title}\n\n{letter.text}")
    golden(f"digests/{name}.html", letter.html)
    golden(f"digests/{name}.md", letter.markdown)
    golden(f"digests/{name}.json", json.dumps(json.loads(letter.json), indent=1) + "\n")
    assert lint_letter(letter) == ()


@pytest.mark.parametrize(("name", "make"), [("quiet", weeks.quiet_week), ("versions", weeks.version_week)])
def test_a_week(golden: Golden, tmp_path: Path, name: str, make: Callable[[Path], Digest]) -> None:
    """A week with nothing but rebuilds, and one with new versions and a loss."""
    letter = render_letter(make(tmp_path))

    hold(golden, name, letter)
    assert letter.attachments == ()


@pytest.mark.parametrize("name", scripted.WEEKS)
def test_a_scripted_week(golden: Golden, tmp_path: Path, name: str) -> None:
    """A week of one cause: the subject and the first screen name it."""
    letter = render_letter(scripted.digest_of(tmp_path, name))

    golden(f"weeks/{name}.txt", f"Subject: [{letter.subscription}] {letter.title}\n\n{letter.text}")
    golden(f"weeks/{name}.html", letter.html)
    assert lint_letter(letter) == ()
    assert len(letter.text.splitlines()) < 60


@pytest.mark.slow
def test_a_prune(golden: Golden, tmp_path: Path) -> None:
    """A prune of 200,000 specs is a short mail, with all of it attached."""
    letter = render_letter(weeks.prune_week(tmp_path))
    (attached,) = letter.attachments
    lines = list(csv.DictReader(io.StringIO(gzip.decompress(attached.content).decode(), newline="")))

    hold(golden, "prune", letter)
    assert len(letter.html.encode()) <= MAX_HTML
    assert attached.name == "changes.csv.gz"
    assert sum(line["change"] == "spec-removed" for line in lines) > weeks.PRUNED


def test_samples(golden: Golden) -> None:
    """Every heading that a digest can have, and a notice."""
    hold(golden, "sample", render_letter(sample_digest()))
    hold(golden, "notice", render_notice(sample_notice()))
