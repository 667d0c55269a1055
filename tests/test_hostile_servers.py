"""Servers that want what is not theirs: credentials of another server, or all of our memory."""

import base64
import json
from pathlib import Path

import pytest
import trustme
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
