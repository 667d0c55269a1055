"""Build caches in registries: a real one, and one that wants a token."""

import base64
import gzip
import hashlib
import itertools
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from caches import binaries, database, many
from conftest import Run
from helpers import spec_hash
from servers import Asked, Says, serving
from tools import program
from truths import Truth, expected, row

from cachewatch.errors import SourceError
from cachewatch.extensions.buildcaches.address import Registry, Validator
from cachewatch.extensions.buildcaches.index import read_index
from cachewatch.extensions.buildcaches.oci import Image
from cachewatch.extensions.buildcaches.opening import Cache
from cachewatch.extensions.buildcaches.recorder import Recorded, record
from cachewatch.http.client import RequestLimits

pytestmark = pytest.mark.usefixtures("loopback")

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = b"{}"

# The password is secret.
HTPASSWD = "reader:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"


@dataclass(frozen=True)
class RealRegistry:
    """A registry that runs."""

    host: str
    authorization: str = ""

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

    def push_index(self, image: str, tag: str, entries: list[tuple[str, list[bytes]]]) -> None:
        """Push an image index: images of these layers for these processors."""
        manifests = []
        for number, (architecture, layers) in enumerate(entries):
            pushed = self.push(image, f"part-{number}", layers)
            platform = {"os": architecture if architecture == "unknown" else "linux", "architecture": architecture}
            digest = f"sha256:{hashlib.sha256(pushed).hexdigest()}"
            manifests.append({"mediaType": MANIFEST, "digest": digest, "size": len(pushed), "platform": platform})
        content = json.dumps({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": manifests}).encode()
        self.ask("PUT", f"/v2/{image}/manifests/{tag}", content, IMAGE_INDEX)

    def _push_blob(self, image: str, data: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        location = self.ask("POST", f"/v2/{image}/blobs/uploads/")
        separator = "&" if "?" in location else "?"
        self.ask("PUT", f"{location}{separator}digest={digest}", data, "application/octet-stream")
        return {"digest": digest, "size": len(data)}

    def ask(self, method: str, path: str, data: bytes = b"", kind: str = "") -> str:
        """Ask the registry, and return where it says the answer is."""
        url = path if path.startswith("http") else f"http://{self.host}{path}"
        headers = {"Content-Type": kind} | ({"Authorization": self.authorization} if self.authorization else {})
        request = urllib.request.Request(url, data=data or None, method=method, headers=headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            return str(answer.headers.get("Location", ""))


@pytest.fixture(params=[False, True], ids=["open", "with passwords"])
def registry(request: pytest.FixtureRequest, tmp_path: Path, loopback: None) -> Iterator[RealRegistry]:
    """Debian's registry, open to everybody or to who knows the password."""
    registry = program("docker-registry")
    authorization = f"Basic {base64.b64encode(b'reader:secret').decode()}" if request.param else ""
    config = _config(tmp_path, has_passwords=request.param)
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([registry, "serve", config], stdout=log, stderr=log)
        try:
            found = RealRegistry(_port(tmp_path / "log", process), authorization)
            yield found
        finally:
            process.kill()
            process.wait()


def _config(folder: Path, *, has_passwords: bool) -> Path:
    settings: dict[str, object] = {
        "version": "0.1",
        "log": {"accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": "127.0.0.1:0"},
    }
    if has_passwords:
        (folder / "htpasswd").write_text(HTPASSWD)
        settings["auth"] = {"htpasswd": {"realm": "cache", "path": str(folder / "htpasswd")}}
    config = folder / "registry.yml"
    config.write_text(json.dumps(settings))  # which is YAML too
    return config


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
    if not registry.authorization:
        return Cache(address=f"oci+http://{registry.host}/site/cache")
    login = tmp_path / "login"
    login.write_text("reader:secret")
    login.chmod(0o600)
    return Cache(address=f"oci+http://{registry.host}/site/cache", login_file=login)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Where to record."""
    return tmp_path / "catalogue.git"


@pytest.fixture
def pushed(registry: RealRegistry, cache: Cache, buildcaches: Path, into: Path) -> Callable[[str], Recorded]:
    """Push a real state, and record it; the second look finds nothing new."""

    def push(state: str) -> Recorded:
        registry.push("site/cache", "index.spack", [index_of(buildcaches / "v3" / state)])
        done = record(cache, into)
        assert record(cache, into).tags == ()
        return done

    return push


@pytest.mark.slow_cases
@pytest.mark.parametrize("states", [("3-version-bump", "4-variant-flip", "5-spec-removed-still-referenced")])
def test_a_real_registry(
    pushed: Callable[[str], Recorded],
    truths: dict[tuple[str, str], Truth],
    into: Path,
    run: Run,
    states: tuple[str, ...],
) -> None:
    """State after state is pushed to a real registry, recorded from there, and is what TRUTH.md says."""
    seen: list[str | None] = []
    for state in states:
        seen.append(pushed(state).commit)
        result = run("diff", "HEAD~1", "HEAD", "--repo", into, "--format", "json") if len(seen) > 1 else None
        if result is not None:
            packages = json.loads(result.output)["changesets"][0]["packages"]
            truth = truths["v3", state]
            assert [s["hash"][:7] for p in packages for s in p["specs"]["added"]] == truth.added
            assert [s["hash"][:7] for p in packages for s in p["specs"]["removed"]] == truth.removed

    assert None not in seen


def index_of(mirror: Path) -> bytes:
    """Return the index of a mirror of layout 3."""
    manifest = json.loads((mirror / "v3/manifests/index/index.manifest.json").read_bytes())
    checksum = str(manifest["data"][0]["checksum"])
    return (mirror / "blobs/sha256" / checksum[:2] / checksum).read_bytes()


def test_a_layer_that_is_packed(registry: RealRegistry, cache: Cache, into: Path) -> None:
    """As its label says: Spack's own layers are plain in spite of it."""
    registry.push("site/cache", "index.spack", [gzip.compress(database(many(3)))])
    assert record(cache, into).tags[0].specs == 3
    assert record(cache, into).tags == ()
    registry.push("site/cache", "index.spack", [gzip.compress(database(many(3)))[:-20]])
    with pytest.raises(SourceError, match="is cut off"):
        record(cache, into)


@pytest.mark.slow_cases
def test_an_image_for_several_processors(registry: RealRegistry, cache: Cache, into: Path) -> None:
    """All of its indexes together are the cache; what only attests to them is passed over."""
    entries = [
        ("amd64", [database(many(3))]),
        ("arm64", [gzip.compress(database(many(4, start=2)))]),
        ("unknown", [b'{"predicateType": "provenance"}']),
    ]
    registry.push_index("site/cache", "index.spack", entries)
    done = record(cache, into)
    assert (done.tags[0].specs, done.diagnostics) == (6, ())
    assert record(cache, into).tags == ()
    registry.push_index("site/cache", "index.spack", entries[:1])
    assert record(cache, into, is_confirmed=True).tags[0].specs == 3
    registry.push_index("site/cache", "index.spack", entries[2:])
    with pytest.raises(SourceError, match="names no image"):
        record(cache, into)


def test_what_is_in_one_index_and_only_mentioned_in_another(registry: RealRegistry, cache: Cache, into: Path) -> None:
    """It is in the cache, whichever comes first."""
    mentioned = many(2)
    mentioned[spec_hash(0)]["in_buildcache"] = False
    for entries in itertools.permutations([("amd64", [database(many(1))]), ("arm64", [database(mentioned)])]):
        registry.push_index("site/cache", "index.spack", list(entries))
        shutil.rmtree(into, ignore_errors=True)
        assert record(cache, into).tags[0].specs == 2


def test_what_the_registry_lacks(registry: RealRegistry, cache: Cache, tmp_path: Path) -> None:
    """No image, or one that is no build cache, is said in words."""
    with pytest.raises(SourceError, match=r"has no tag index\.spack"):
        record(cache, tmp_path / "catalogue.git")
    registry.push("site/cache", "index.spack", [])
    with pytest.raises(SourceError, match="names no layer"):
        record(cache, tmp_path / "catalogue.git")
    if cache.login_file:
        cache.login_file.write_text("reader:wrong")
        with pytest.raises(SourceError, match="wants credentials"):
            record(cache, tmp_path / "catalogue.git")


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
def test_the_raw_answers_of_a_registry(
    buildcaches: Path, truths: dict[tuple[str, str], Truth], wants_token: bool
) -> None:
    """State 4, as Spack pushed it; with the anonymous token that public registries want, or without."""
    answers = replay(buildcaches / "v3" / "oci")
    base: list[str] = []
    with serving(with_token(answers, lambda: f"{base[0]}/token") if wants_token else answers) as server:
        base.append(server.url)
        image = Image(Registry(server.url, "site/cache"), {})
        file = image.fetch_index(Validator())
        assert file is not None
        assert image.fetch_index(file.fresh) is None
        asked = len(server.asked)
        image.close()

    index = read_index(file.content, "index")
    assert {b.hash: row(b) for b in binaries(index)} == {
        spec_hash: values
        for spec_hash, values in expected(truths["v3", "4-variant-flip"]).items()
        if spec_hash in {b.hash for b in binaries(index)}
    }
    assert len(binaries(index)) == 9
    assert asked == (5 if wants_token else 3)
    token = [asked.path for asked in server.asked if asked.path.startswith("/token")]
    assert token == (["/token?service=registry&scope=repository%3Asite%2Fcache%3Apull"] if wants_token else [])


def test_a_login_does_not_go_to_others_in_the_clear(buildcaches: Path) -> None:
    """A registry that sends us elsewhere for a token, without TLS, does not get the password there."""
    answers = replay(buildcaches / "v3" / "oci")
    token = {"/token": Says(body=b'{"access_token": "abc123"}')}
    with serving(token) as other, serving(with_token(answers, lambda: f"{other.url}/token")) as server:
        image = Image(Registry(server.url, "site/cache"), {"Authorization": "Basic c2VjcmV0"})
        assert image.fetch_index(Validator()) is not None
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
        Says(body=b'{"manifests": [{"digest": "../x"}]}'),
        Says(body=json.dumps({"manifests": [{"digest": f"sha256:{'0' * 64}"}]}).encode()),
        Says(body=json.dumps({"manifests": [{"digest": f"sha256:{n:064}"} for n in range(100)]}).encode()),
    ],
)
def test_registries_that_do_not_work(answer: Says) -> None:
    """Whatever they answer, it is a source that cannot be read."""
    answers = {"/v2/a/b/manifests/index.spack": answer, "/token": Says(body=b'{"token": "a\\nb"}')}
    with serving(answers) as server:
        image = Image(Registry(server.url, "a/b"), {}, RequestLimits(pause=0.01, attempts=2))
        with pytest.raises(SourceError):
            image.fetch_index(Validator())
        image.close()


def test_an_image_index_that_names_itself_ends() -> None:
    """However often it leads to another one."""
    content = json.dumps({"manifests": [{"digest": f"sha256:{'0' * 64}"}]}).encode()
    with serving(lambda asked: Says(body=content)) as server:
        image = Image(Registry(server.url, "a/b"), {})
        with pytest.raises(SourceError, match="damaged or cut off"):
            image.fetch_index(Validator())
        image.close()
        assert len(server.asked) < 10


def test_images_that_name_the_same_ones_again_are_asked_for_once() -> None:
    """Three manifests that name each other 64 times would be a quarter of a million requests."""
    contents = [json.dumps({"layers": [{"digest": f"sha256:{'0' * 64}"}]}).encode()]
    for _ in range(3):
        digest = f"sha256:{hashlib.sha256(contents[-1]).hexdigest()}"
        contents.append(json.dumps({"manifests": [{"digest": digest}] * 64}).encode())
    by_path = {f"/v2/a/b/manifests/sha256:{hashlib.sha256(each).hexdigest()}": each for each in contents}
    answers = {path: Says(body=content) for path, content in by_path.items()}
    with serving({**answers, "/v2/a/b/manifests/index.spack": Says(body=contents[-1])}) as server:
        image = Image(Registry(server.url, "a/b"), {})
        with pytest.raises(SourceError, match=r"the layer of index\.spack is not there"):
            image.fetch_index(Validator())
        image.close()
        assert len(server.asked) == 5  # four manifests and the layer


def test_images_are_counted_together() -> None:
    """However many manifests name them."""

    def index(contents: Iterable[bytes]) -> bytes:
        return json.dumps({"manifests": [{"digest": f"sha256:{digest(each)}"} for each in contents]}).encode()

    def digest(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    images = [json.dumps({"layers": [{"digest": f"sha256:{n:064}"}]}).encode() for n in range(90)]
    parts = [index(images[first : first + 30]) for first in range(0, 90, 30)]
    answers = {f"/v2/a/b/manifests/sha256:{digest(each)}": Says(body=each) for each in (*images, *parts)}
    with serving({**answers, "/v2/a/b/manifests/index.spack": Says(body=index(parts))}) as server:
        image = Image(Registry(server.url, "a/b"), {})
        with pytest.raises(SourceError, match="names more than 64 images"):
            image.fetch_index(Validator())
        image.close()


def test_another_blob_than_the_one_asked_for() -> None:
    """Is noticed by its sha256."""
    layer = {"layers": [{"digest": f"sha256:{'0' * 64}"}]}
    answers = {
        "/v2/a/b/manifests/index.spack": Says(body=json.dumps(layer).encode()),
        f"/v2/a/b/blobs/sha256:{'0' * 64}": Says(body=database(many(1))),
    }
    with serving(answers) as server:
        image = Image(Registry(server.url, "a/b"), {})
        with pytest.raises(SourceError, match="damaged or cut off"):
            image.fetch_index(Validator())
        image.close()
