"""Three weeks of a catalogue as digests: nothing but rebuilds, new versions, and a prune.

The first two are made of the bundled documents, the third is as large as upstream's are.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from digests import digest_of, read
from helpers import NewRevision, Record, meta_of, record, write_repository

from cachewatch.cli import init_and_demo
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.report.digest_and_message_values import Digest, Outage, Silenced, Span
from cachewatch.runtime.files_and_locks import demo_documents

PRUNED = 200_000

_PACKAGES = """
    adios2 amrex arborx ascent axom boost butterflypack cabana caliper camp chai charliecloud conduit cuda darshan-util datatransferkit
    dealii double-conversion ecp-data-vis-sdk eigen exago faodel fftw flecsi flit fortrilinos gasnet ginkgo globalarrays gmp gotcha
    h5bench hdf5 heffte hpctoolkit hpx hypre kokkos kokkos-kernels laghos lammps lapackpp libceed libnrm libquo libunwind llvm magma
    mercury metall mfem mpark-variant mpich mpifileutils nccmp nco ncurses netcdf-c netlib-scalapack nrm nvhpc omega-h openfoam openmpi
    openpmd-api papi papyrus paraview parsec pdt petsc phist plasma plumed precice protobuf pumi py-h5py py-jax py-libensemble
    py-mpi4py py-numpy py-petsc4py py-scipy py-torch python qthreads quantum-espresso raja rempi scr slate slepc stc strumpack sundials
    superlu superlu-dist swig sz tasmanian tau trilinos turbine umap umpire unifyfs upcxx variorum veloc vtk-m warpx wget xyce zfp zlib
    bzip2 cmake curl expat gettext glib hwloc libffi libiconv libxml2 lz4 m4 ncurses-lib nghttp2 numactl openblas openssl pcre2 perl
    pkgconf pmix readline sqlite tar tcl ucx util-linux-uuid xz zstd
