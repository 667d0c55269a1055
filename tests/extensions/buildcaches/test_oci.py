"""Build caches in registries: a real one, and one that wants a token."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from caches import binaries, database, many
from conftest import Run
from helpers import secret
from servers import Asked, Says, serving
from tools import program
from truths import Truth, expected, row
from truths import read_index as read_state

from cachewatch.errors import SourceError
from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache, read_index
from cachewatch.extensions.buildcaches.mirrors_and_registries import LIMITS, Image, Registry, Validator, fetch_index
from cachewatch.extensions.buildcaches.recording_and_suspicion import Recorded, record
from cachewatch.http.client import RequestLimits

pytestmark = pytest.mark.usefixtures("loopback")

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = b"{}"

# The password is secret.
HTPASSWD = "reader:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"


@dataclass(frozen=True)
class RealRegistry:
    """A registry that runs."""

    host: str
    authorization: str

    def push(self, image: str, tag: str, layers: list[bytes]) -> bytes:
        """Push an image of these layers, as Spack does; return its manifest."""
        blobs = [self._push_blob(image, data) for data in (CONFIG, *layers)]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **blobs[0]},
            "layers": [{"mediaType": LAYER, **blob} for blob in blobs[1:]],
        }
        content = json.dumps(manifest).encode()
        self.ask("PUT", f"/v2/{image}/manifests/{tag}", content, MANIFEST)
        return content

    def _push_blob(self, image: str, data: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        location = self.ask("POST", f"/v2/{image}/blobs/uploads/")
        separator = "&" if "?" in location else "?"
        self.ask("PUT", f"{location}{separator}digest={digest}", data, "application/octet-stream")
        return {"digest": digest, "size": len(data)}

    def ask(self, method: str, path: str, data: bytes = b"", kind: str = "") -> str:
        """Ask the registry, and return where it says the answer is."""
        url = path if path.startswith("http") else f"http://{self.host}{path}"
        headers = {"Content-Type": kind, "Authorization": self.authorization}
        request = urllib.request.Request(url, data=data or None, method=method, headers=headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            return str(answer.headers.get("Location", ""))


@pytest.fixture
def registry(tmp_path: Path, loopback: None) -> Iterator[RealRegistry]:
    """Debian's registry, open to who knows the password."""
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    login = {"htpasswd": {"realm": "cache", "path": str(tmp_path / "htpasswd")}}
    storage = {"filesystem": {"rootdirectory": str(tmp_path / "storage")}}
    settings = {"version": "0.1", "log": {"accesslog": {"disabled": True}}, "storage": storage}
    settings |= {"http": {"addr": "127.0.0.1:0"}, "auth": login}
    config = tmp_path / "registry.yml"
    config.write_text(json.dumps(settings))  # which is YAML too
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([program("docker-registry"), "serve", config], stdout=log, stderr=log)
        try:
            authorization = f"Basic {base64.b64encode(b'reader:secret').decode()}"
            yield RealRegistry(_port(tmp_path / "log", process), authorization)
        finally:
            process.kill()
            process.wait()


