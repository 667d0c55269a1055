"""What was made of a tag for one digest is what it would be in another."""

from pathlib import Path

import pytest
from digests import NOW, digest_of, read
from msgspec.structs import replace

from cachewatch.core.delivery import RenderedDigest
from cachewatch.render import tag_views
from cachewatch.render.digest_mail import DigestRenderer
from cachewatch.render.tag_views import TagViews
from cachewatch.report.digest import Digest, Return, TagDigest


@pytest.fixture
def tags(demo_repository: Path) -> list[TagDigest]:
    """Tags of two names, one of them twice."""
    tag = read(demo_repository)
    other = replace(tag, report=replace(tag.report, after=replace(tag.report.after, tag="v2")))
    return [tag, other, replace(tag, versions=())]


def digests(tags: list[TagDigest]) -> list[Digest]:
    """Return digests that differ in what else decides how a tag is told."""
    back = Return(
        source="public",
        tag="develop",
        kind="package",
        name="py-build",
        gone_since=NOW,
        revision="6001b266be",
        packages_before=1,
        packages_now=1,
        specs_before=1,
        specs_now=1,
    )
    plain = digest_of(*tags)
    mirrored = replace(plain, spans=tuple(replace(span, mirror="https://example.org/{tag}") for span in plain.spans))
    return [
        plain,
        digest_of(*tags[::-1]),
        digest_of(*tags, links=""),
        digest_of(*tags, rows=1),
        digest_of(*tags, returns=(back,)),
        mirrored,
        digest_of(*tags[:1], subscription="other"),
    ]


def rendered(digest: Digest, views: TagViews | None) -> list[RenderedDigest]:
    renderer = DigestRenderer(digest, views=views)
    return [renderer.render(shortness) for shortness in (0, 2)]


def test_all_digests_are_as_if_each_were_alone(tags: list[TagDigest]) -> None:
    views = TagViews()
    for digest in digests(tags) * 2:
        assert rendered(digest, views) == rendered(digest, None)


def test_it_is_made_once(tags: list[TagDigest]) -> None:
    made: list[TagDigest] = []

    def make(tag: TagDigest) -> dict[str, object]:
        made.append(tag)
        return {}

    views = TagViews()
    for tag in (*tags, *tags):
        views.get(tag, "form", make)
    assert made == tags


def test_long_and_old_ones_are_forgotten(tags: list[TagDigest], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[TagDigest] = []

    def make(tag: TagDigest) -> dict[str, object]:
        made.append(tag)
        return {}

    monkeypatch.setattr(tag_views, "_MOST", 2)
    views = TagViews()
    for tag in (*tags, tags[0]):
        views.get(tag, "form", make)
    assert made == [*tags, tags[0]]
    made.clear()
    monkeypatch.setattr(tag_views, "_MOST_LINES", 0)
    for _ in range(2):
        views.get(tags[1], "another", make)
    assert len(made) == 2
