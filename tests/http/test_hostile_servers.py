"""Servers that want what is not theirs: credentials of another server, or all of our memory."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme
from conftest import Run
from helpers import lock, secret
from servers import Asked, Says, over_tls, serving

from cachewatch.errors import HttpError, SourceError
from cachewatch.extensions.buildcaches.mirrors_and_registries import Image, Registry, Validator, fetch_index
from cachewatch.http import allowed_addresses
from cachewatch.http.allowed_addresses import basic
from cachewatch.http.client import Client, RequestLimits

pytestmark = pytest.mark.usefixtures("loopback")

QUICK = RequestLimits(pause=0.01, silence=2.0, seconds=10.0)
LOGIN = "reader:geheim"


@pytest.fixture
def login(tmp_path: Path) -> Path:
    return secret(tmp_path / "login", LOGIN)


def test_only_the_server_asked_may_challenge(login: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
            fetch_index(image, Validator())
        image.close()

    assert other.url in str(caught.value)
    assert all("authorization" not in asked.headers for asked in other.asked)
    assert not realm.asked
    assert ours.asked[0].headers["authorization"] == f"Basic {base64.b64encode(LOGIN.encode()).decode()}"


@pytest.mark.parametrize(
    ("option", "address"),
    [("--token-file", "http://10.0.0.7/site"), ("--login-file", "oci+http://registry.example.org/site")],
)
def test_no_credentials_in_the_clear(option: str, address: str, login: Path, tmp_path: Path, run: Run) -> None:
    """Nothing is asked of a server where everybody on the way could read the token."""
    file = lock(tmp_path / "spack.lock")
    for command in (("record", address, "--into", tmp_path / "site.git"), ("coverage", file, "--source", address)):
        assert "everybody on the way could read the token or login" in run(*command, option, login).error_of(2)


def test_no_credentials_in_the_clear_by_configuration(login: Path, tmp_path: Path, run: Run) -> None:
    """Said when the configuration is read; on this machine, and for a folder, there is no way to listen on."""
    config = tmp_path / "cachewatch.yaml"
    served = "cache.example.org"
    for url, code in ((f"http://{served}", 2), (f"https://{served}", 0), ("http://[::1]:8000", 0), ("x", 0)):
        source = f"{{type: buildcache, url: '{url}', credentials: {{login_file: login}}}}"
        config.write_text(f"version: 1\nstate: state\nsources: {{a: {source}}}\n")
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
    output = run("config", "show", "--config", config).output_of(0)

    assert "geheim" not in output
    assert 'helper: "***"' in output
    assert "https://***@example.org/x.git?***" in output


BOMB = gzip.compress(bytes(64 * 2**20))
V3 = "v3/manifests/index/index.manifest.json"


def _blob(content: bytes, compression: str) -> dict[str, bytes]:
    """Return the files of a mirror of layout 3 whose index is `content`."""
    checksum = hashlib.sha256(content).hexdigest()
    entry = {"checksum": checksum, "mediaType": "application/vnd.spack.db.v8+json", "compression": compression}
    return {f"/{V3}": json.dumps({"data": [entry]}).encode(), f"/blobs/sha256/{checksum[:2]}/{checksum}": content}


def _image(content: bytes) -> dict[str, bytes]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {
        "/v2/site/manifests/index.spack": json.dumps({"layers": [{"digest": digest}]}).encode(),
        f"/v2/site/blobs/{digest}": content,
    }


def _serve(answers: dict[str, bytes], packed: str = "") -> dict[str, Says]:
    headers = {"Content-Encoding": "gzip"}
    return {path: Says(body=body, headers=headers if path == packed else {}) for path, body in answers.items()}


@pytest.mark.parametrize(
    ("scheme", "path", "answers"),
    [
        ("http", "", _serve(_blob(BOMB, "gzip"))),
        ("http", "", _serve({"/build_cache/index.json": BOMB}, "/build_cache/index.json")),
        ("oci+http", "/site", _serve(_image(BOMB))),
    ],
    ids=["a blob", "an answer", "a layer"],
)
def test_a_bomb_is_not_unpacked(scheme: str, path: str, answers: dict[str, Says], tmp_path: Path, run: Run) -> None:
    """Zeros unpack to a thousand times their size, which no index does; it is not asked for twice."""
    with serving(answers) as server:
        result = run("record", f"{scheme}://{server.url.partition('://')[2]}{path}", "--into", tmp_path / "site.git")

    assert result.exit_code == 3
    assert "unpacks to more than 200 times its size" in result.error
    assert len(server.paths) == len(set(server.paths))


@pytest.mark.parametrize(
    ("scheme", "path", "answers"),
    [
        ("http", "", lambda index: _serve(_blob(gzip.compress(index), "gzip"))),
        ("http", "", lambda index: _serve(_blob(index, "none"))),
        ("http", "", lambda index: _serve({"/build_cache/index.json": index})),
        ("http", "", lambda text: _serve({"/build_cache/index.json": gzip.compress(text)}, "/build_cache/index.json")),
        ("oci+http", "/site", lambda index: _serve(_image(index))),
        ("oci+http", "/site", lambda index: _serve(_image(gzip.compress(index)))),
    ],
    ids=["a packed blob", "a blob", "a file", "a packed answer", "a layer", "a packed layer"],
)
def test_an_index_has_a_size(
    scheme: str, path: str, answers: Callable[[bytes], dict[str, Says]], tmp_path: Path, run: Run
) -> None:
    """Above `max_index` it is refused by that name, at it it is read; packed or not, wherever it lies."""
    index = json.dumps({"database": {"version": "8", "installs": {}}}).encode() + b" " * 1000
    with serving(answers(index)) as server:
        address = f"{scheme}://{server.url.partition('://')[2]}{path}"
        into = tmp_path / "site.git"
        too_large = run("record", address, "--into", into, "--max-index", len(index) - 1)
        right = run("record", address, "--into", into, "--force", "--max-index", len(index))

    assert too_large.exit_code == 3
    assert f"more than {len(index) - 1:,} bytes" in too_large.error
    assert f"if that is right, raise `max_index`, which is {len(index) - 1:,} bytes" in too_large.error
    assert right.exit_code == 0, right.error


def test_an_index_in_a_folder_has_a_size(tmp_path: Path, run: Run) -> None:
    (tmp_path / "cache" / "build_cache").mkdir(parents=True)
    (tmp_path / "cache" / "build_cache" / "index.json").write_bytes(b"x" * 2000)
    config = tmp_path / "cachewatch.yaml"
    config.write_text("version: 1\nstate: state\nsources: {a: {type: buildcache, url: cache, max_index: 1kB}}\n")
    assert "more than 1,000 bytes; if that is right, raise `max_index`" in run("once", "--config", config).error
    config.write_text("version: 1\nstate: state\nsources: {a: {git: x, max_index: 1kB}}\n")
    assert "sources.a.max_index: there is no such key" in run("config", "check", "--config", config).error


PUBLIC = "93.184.215.14"


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a server of this machine count as one of the internet."""
    known: dict[int, list[str]] = {}
    real = allowed_addresses.resolve

    async def resolve(host: str, port: int) -> list[allowed_addresses.Address]:
        if host == "rebound.example.org":
            return [ip_address(PUBLIC), ip_address("10.0.0.1")]
        return [ip_address(found) for found in known[port]] if port in known else await real(host, port)

    monkeypatch.setattr(allowed_addresses, "resolve", resolve)
    peer = allowed_addresses.peer

    def known_peer(stream: Any) -> allowed_addresses.Address:
        found = known.get(stream.get_extra_info("server_addr")[1])
        return ip_address(found[0]) if found else peer(stream)

    monkeypatch.setattr(allowed_addresses, "peer", known_peer)
    return lambda url: known.update({int(url.rpartition(":")[2]): [PUBLIC]})


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:1/x",
        "http://0x7f.1:1/x",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/x",
        "http://[fd00:ec2::254]/x",
        "http://[64:ff9b::10.0.0.1]/x",
        "http://[2002:7f00:1::]/x",
        "http://10.0.0.1/x",
        "http://0.0.0.0/x",
        "http://rebound.example.org/x",
    ],
)
def test_the_internet_leads_nobody_into_a_private_network(target: str, internet: Callable[[str], None]) -> None:
    """Whatever the address is called: the request is not sent."""
    with serving({"/a": Says(302, headers={"Location": target})}) as server, closing(Client(QUICK)) as client:
        internet(server.url)
        with pytest.raises(HttpError, match=r"leads from the internet to .*, which is in a private network"):
            client.get(f"{server.url}/a")
    assert len(server.asked) == 1


