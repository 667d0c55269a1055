"""Templates of users: preferred to ours file by file, given plain data, and held in a cage."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest
from conftest import ROOT, Run
from tools import finding_commands

from cachewatch.cli.sample_digests import sample_digest, sample_notice
from cachewatch.errors import TemplateError
from cachewatch.report import template_rendering as templates
from cachewatch.report.digests.data_for_templates import view
from cachewatch.report.digests.rendering_and_sizes import render_digest
from cachewatch.report.template_rendering import templates_of
from cachewatch.report.words_file import words
from cachewatch.runtime.files_and_locks import shipped_schemas


def caged(folder: Path, text: str, name: str = "t.txt.j2", **context: object) -> str:
    """Render `text` as a template of a user, but for the process of its own."""
    (folder / name).write_text(text)
    (rendered,) = templates._render_each(folder, [(name, context)])
    return rendered


def apart(folder: Path, text: str) -> str:
    """Render `text` as a template of a user, with all that holds it."""
    (folder / "t.txt.j2").write_text(text)
    with templates_of(folder) as render:
        (rendered,) = render([("t.txt.j2", {})])
    return rendered


@pytest.mark.slow
def test_one_file_can_be_replaced(tmp_path: Path) -> None:
    """A part of one's own takes the place of ours, and all else stays."""
    (tmp_path / "_footer.html.j2").write_text("<p>Ask {{ digest.operator }}.</p>")
    ours, theirs = (render_digest(sample_digest(), templates_dir=folder) for folder in (None, tmp_path))

    assert "<p>Ask hpc-software@example.org.</p>" in theirs.html
    assert "You get this" not in theirs.html
    assert "py-safetensors" in theirs.html
    assert theirs.text == ours.text


@pytest.mark.slow
def test_a_remark_on_what_was_compared_can_be_said_otherwise(tmp_path: Path) -> None:
    """As every other sentence of a digest."""
    (tmp_path / "words.toml").write_text('[notes]\nsample = "an exercise"\n')
    rendered = render_digest(sample_digest(), templates_dir=tmp_path)

    for form in (rendered.text, rendered.html, rendered.markdown, rendered.json.decode()):
        assert "an exercise" in form
        assert "this is made up" not in form


def test_a_template_of_another_name(tmp_path: Path) -> None:
    """A subscription can have its own template for one form, and ours for the others."""
    (tmp_path / "site.txt.j2").write_text("{{ digest.subscription }}: {{ sentence }}\n")
    rendered = render_digest(sample_digest(), templates_dir=tmp_path, template="site.html.j2")

    assert rendered.text.startswith("sample: ")
    assert rendered.html == render_digest(sample_digest()).html
    with pytest.raises(TemplateError, match="there is no template nowhere"):
        render_digest(sample_digest(), templates_dir=tmp_path, template="nowhere.html.j2")


def test_html_is_escaped_and_text_is_not(tmp_path: Path) -> None:
    """What a template prints as HTML is text, not markup."""
    assert caged(tmp_path, "{{ x }}", "t.html.j2", x="<b>&") == "&lt;b&gt;&amp;"
    assert caged(tmp_path, "{{ x }}", x="<b>&") == "<b>&"
    assert apart(tmp_path, "plain") == "plain"


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n{{ digest.nothing }}", "line 2: .*nothing"),
        ("{% if %}", "line 1"),
        ("\n\n{{ 1 / 0 }}", "line 3: ZeroDivisionError"),
        ("{{ ''.__class__ }}", "unsafe"),
        ("{{ digest.update({}) }}", "unsafe"),
        ("{{ digest | attr('__class__') }}", "unsafe|has no"),
        ("{% include 'gone.j2' %}", "there is no template gone.j2"),
        ("{% include '../secret.txt' %}", "there is no template"),
        ("{{ lipsum() }}", "lipsum"),
        ("{{ range(10 ** 9) }}", "Range too big"),
        ("{{ 'x' * 10 ** 8 }}", "more than 10 MiB"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    """The file, the line and the reason."""
    with pytest.raises(TemplateError, match=message) as error:
        caged(tmp_path, text, digest={"some": "thing"})

    assert "t.txt.j2" in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[todo]\nnothing = "No {foo} action."', "`nothing` of [todo] has no {foo}; it has {n}"),
        ('[upgraded]\nsaidd = ""', "[upgraded] has no entry saidd of this form; did you mean said?"),
        ('[upgraded]\nheading = "Newer"', "[upgraded] heading: a digest has the heading `upgraded` of [sections]"),
        (
            '[sections]\ngone = "upgraded = 1"\nupgraded = 5',
            "[sections] has no entry upgraded of this form: it is a text",
        ),
        (
            '[upgraded]\nsaid = "{items}"\n\n[upgradedd]',
            "there is no entry upgradedd of this form; did you mean upgraded or downgraded?",
        ),
        (
            '[retired]\nsaid = "{items}"\n[upgraded]\nheading = "Newer"\n\nsubject = ["{items}", "{names}"]\n',
            "`subject` of [upgraded] has no {names}; it has {items}, {n}",
        ),
    ],
)
def test_words_name_only_the_values_that_they_have(tmp_path: Path, text: str, message: str) -> None:
    """Those that our texts under the same key have, also in entries of the same kind."""
    (tmp_path / "words.toml").write_text('[stack-removed.going]\nsaid = "{name}{fates} {n|m}"\n')
    assert words(tmp_path).text("stack-removed.going", "said") == "{name}{fates} {n|m}"

    (tmp_path / "words.toml").write_text(text)
    with pytest.raises(TemplateError) as error:
        words(tmp_path)
    assert str(error.value) == f"{tmp_path}/words.toml: {message}"


