"""Weeks in which one thing happened to 239 packages in 14 stacks, as real repositories; tests/golden/weeks has their digests."""

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from helpers import Packages, Record, catalogue, record, without
from weeks import _PACKAGES, _digest, _repository

from cachewatch.report.digest_and_message_values import Digest

Week = tuple[Mapping[str, bytes], Mapping[str, bytes]]

END = datetime(2026, 11, 8, 4, tzinfo=UTC)
STACKS = {
    "e4s": "x86_64_v3",
    "e4s-cray": "x86_64_v4",
    "e4s-oneapi": "x86_64_v3",
    "e4s-neoverse_v1": "neoverse_v1",
    "radiuss": "x86_64_v3",
    "radiuss-aws": "zen4",
    "data-vis-sdk": "x86_64_v3",
    "hep": "x86_64_v3",
    "developer-tools": "x86_64_v3",
    "ml-linux-x86_64-cpu": "x86_64_v3",
    "ml-linux-x86_64-cuda": "x86_64_v3",
    "ml-linux-x86_64-rocm": "x86_64_v3",
    "ml-linux-aarch64-cpu": "aarch64",
    "ml-darwin-aarch64-mps": "m1",
}
_ML = """
    absl accelerate aiohttp astropy beautifulsoup bokeh certifi cffi click cryptography cython dask einops fastapi filelock flax
    fsspec gpytorch grpcio huggingface-hub jinja jsonschema jupyterlab keras keras-applications lightning matplotlib ml-dtypes
    mypy networkx numba onnx optax orbax packaging pandas pillow pip pluggy polars protobuf psutil pyarrow pydantic pytest
    pyyaml ray requests rich safetensors scikit-image scikit-learn seaborn sentencepiece setuptools shapely six sphinx statsmodels
    sympy tensorboard tensorflow tokenizers toolz tornado tqdm transformers triton typing-extensions urllib wandb wheel xarray
    xgboost yarl zarr zipp build hatchling mpmath nltk openai opencv peft pooch spacy timm torchvision torchaudio tblib vllm
    werkzeug xlrd yapf
""".split()  # noqa: SIM905
NAMES = sorted({*_PACKAGES, *(f"py-{name}" for name in _ML)})[:239]


def packages(compiler: str = "gcc@11.4.0") -> Packages:
    """Return the catalogue as it is before each week: a spec for each package and stack."""
    chance, number, made = random.Random(7), 0, dict[str, list[Record]]()
    for place, name in enumerate(NAMES):
        own = [s for s in STACKS if s.startswith("ml-") == name.startswith("py-")]
        stacks = sorted(chance.sample(own, chance.randint(2, min(5, len(own)))))
        version = f"{1 + place % 5}.{place % 9}.{place % 4}"
        made[name] = []
        for stack in stacks:
            number += 1
            values = {"versions": [version], "compiler": compiler, "target": STACKS[stack]}
            made[name].append(record(number, stacks=[stack, "root"], **values))
    return made


def again(found: list[Record], salt: str = "b", **values: object) -> list[Record]:
    """Return the same specs with other hashes, and with these values."""
    return [r | {"hash": str(r["hash"])[:-1] + salt} | values for r in found]


def state(found: Packages, *declared: str) -> dict[str, bytes]:
    """Return the files of a catalogue, with the list of stacks if they are declared."""
    files = dict(catalogue(found))
    if declared:
        stacks = "".join(f"\n  - {stack}" for stack in (*declared, "root"))
        files["_data/tags.yaml"] = f"- name: develop\n  stacks:{stacks}\n".encode()
    return files


def quiet() -> Week:
    """Four packages were rebuilt."""
    before = packages()
    return state(before), state(before | {name: again(before[name]) for name in ("hdf5", "zlib", "petsc", "py-torch")})


def all_rebuilt() -> Week:
    """Everything was rebuilt in place of the old builds."""
    before = packages()
    return state(before), state({name: again(found) for name, found in before.items()})


def rebuilt_beside() -> Week:
    """Everything was rebuilt, and the old builds stay in no stack."""
    before = packages()
    return state(before), state({name: [*_unreferenced(found), *again(found)] for name, found in before.items()})