""".split()  # noqa: SIM905  a list of as many strings is no easier to read
_PLACES = (
    ("x86_64_v3", "gcc@11.4.0", "ubuntu22.04", ["e4s"]),
    ("x86_64_v3", "gcc@13.2.0", "ubuntu24.04", ["ml-linux-x86_64-cpu", "ml-linux-x86_64-cuda"]),
    ("neoverse_v1", "gcc@11.4.0", "ubuntu22.04", ["e4s-neoverse_v1"]),
    ("aarch64", "gcc@13.2.0", "ubuntu24.04", ["ml-linux-aarch64-cpu"]),
)


def quiet_week(folder: Path) -> Digest:
    """A week in which everything for CUDA was built again, and one spec changed its stacks."""
    later = demo_documents()

    def rebuilt(records: list[Record]) -> list[Record]:
        return [r | {"hash": str(r["hash"])[::-1]} if "ml-linux-x86_64-cuda" in r["stacks"] else r for r in records]

    def restacked(records: list[Record]) -> list[Record]:
        first = next(r for r in records if "e4s" in r["stacks"])
        return [r | {"stacks": ["e4s", "radiuss", "root"]} if r is first else r for r in rebuilt(records)]

    earlier = {name: rewrite(content, restacked if name == "py-build" else rebuilt) for name, content in later.items()}
    repository = _repository(folder, _files(earlier), _files(later), datetime(2025, 6, 2, 4, tzinfo=UTC))
    return _digest(repository, "ml-team", gap=False)


def rewrite(document: bytes, change: Callable[[list[Record]], list[Record]]) -> bytes:
    """Return `document` with its records changed by `change`, and with `meta` computed from the new records."""
    text = document.decode()
    records = json.loads(re.findall("^spec_details: (.*)$", text, re.MULTILINE)[0])
    records = sorted(change(records), key=lambda each: str(each["hash"]))
    new = {"meta": meta_of(records), "spec_details": records}
    line = re.compile("^(meta|spec_details): .*$", re.MULTILINE)
    return line.sub(lambda found: f"{found[1]}: {json.dumps(new[found[1]], sort_keys=True)}", text).encode()


def version_week(folder: Path) -> Digest:
    """The week of the demo."""
    init_and_demo.build_demo(folder / "demo.git")
    return _digest(folder / "demo.git", "ml-team", gap=True)


def prune_week(folder: Path) -> Digest:
    """A week after which the prune took 200,000 specs that no stack built any more, of 450,000."""
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    counter = iter(range(10**8))
    for number, name in enumerate(_PACKAGES):
        version = _VERSIONS.get(name, f"{1 + number % 7}.3.{number % 4}")
        share = PRUNED // len(_PACKAGES) + (number < PRUNED % len(_PACKAGES))
        surplus = _groups(version, share, counter, is_built=False)
        kept = [] if name in _CHANGES else _groups(version, share + share // 4, counter, is_built=True)
        zen4 = record(versions=["0.9"], stacks=["e4s", "root"], target="zen4")
        lone = [(zen4, [next(counter)])] if number % 3 == 0 else []
        fresh = _groups(version, 12, counter, is_built=True)
        again = [(r, list(islice(counter, len(numbers)))) for r, numbers in fresh]
        before[name] = _document(name, [*surplus, *kept, *fresh, *lone])
        after[name] = _document(name, [*kept, *again] if name not in _CHANGES else _CHANGES[name](fresh))
    del after["nrm"]
    repository = _repository(folder, _files(before), _files(after), datetime(2025, 6, 15, 4, tzinfo=UTC))
    return _digest(repository, "hpc-operations", gap=True)


# A spec but for its hash, and the numbers of those that have it.
Groups = list[tuple[Record, list[int]]]


def _groups(version: str, count: int, counter: Iterator[int], *, is_built: bool) -> Groups:
    """Share out `count` specs among the places."""
    made = []
    for place, (target, compiler, os, stacks) in enumerate(_PLACES):
        numbers = list(islice(counter, count // len(_PLACES) + (place < count % len(_PLACES))))
        values: Record = {"compiler": compiler, "os": os, "target": target, "versions": [version]}
        made.append((record(**values, stacks=[*stacks, "root"] if is_built else ["root"]), numbers))
    return made


# What is special about a few packages: they have nothing but a few specs, built again as something else.
_VERSIONS = {
    "hdf5": "1.14.5", "petsc": "3.22.4", "openmpi": "5.0.6", "trilinos": "16.0.0", "warpx": "25.04", "cuda": "12.8.0",
    "nrm": "0.1.0",
}  # fmt: skip
_CHANGES: dict[str, Callable[[Groups], Groups]] = {
    "hdf5": lambda groups: [(r | {"versions": ["1.14.6"]}, _others(numbers)) for r, numbers in groups],
    "petsc": lambda groups: [(r | {"versions": ["3.23.3"]}, _others(numbers)) for r, numbers in groups],
    "openmpi": lambda groups: [
        (r | {"versions": ["5.0.5"]} if r["target"] == "aarch64" else r, _others(numbers)) for r, numbers in groups
    ],
    "trilinos": lambda groups: [(r, numbers) for r, numbers in groups if r["target"] != "neoverse_v1"],
    "warpx": lambda groups: [(r, numbers) for r, numbers in groups if "e4s" not in r["stacks"]],
    "cuda": lambda groups: [
        (r | {"compiler": "gcc@13.2.0"} if "e4s" in r["stacks"] else r, _others(numbers)) for r, numbers in groups
    ],
}


def _others(numbers: list[int]) -> list[int]:
    return [10**8 + number for number in numbers]


def _document(name: str, groups: Groups) -> bytes:
    """Return a document of these groups, made faster than one record at a time."""
    groups = [(r, numbers) for r, numbers in groups if numbers]
    meta = meta_of([r for r, _ in groups])
    meta["num_specs"] = sum(len(numbers) for _, numbers in groups)
    of = {stack: sum(len(numbers) for r, numbers in groups if stack in r["stacks"]) for stack in meta["stacks"]}
    meta["num_specs_by_stack"] = of
    texts = []
    for r, numbers in groups:
        start, end = json.dumps(r).split(str(r["hash"]))
        texts += [f"{start}{_hash(number)}{end}" for number in numbers]
    return (
        f'---\ntitle: "{name}"\nlayout: cache\ncategories: [package, develop]\n'
        f"meta: {json.dumps(meta)}\nspec_details: [{', '.join(texts)}]\n---"
    ).encode()


def _hash(number: int) -> str:
    return f"{number:032d}"[::-1].translate(_LETTERS)


_LETTERS = str.maketrans("0123456789", "qx7mzc4wre")


def _files(documents: dict[str, bytes]) -> dict[str, bytes]:
    return {f"_cache/develop/{name}/specs.md": content for name, content in documents.items()}


def _repository(folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes], end: datetime) -> Path:
    repository = folder / "catalogue.git"
    removed = tuple(sorted(before.keys() - after.keys()))
    week_before = NewRevision(message="Before", time=end - timedelta(days=7), files=before)
    write_repository(repository, [week_before, NewRevision(message="After", time=end, files=after, removed=removed)])
    return repository


def _digest(repository: Path, subscription: str, *, gap: bool, tag: str = "develop") -> Digest:
    found = read(repository, selection=Selection(tags=Globs([tag])))
    before, after = found.report.before, found.report.after
    assert before.time
    assert after.time
    assert before.revision
    assert after.revision
    begin, end = datetime.fromisoformat(before.time), datetime.fromisoformat(after.time)
    gaps = (Outage(begin, end),) if gap else ()
    values: dict[str, Any] = {"before": before, "after": after, "revisions": 1, "newest": end, "gaps": gaps}
    address, checked = "https://github.com/spack/cache.spack.io.git", end + timedelta(hours=3)
    span = Span(source="public", address=address, checked=checked, **values)
    days = f"{begin:%Y-%m-%d}..{end:%Y-%m-%d}"
    return digest_of(
        found,
        subscription=subscription,
        description="what we run on the cluster",
        created=end + timedelta(hours=3, minutes=30),
        period=days,
        spans=(span,),
        silenced=(Silenced("llvm-migration", 3, "migration to LLVM 20, ask Kim", "2025-12-01"),) if gap else (),
        why=("tag develop", "every package"),
        commands=(f"cachewatch diff {before.revision[:10]} {after.revision[:10]} --tag develop",),
        archive_url=f"https://hpc.example.org/cachewatch/{subscription}/{days}.html",
        unsubscribe=f"mailto:cachewatch+unsubscribe@hpc.example.org?subject={subscription}",
    )
