"""The mail that people read: its title, its forms, and that what it leaves out is counted."""

import json
from datetime import UTC, datetime
from pathlib import Path

from test_tag_digests import read

from cachewatch.digests import Digest, Gap, Notice, Silenced, Span, TagDigest
from cachewatch.render.letters import render_letter
from cachewatch.render.notices import render_notice

NOW = datetime(2025, 6, 2, 7, 30, tzinfo=UTC)


def digest_of(*tags: TagDigest, subscription: str = "ml-team", **values: object) -> Digest:
    """Return a digest of these tags, with everything that can be said of one."""
    report = tags[0].report
    span = Span(
        source="public",
        address="https://github.com/spack/cache.spack.io.git",
        before=report.before,
        after=report.after,
        revisions=report.revisions_between,
        newest=datetime.fromisoformat(report.after.time) if report.after.time else None,
        checked=NOW,
        gaps=(Gap(datetime(2025, 5, 26, 4, tzinfo=UTC), datetime(2025, 5, 30, 4, tzinfo=UTC)),),
    )
    options: dict[str, object] = {
        "key": "0123456789abcdef",
        "subscription": subscription,
        "description": "what the ML team uses",
        "created": NOW,
        "period": "2025-05-25..2025-06-01",
        "spans": (span,),
        "tags": tags,
        "silenced": (Silenced("llvm", 3, "migration, ask Kim", "2026-12-01"),),
        "why": ("tags develop", "packages py-*"),
        "commands": ("cachewatch diff 6001b266be 1afa5ee758 --tag develop",),
        "archive_url": "https://hpc.example.org/cachewatch/ml-team/2025-06-01.html",
        "unsubscribe": "mailto:cachewatch+unsubscribe@hpc.example.org?subject=ml-team",
        "operator": "hpc-software@example.org",
        "links": "https://cache.spack.io",
    }
    return Digest(**(options | values))  # type: ignore[arg-type]


def test_a_letter_of_the_demo(demo_repository: Path) -> None:
    """Every form says what happened, and nothing is cut where all of it fits."""
    letter = render_letter(digest_of(read(demo_repository)), to=("kim@example.org",))
    forms = (letter.text, letter.html, letter.markdown, letter.json.decode())

    assert letter.title == "1 package lost last copies, 2 upgraded, 1 new - develop"
    assert all("py-safetensors 0.4.3 gone, 2 packages upgraded" in form for form in forms)
    assert all("py-keras" in form and "1 June 2025" in form for form in forms)
    assert letter.attachments == ()
    assert json.loads(letter.json)["schema"] == "cachewatch.digest/1"
    assert max(map(len, letter.text.splitlines())) <= 78


def test_a_notice() -> None:
    """Operators are told what is wrong, since when, and what to do."""
    notice = Notice(
        key="n1",
        created=NOW,
        title="Source public cannot be read",
        said=("git said: connection refused.",),
        facts=(("last success", "1 June 2025 04:00 UTC"), ("failures", "3")),
        remedy="Nothing, if this ends by itself.",
        commands=("cachewatch status",),
    )
    letter = render_notice(notice, to=("ops@example.org",))

    assert (letter.is_notice, letter.subscription, letter.title) == (True, "operators", notice.title)
    for form in (letter.text, letter.html, letter.markdown, letter.json.decode()):
        assert all(words in form for words in ("connection refused", "last success", "cachewatch status"))