def prune_after() -> Week:
    """The old builds of the week before were pruned."""
    _, before = rebuilt_beside()
    return before, state({name: again(found) for name, found in packages().items()})


def upgrades() -> Week:
    """Six packages were upgraded, one of them not everywhere."""
    before = packages()
    after = {name: again(found) for name, found in before.items() if name < "d"}
    for name, version in (("py-tensorflow", "9.20.0"), ("py-keras", "9.9.2"), ("openmpi", "9.0.8"), ("hdf5", "9.1.1")):
        after[name] = again(before[name], versions=[version])
    after["openblas"] = [*before["openblas"][:-1], *again(before["openblas"][-1:], versions=["9.3.30"])]
    after["py-numpy"] = again(before["py-numpy"], versions=["9.2.0"])
    return state(before), state(before | after)


def package_gone() -> Week:
    """py-tensorflow was removed, and a few packages were rebuilt."""
    before = packages()
    after = before | {name: again(before[name]) for name in ("zlib", "curl", "py-keras")}
    return state(before), state({name: found for name, found in after.items() if name != "py-tensorflow"})


def stack_lost(*, is_declared: bool) -> Week:
    """The stack ml-linux-x86_64-rocm disappeared; its binaries are kept, but no stack builds them."""
    lost, before = "ml-linux-x86_64-rocm", packages()
    kept = tuple(stack for stack in STACKS if stack != lost)
    after = state(without(before, lost), *(kept if is_declared else ()))
    return state(before, *(STACKS if is_declared else ())), after


def migration() -> Week:
    """Gcc 13.3.0 replaced gcc 11.4.0 in 184 packages; 52 documents did not change, and three packages keep it."""
    before = packages()
    after = dict(before)
    for name in [name for name in NAMES if name not in ("hdf5", "cuda", "openmpi")][:184]:
        after[name] = again(before[name], compiler="gcc@13.3.0")
    for name in NAMES:
        if after[name] is before[name] and name not in ("hdf5", "cuda", "openmpi"):
            before[name] = after[name] = [r | {"compiler": "llvm@19.1.0"} for r in before[name]]
    after["openmpi"] = again(before["openmpi"], versions=["9.0.8"])
    return state(before), state(after)


def prune() -> Week:
    """A routine prune took surplus copies, and two packages of one stack with them."""
    after = packages()
    before = {
        name: [*found, *_unreferenced(again(found, "c")), *_unreferenced(again(found, "d"))]
        for name, found in after.items()
    }
    for name in ("kokkos", "raja"):
        after[name] = [r for r in after[name] if r is not after[name][0]]
    return state(before), state(after)


def new_snapshot() -> Week:
    """A new snapshot came: against the one before it, two packages were upgraded and one is missing."""
    before = packages()
    after = {name: again(found) for name, found in before.items() if name != "zfp"}
    for name in ("hdf5", "petsc"):
        after[name] = again(before[name], versions=["9.9.0"])
    older = catalogue(before, "develop-2026-11-01")
    return older, {**older, **catalogue(after, "develop-2026-11-08")}


def _unreferenced(found: list[Record]) -> list[Record]:
    return [r | {"stacks": ["root"]} for r in found]


WEEKS: Mapping[str, Callable[[], Week]] = {
    "quiet": quiet,
    "all-rebuilt": all_rebuilt,
    "rebuilt-beside": rebuilt_beside,
    "prune-after": prune_after,
    "upgrades": upgrades,
    "package-gone": package_gone,
    "stack-lost-declared": lambda: stack_lost(is_declared=True),
    "stack-lost": lambda: stack_lost(is_declared=False),
    "migration": migration,
    "prune": prune,
    "new-snapshot": new_snapshot,
}


def digest_of(folder: Path, name: str) -> Digest:
    """Return the digest of a week."""
    repository = _repository(folder, *WEEKS[name](), END)
    tag = "develop-2026-11-08" if name == "new-snapshot" else "develop"
    return _digest(repository, "hpc-team", gap=False, tag=tag)