def test_a_template_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_SECONDS", 1.0)
    loop = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
    with pytest.raises(TemplateError, match="more than 1 seconds of processor time"):
        apart(tmp_path, loop)


def test_a_template_that_grows(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="memory"):
        apart(tmp_path, "{% set x = 'x' * 10 ** 10 %}")


def test_a_template_that_cannot_be_read(tmp_path: Path) -> None:
    """Neither bytes that are no text nor a flood of them get into Jinja2."""
    (tmp_path / "a.txt.j2").write_bytes(b"\xff")
    (tmp_path / "b.txt.j2").write_bytes(b"x" * (2**20 + 1))
    with templates_of(tmp_path) as render:
        with pytest.raises(TemplateError, match="not UTF-8"):
            render([("a.txt.j2", {})])
        with pytest.raises(TemplateError, match="more than 1,048,576 bytes"):
            render([("b.txt.j2", {})])


def test_the_context_is_plain_data() -> None:
    """Templates are given nothing that could do anything."""

    def check(value: object) -> None:
        assert type(value) in (dict, list, str, int, bool, type(None)), value
        if isinstance(value, dict):
            assert not {"items", "keys", "values", "get", "copy", "pop", "update"} & value.keys()
            for inner in value.values():
                check(inner)
        elif isinstance(value, list):
            for inner in value:
                check(inner)

    check(view(sample_digest()))


def test_the_commands(run: Run, tmp_path: Path) -> None:
    """List, show, render and check: what a user does to make a template."""
    part = run("config", "template", "show", "_footer.html.j2").output
    (tmp_path / "_footer.html.j2").write_text(f"{part}<p>Mine.</p>")
    listed = run("config", "template", "list", "--templates-dir", tmp_path).output
    rendered = run("config", "template", "render", "digest.html.j2", "--templates-dir", tmp_path)
    (tmp_path / "mine.txt.j2").write_text("{{ digest.nonsense }}")
    checked = run("config", "template", "check", "--templates-dir", tmp_path)

    assert ("* _footer.html.j2" in listed, "  digest.html.j2" in listed) == (True, True)
    assert "<p>Mine.</p>" in rendered.output
    assert (checked.exit_code, "mine.txt.j2: line 1" in checked.error) == (6, True)
    assert "digest.html.j2: ok\n" in checked.output


