"""Documents are known by what they are, not by where they lie."""

import pytest

from cachewatch.core.names import ANYWHERE, Layout, why_contested
from cachewatch.documents.parsing import Claim, claim_of, recognize
from cachewatch.errors import UsageError


def _document(title: str = '"zlib"', categories: str = "[package, develop]") -> bytes:
    return f'---\ntitle: {title}\ncategories: {categories}\nmeta: {{"title": 1}}\nspec_details: [{{"hash": "a"}}]\n---'.encode()


def _found(files: dict[str, bytes], layout: Layout = ANYWHERE) -> dict[str, dict[str, str]]:
    found = recognize(layout, [(path, path) for path in files], lambda keys: [claim_of(files[key]) for key in keys])
    return {tag: {package: path for package, (path, _) in of.items()} for tag, of in found.documents.items()}


@pytest.mark.parametrize(
    ("content", "claim"),
    [
        (_document(), Claim("zlib", "develop")),
        (_document().replace(b"\n", b"\r\n"), Claim("zlib", "develop")),
        (b"\xef\xbb\xbf" + _document("zlib", "[v0.23, package]"), Claim("zlib", "v0.23")),
        (_document("'zlib'", "\n- package\n- v0.23"), Claim("zlib", "v0.23")),
        (_document()[:-8], Claim("zlib", "develop")),  # cut off
        (_document("zlib", "[package]"), Claim("zlib", "")),
        (b"---\nspec_details:\n- hash: a\n---\n", Claim("", "")),
        (b"---\ntitle: zlib\n---\nspec_details: []\n", None),
        (b"# README\n\n---\nspec_details: []\n---\n", None),
        (b"---", None),
        (b"", None),
    ],
)
def test_a_front_matter_with_records_is_a_document(content: bytes, claim: Claim | None) -> None:
    """What it says of itself is read without its records; all else is no document."""
    assert claim_of(content) == claim


def test_title_and_category_decide_wherever_the_file_is() -> None:
    """The package is the title and the tag the category; a README is neither."""
    files = {
        "py-a.md": _document("py-a"),
        "docs/whatever/b.markdown": _document("py-b", "[package, v0.23]"),
        "data/c.txt": _document("py-c"),
        "data/d.json": _document("py-d"),
        "README.md": b"---\ntitle: About\n---\nspec_details: none here\n",
    }
    assert _found(files) == {
        "develop": {"py-a": "py-a.md", "py-c": "data/c.txt"},
        "v0.23": {"py-b": "docs/whatever/b.markdown"},
    }


def test_file_and_folder_name_what_a_document_does_not_say() -> None:
    """Without a title the file names the package, without a category the folder names the tag, or it is develop."""
    bare = b"---\nspec_details: []\n---\n"
    files = {"zlib.md": bare, "v0.23/hdf5.md": bare, "v0.24/gmp/specs.md": bare}
    assert _found(files) == {
        "develop": {"zlib": "zlib.md"},
        "v0.23": {"hdf5": "v0.23/hdf5.md"},
        "v0.24": {"gmp": "v0.24/gmp/specs.md"},
    }


def test_a_pattern_says_where_documents_are() -> None:
    """The path decides, whatever the files say; without a place for the tag, the category does."""
    files = {
        "cat/v1/zlib/specs.md": b"broken",
        "cat/v1/README.md": _document(),
        "p/gmp.rst": _document("gmp", "[package, v2]"),
    }
    assert _found(files, Layout.parse("cat/{tag}/{package}/specs.md")) == {"v1": {"zlib": "cat/v1/zlib/specs.md"}}
    assert _found(files, Layout.parse("./p/{package}.rst")) == {"v2": {"gmp": "p/gmp.rst"}}
    assert _found(files, Layout.parse("*/{tag}/{package}.md")) == {"v1": {"README": "cat/v1/README.md"}}


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("docs/specs.md", "lacks {package}"),
        ("{package}/{package}.md", "twice"),
        ("{stack}/{package}.md", "other placeholders"),
        ("{package", "lacks {package}"),
        ("/srv/{package}.md", "is no path from the root"),
        ("../{package}.md", "is no path from the root"),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(pattern: str, problem: str) -> None:
    """The message says what is wrong and shows a pattern."""
    with pytest.raises(UsageError, match=rf"(?s){problem}.*'catalogue/\{{tag\}}/\{{package\}}/specs.md'"):
        Layout.parse(pattern)


def test_two_files_of_one_package_and_tag_are_both_named() -> None:
    """Neither is taken, and the other documents are found."""
    files = {"a.md": _document(), "old/zlib.md": _document(), "b.md": _document("gmp")}
    found = recognize(ANYWHERE, [(path, path) for path in files], lambda keys: [claim_of(files[key]) for key in keys])
    assert found.documents == {"develop": {"gmp": ("b.md", "b.md")}}
    (paths,) = found.contested["develop"].values()
    assert why_contested(paths).startswith("a.md and old/zlib.md are documents of the same package and tag")


def test_names_that_nothing_can_have_are_faults() -> None:
    """The path and the name are named."""
    files = {"a.md": _document('"two words"'), "b.md": _document("gmp", "[package, 'v 1']")}
    found = recognize(ANYWHERE, [(path, path) for path in files], lambda keys: [claim_of(files[key]) for key in keys])
    assert not any(found.documents.values())
    assert [(each.path, each.message) for each in found.diagnostics] == [
        ("a.md", "ignored: 'two words' cannot be the name of a package"),
        ("b.md", "ignored: 'v 1' cannot be the name of a tag"),
    ]
