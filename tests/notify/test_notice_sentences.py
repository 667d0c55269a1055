"""Short sentences that digests and notices share."""

from datetime import UTC, datetime

from cachewatch.notify.notice_sentences import returned, unread
from cachewatch.store.cursors import Unread


def test_documents_that_cannot_be_read_are_counted_beyond_twenty() -> None:
    """By revision, with the names of the first."""
    left = {"since": "a" * 40, "base": "b" * 40, "base_tag": "develop", "reason": "damaged"}
    found = {"develop": [Unread(package=f"p{n:02}", **left) for n in range(25)]}
    (line,) = unread(found)

    assert line.startswith("documents of develop cannot be read since revision aaaaaaaaaa: p00, p01, ")
    assert "p19 and 5 more; changes in them are reported later" in line
    (line,) = unread({"develop": found["develop"][:2]})
    assert "aaaaaaaaaa: p00, p01; changes in them are reported later" in line


def test_a_tag_that_is_back_says_since_when_it_was_gone() -> None:
    (line,) = returned({"v1.0": datetime(2026, 11, 1, 4, 5, tzinfo=UTC)}, "Europe/Berlin")

    assert line == "v1.0 is back; it was gone since 2026-11-01 05:05 CET, and is compared with its state before that"