def test_templates_of_the_configuration_are_checked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --templates-dir, the folder that `templates_dir:` names is meant; without a configuration, none is."""
    monkeypatch.chdir(tmp_path)
    assert run("config", "template", "diff").exit_code == 2
    run("init", "--to", "you@example.org", "--source", "https://example.org/c.git")
    (tmp_path / "cachewatch.yaml").write_text(f"{(tmp_path / 'cachewatch.yaml').read_text()}\ntemplates_dir: mine\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "_lead.html.j2").write_text("{{ nonsense }}")

    checked = run("config", "template", "check")

    assert (checked.exit_code, "mine/_lead.html.j2: line 1: 'nonsense' is undefined" in checked.error) == (6, True)
    assert {"digest.html.j2: wrong", "digest.txt.j2: ok"} <= set(checked.output.splitlines())
    assert run("config", "template", "render", "digest.html.j2").exit_code == 6
    assert "* _lead.html.j2" in run("config", "template", "list").output
    assert "nonsense" not in run("config", "template", "show", "_lead.html.j2").output, "it shows cachewatch's own"
    assert "+{{ nonsense }}" in run("config", "template", "diff").output
    assert run("config", "template", "list", "--config", "nowhere.yaml").exit_code == 2
    assert checked.error.count("'nonsense' is undefined") == 1, "a mistake of a part is one, in however many templates"


def test_what_cannot_be_shown_or_rendered(run: Run) -> None:
    """Names that are none, and parts, which mean nothing alone."""
    assert "no template x.j2" in run("config", "template", "show", "x.j2").error
    assert "no template" in run("config", "template", "show", "../README.md").error
    assert "parts are rendered as part of them" in run("config", "template", "render", "_footer.html.j2").error
    assert run("config", "template", "render", "nothing.html.j2").exit_code == 6
    assert sample_notice().title in run("config", "template", "render", "notice.txt.j2").output


def test_the_context_is_documented() -> None:
    """Every name that a template is given stands in docs/templates.md, and every filter."""
    text = (Path(__file__).parents[2] / "docs/templates.md").read_text()

    def names(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {name for inner in value.values() for name in names(inner)}
        return {name for inner in value for name in names(inner)} if isinstance(value, list) else set()

    missing = {name for name in names(view(sample_digest())) if f"{name}`" not in text}
    missing |= {name for name in templates.FILTERS if f"| {name}" not in text.replace("\\|", "|")}
    assert missing == set()


def test_a_template_writes_the_subject(tmp_path: Path, run: Run) -> None:
    """One line, with what templates are given; one of a subscription is preferred, and an empty one is not used."""
    subject = "{{ digest.subscription }}:\n {{ digest.sections[0].packages }} ä {{ title }}"
    (tmp_path / "digest.subject.j2").write_text(subject)
    (tmp_path / "site.subject.j2").write_text("of the site")
    (tmp_path / "empty.subject.j2").write_text("{# nothing #}")
    digest = sample_digest()
    usual = render_digest(digest).title
    names = (None, "site.html.j2", "empty.html.j2")
    titles = [render_digest(digest, templates_dir=tmp_path, template=name).title for name in names]

    assert titles == [f"sample: 1 ä {usual}", "of the site", usual]
    shown = run("config", "template", "render", "digest.subject.j2", "--templates-dir", tmp_path)
    assert shown.output == f"{titles[0]}\n"
    assert run("config", "template", "show", "digest.subject.j2").output == "{{ title }}\n"
    (tmp_path / "digest.subject.j2").write_text("{{ nonsense }}")
    assert "digest.subject.j2: line 1" in run("config", "template", "check", "--templates-dir", tmp_path).error_of(6)


def test_json_keeps_to_its_schema() -> None:
    """The sample, which has everything, and notices' neighbours validate."""
    schema = json.loads(shipped_schemas()["digest"].read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(schema)

    validator.check_schema(schema)
    assert list(validator.iter_errors(json.loads(render_digest(sample_digest()).json))) == []


@pytest.mark.slow
def test_the_example_of_docs(tmp_path: Path, demo_repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/templates.md shows a theme, words and a header that do what it says."""
    monkeypatch.chdir(tmp_path)
    run("init", "--to", "you@example.org", "--source", demo_repository, "--when", "each revision")
    page = (ROOT / "docs/templates.md").read_text()
    example = page.partition("```sh\n")[2].partition("```")[0]
    command = ["sh", "-e", "-c", example]
    done = subprocess.run(command, env=finding_commands(), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "+++ mine/_header.html.j2" in done.stdout
    assert {"-name = ''", "+name = 'HPC group'"} <= set(done.stdout.splitlines())
    assert "-todo.nothing_urgent = 'Nothing is urgent.'\n+todo.nothing_urgent = 'No action needed now.'" in done.stdout
    preview = (tmp_path / "preview.html").read_text()
    theme, header = (
        ("A quiet week.", "border-top:4px solid #8250df"),
        ("<b>HPC group</b>", "Questions: hpc@example.org"),
    )
    for said in (">No action needed", *header, *theme):
        assert said in preview


def test_every_listed_template_is_there(run: Run) -> None:
    found = json.loads(run("config", "template", "list", "--format", "json").output)["templates"]
    there = {file.name for file in (ROOT / "templates").iterdir()}

    others = {
        *("cachewatch.yaml.j2", "status.txt.j2", "check.txt.j2", "explain.txt.j2", "delivery.txt.j2", "demo.txt.j2"),
        *("once.txt.j2", "changes.md.j2", "causes.md.j2", "page.html.j2", "_page_tag.html.j2", "feed.xml.j2"),
    }
    assert {each["name"] for each in found} == there - others


_WRONG = ('line = "#FAB"\ncalm = "red; }"', 'bad = ["#fff"]', 'bad = ["#fff", "#ggg"]', 'bad = ["#fff", "#fff\\n"]')


@pytest.mark.parametrize(
    "text", ["nonsense = 1", "x", *map("[colors]\n{}".format, ("alarm = 3", "bad = [1]", *_WRONG))]
)
def test_a_wrong_theme_is_refused(tmp_path: Path, text: str) -> None:
    """With the name of the file and of the entry; a colour is of three or six digits."""
    (tmp_path / "theme.toml").write_text(text)
    said = r"\[colors\] \w+: is not written like ours" if text[9:] in _WRONG else ""
    with pytest.raises(TemplateError, match=rf"theme\.toml: {said}"):
        templates._environment(tmp_path)


def test_a_page_loads_no_picture_but_the_logo(tmp_path: Path) -> None:
    """Its policy names the logo, or nothing."""
    (tmp_path / "theme.toml").write_text('logo = "https://hpc.example.org/logo.png"')

    assert "img-src" not in render_digest(sample_digest()).page
    assert "img-src https://hpc.example.org/logo.png" in render_digest(sample_digest(), templates_dir=tmp_path).page