def test_metadata_services_of_clouds_are_not_public() -> None:
    """Nor are networks that Python takes for the internet, nor any other network that is not everybody's."""
    clouds = ("100.100.100.200", "168.63.129.16", "192.0.0.192", "64:ff9b:1::a00:1", "fec0::1", "fd00:ec2::254")
    for address in (*clouds, "127.0.0.1", "::1", "100.64.0.1", "fe80::1"):
        assert not allowed_addresses.is_public(ip_address(address)), address


def test_the_connected_address_counts(internet: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may stand for one of the internet while it is looked up, and for one of this machine a moment later."""
    with (
        serving({"/b": Says(body=b"inside")}) as inside,
        serving({"/a": Says(302, headers={"Location": f"{inside.url}/b"})}) as server,
        closing(Client(QUICK)) as client,
    ):
        internet(server.url)
        internet(inside.url)
        monkeypatch.setattr(allowed_addresses, "peer", lambda _: ip_address("127.0.0.1"))
        with pytest.raises(HttpError, match=r"leads from the internet to .*, which is in a private network"):
            client.get(f"{server.url}/a")
    assert inside.asked == []


def test_a_private_cache_may_lead_to_another_one(internet: Callable[[str], None]) -> None:
    """As registries do whose blobs lie elsewhere; and the internet to the internet."""
    with (
        serving({"/b": Says(body=b"there")}) as other,
        serving({"/a": Says(302, headers={"Location": f"{other.url}/b"})}) as server,
        closing(Client(QUICK)) as client,
    ):
        assert client.get(f"{server.url}/a").body == b"there"
        internet(server.url)
        with pytest.raises(HttpError, match="private network"):
            client.get(f"{server.url}/a")
        internet(other.url)
        assert client.get(f"{server.url}/a").body == b"there"
    assert len(other.asked) == 2


def test_a_realm_is_not_in_a_private_network(internet: Callable[[str], None]) -> None:
    """A registry of the internet may not have a token fetched there either."""
    with serving({"/token": Says(body=b'{"token": "t"}')}) as inside:
        challenge = {"WWW-Authenticate": f'Bearer realm="{inside.url}/token",service="s"'}
        with serving(lambda _: Says(401, headers=challenge)) as registry:
            internet(registry.url)
            image = Image(Registry(registry.url, "site"), {}, QUICK)
            with pytest.raises(SourceError, match="leads from the internet"):
                fetch_index(image, Validator())
            image.close()
    assert not inside.asked