def _port(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Return host and port that a registry says it listens on."""
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        if match := re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text()):
            return match[1]
        time.sleep(0.02)
    raise AssertionError(log.read_text())


@pytest.fixture
def cache(registry: RealRegistry, tmp_path: Path) -> Cache:
    """The address of an image, with the login that the registry wants."""
    login = secret(tmp_path / "login", "reader:secret")
    return Cache(address=f"oci+http://{registry.host}/site/cache", login_file=login)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "catalogue.git"


@pytest.fixture
def pushed(registry: RealRegistry, cache: Cache, buildcaches: Path, into: Path) -> Callable[[str], Recorded]:
    """Push a real state, and record it; the second look finds nothing new."""

    def push(state: str) -> Recorded:
        registry.push("site/cache", "index.spack", [json.dumps(read_state(buildcaches / "v3" / state)).encode()])
        done = record(cache, into)
        assert record(cache, into).tags == ()
        return done

    return push


def test_a_real_registry(
    pushed: Callable[[str], Recorded], truths: dict[tuple[str, str], Truth], into: Path, run: Run
) -> None:
    """State after state is pushed to a real registry, recorded from there, and is what TRUTH.md says."""
    seen: list[str | None] = []
    for state in ("3-version-bump", "4-variant-flip", "5-spec-removed-still-referenced"):
        seen.append(pushed(state).commit)
        result = run("diff", "HEAD~1", "HEAD", "--repo", into, "--format", "json") if len(seen) > 1 else None
        if result is not None:
            packages = json.loads(result.output)["changesets"][0]["packages"]
            truth = truths["v3", state]
            assert [s["hash"][:7] for p in packages for s in p["specs"]["added"]] == truth.added
            assert [s["hash"][:7] for p in packages for s in p["specs"]["removed"]] == truth.removed

    assert None not in seen


def test_what_an_image_may_be(registry: RealRegistry, cache: Cache, into: Path) -> None:
    with pytest.raises(SourceError, match=r"has no tag index\.spack"):
        record(cache, into)
    registry.push("site/cache", "index.spack", [])
    with pytest.raises(SourceError, match="names no layer"):
        record(cache, into)
    registry.push("site/cache", "index.spack", [gzip.compress(database(many(3)))])
    assert record(cache, into).tags[0].specs == 3
    assert record(cache, into).tags == ()
    registry.push("site/cache", "index.spack", [gzip.compress(database(many(3)))[:-20]])
    with pytest.raises(SourceError, match="is cut off"):
        record(cache, into)
    assert cache.login_file is not None
    cache.login_file.write_text("reader:wrong")
    with pytest.raises(SourceError, match="wants credentials"):
        record(cache, into)


def replay(folder: Path) -> Callable[[Asked], Says]:
    """Answer as the registry did whose raw answers are in `folder`."""

    def answer(asked: Asked) -> Says:
        kind, _, name = asked.path.removeprefix("/v2/site/cache/").partition("/")
        file = folder / kind / (f"{name}.json" if kind == "manifests" else name.replace(":", "-"))
        if not file.is_file():
            return Says(404, (folder / "index-missing.json").read_bytes())
        data = file.read_bytes()
        etag = f'"sha256:{hashlib.sha256(data).hexdigest()}"'
        if asked.headers.get("if-none-match") == etag:
            return Says(304, headers={"ETag": etag})
        return Says(200, data, {"ETag": etag, "Content-Type": MANIFEST})

    return answer


def with_token(answer: Callable[[Asked], Says], realm: Callable[[], str]) -> Callable[[Asked], Says]:
    """Answer nobody without the token that the realm gives."""

    def guarded(asked: Asked) -> Says:
        if asked.path.startswith("/token"):
            return Says(body=b'{"token": "abc123"}')
        if asked.headers.get("authorization") != "Bearer abc123":
            challenge = f'Bearer realm="{realm()}",service="registry",scope="repository:site/cache:pull"'
            return Says(401, headers={"WWW-Authenticate": challenge})
        return answer(asked)

    return guarded


@pytest.mark.parametrize("wants_token", [False, True])
def test_raw_answers_of_a_registry(buildcaches: Path, truths: dict[tuple[str, str], Truth], wants_token: bool) -> None:
    """State 4, as Spack pushed it; with the anonymous token that public registries want, or without."""
    answers = replay(buildcaches / "v3" / "oci")
    base: list[str] = []
    with serving(with_token(answers, lambda: f"{base[0]}/token") if wants_token else answers) as server:
        base.append(server.url)
        image = Image(Registry(server.url, "site/cache"), {}, LIMITS)
        file = fetch_index(image, Validator())
        assert file is not None
        assert fetch_index(image, file.fresh) is None
        asked = len(server.asked)
        image.close()

    index = read_index(file.content, "index")
    found = {b.hash: row(b) for b in binaries(index)}
    truth = expected(truths["v3", "4-variant-flip"])
    assert found == {spec_hash: values for spec_hash, values in truth.items() if spec_hash in found}
    assert len(binaries(index)) == 9
    assert asked == (5 if wants_token else 3)
    token = [asked.path for asked in server.asked if asked.path.startswith("/token")]
    assert token == (["/token?service=registry&scope=repository%3Asite%2Fcache%3Apull"] if wants_token else [])


def test_a_login_does_not_go_to_others_in_the_clear(buildcaches: Path) -> None:
    """A registry that sends us elsewhere for a token, without TLS, does not get the password there."""
    answers = replay(buildcaches / "v3" / "oci")
    token = {"/token": Says(body=b'{"access_token": "abc123"}')}
    with serving(token) as other, serving(with_token(answers, lambda: f"{other.url}/token")) as server:
        image = Image(Registry(server.url, "site/cache"), {"Authorization": "Basic c2VjcmV0"}, LIMITS)
        assert fetch_index(image, Validator()) is not None
        image.close()

    assert ["authorization" in asked.headers for asked in other.asked] == [False]
    assert server.asked[0].headers["authorization"] == "Basic c2VjcmV0"


@pytest.mark.parametrize(
    "answer",
    [
        Says(401),
        Says(401, headers={"WWW-Authenticate": 'Basic realm="x"'}),
        Says(401, headers={"WWW-Authenticate": 'Bearer realm="/token"'}),
        Says(500),
        Says(body=b"<html>"),
        Says(body=b'{"layers": [{"digest": "md5:abc"}]}'),
        Says(body=json.dumps({"layers": [{"digest": f"sha256:{'0' * 64}"}]}).encode()),
        Says(body=b'{"manifests": []}'),
    ],
)
@pytest.mark.parametrize("token", [b'{"token": "a\\nb"}', b'{"token": "\xff"}'])
def test_registries_that_do_not_work(answer: Says, token: bytes) -> None:
    with serving({"/v2/a/b/manifests/index.spack": answer, "/token": Says(body=token)}) as server:
        image = Image(Registry(server.url, "a/b"), {}, RequestLimits(pause=0.01, attempts=2))
        with pytest.raises(SourceError):
            fetch_index(image, Validator())
        image.close()
