"""Servers that want what is not theirs: credentials of another server, or all of our memory."""

import base64
import json
from pathlib import Path

import pytest
import trustme
from conftest import Run
from servers import Asked, Says, serving
from test_http import over_tls

from cachewatch.errors import SourceError
from cachewatch.http import Limits, basic
from cachewatch.sources.buildcache import Fresh
from cachewatch.sources.buildcache.address import Registry
from cachewatch.sources.buildcache.oci import Image

pytestmark = pytest.mark.usefixtures("loopback")

QUICK = Limits(pause=0.01, silence=2.0, seconds=10.0)
LOGIN = "reader:geheim"


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """A file with a user and a password."""
    file = tmp_path / "login"
    file.write_text(LOGIN)
    file.chmod(0o600)
    return file


def test_a_challenge_counts_only_from_the_server_that_was_asked(
    login: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our registry redirects to another server, which names a realm of its own: it gets no password, and no question."""

    def thief(asked: Asked) -> Says:
        realm = f'Bearer realm="{realm_url}/token",service="s",scope="repository:site:pull"'
        return Says(401, b"{}", {"WWW-Authenticate": realm})

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with (
        serving({"/token": Says(body=json.dumps({"token": "t"}).encode())}) as realm,
        serving(thief) as other,
        serving(lambda asked: Says(307, headers={"Location": f"{other.url}{asked.path}"})) as ours,
    ):
        realm_url = over_tls(realm, authority)  # in the clear, a login goes to no other server anyway
        image = Image(Registry(ours.url, "site"), basic(login), QUICK)
        with pytest.raises(SourceError, match="only the server that was asked may ask for a login") as caught:
            image.fetch_index(Fresh())
        image.close()

    assert other.url in str(caught.value)
    assert all("authorization" not in asked.headers for asked in other.asked)
    assert not realm.asked
    assert ours.asked[0].headers["authorization"] == f"Basic {base64.b64encode(LOGIN.encode()).decode()}"


@pytest.mark.parametrize(
    "address", ["http://cache.example.org/site", "oci+http://registry.example.org/site", "http://10.0.0.7"]
)
@pytest.mark.parametrize("option", ["--token-file", "--login-file"])
def test_no_credentials_in_the_clear(option: str, address: str, login: Path, tmp_path: Path, run: Run) -> None:
    """Nothing is asked of a server where everybody on the way could read the token."""
    lock = tmp_path / "spack.lock"
    lock.write_text('{"_meta": {"lockfile-version": 6}, "roots": [], "concrete_specs": {}}')
    for result in (
        run("record", address, "--into", tmp_path / "site.git", option, login),
        run("coverage", lock, "--source", address, option, login),
    ):
        assert result.exit_code == 2
        assert "everybody on the way could read the token or login" in result.error


def test_no_credentials_in_the_clear_by_configuration(login: Path, tmp_path: Path, run: Run) -> None:
    """Said when the configuration is read; on this machine, and for a folder, there is no way to listen on."""
    config = tmp_path / "cachewatch.yaml"
    for url, code in (
        ("http://cache.example.org", 2),
        ("https://cache.example.org", 0),
        ("http://[::1]:8000", 0),
        ("x", 0),
    ):
        config.write_text(
            f"version: 1\nstate: state\nsources: {{a: {{type: buildcache, url: '{url}', credentials: {{login_file: login}}}}}}\n"
        )
        result = run("config", "check", "--config", config)
        assert result.exit_code == code, result.error
        assert ("everybody on the way" in result.error) == (code == 2)


def test_a_helper_and_a_token_in_an_address_are_not_shown(tmp_path: Path, run: Run) -> None:
    """A helper may be a command with a password among its arguments."""
    config = tmp_path / "cachewatch.yaml"
    config.write_text(
        "version: 1\nstate: state\nsources:\n"
        '  a: {git: "https://ghp_geheim@example.org/x.git?key=geheim", credentials: {helper: "!echo password=geheim"}}\n'
    )
    result = run("config", "show", "--config", config)

    assert result.exit_code == 0
    assert "geheim" not in result.output
    assert 'helper: "***"' in result.output
    assert "https://***@example.org/x.git?***" in result.output
