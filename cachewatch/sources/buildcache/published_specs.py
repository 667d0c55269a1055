"""The specs of a tag, put together package by package from the indexes of its stacks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from cachewatch.core.spack_spellings import UNION_STACK
from cachewatch.documents.graph_files import EncodedIngredients
from cachewatch.documents.writing import Listed
from cachewatch.sources.buildcache.spec_store import SpecStore, StoredSpec


class PackageSpecs(Struct, frozen=True):
    """The specs of one package."""

    listed: Sequence[Listed]
    graph: Mapping[str, EncodedIngredients]  # what each spec was made of, by hash; empty if nobody asked


class PublishedSpecs:
    """Specs by package; only the package that is read is in memory."""

    def __init__(self, stores: Sequence[tuple[str, SpecStore]]) -> None:
        """Take the specs of each index, with the stack whose index it is."""
        self._stores = stores
        self.packages: Collection[str] = sorted({package for _, store in stores for package in store.packages})

    @cached_property
    def by_stack(self) -> Mapping[str, int]:
        """How many specs each stack has, and how many their union has."""
        if len(self._stores) == 1:
            ((label, store),) = self._stores
            return {label: len(store), UNION_STACK: len(store)}
        counts: Counter[str] = Counter()
        size = 0
        for package in self.packages:
            listed = self.read(package).listed
            counts.update(stack for spec in listed for stack in spec.stacks)
            size += len(listed)
        return {**counts, UNION_STACK: size}

    @property
    def size(self) -> int:
        """How many specs there are."""
        return self.by_stack[UNION_STACK]

    def read(self, package: str) -> PackageSpecs:
        """Return the specs of a package."""
        if len(self._stores) == 1:
            ((label, store),) = self._stores
            specs = list(store.read(package))
            return _package_specs([Listed(spec.binary, (label,)) for spec in specs], specs)
        found: dict[str, StoredSpec] = {}
        stacks: dict[str, dict[str, None]] = {}
        for label, store in self._stores:
            for spec in store.read(package):
                found.setdefault(spec.binary.hash, spec)
                stacks.setdefault(spec.binary.hash, {})[label] = None
        listed = [Listed(spec.binary, tuple(stacks[spec_hash])) for spec_hash, spec in found.items()]
        return _package_specs(listed, found.values())


def _package_specs(listed: Sequence[Listed], specs: Iterable[StoredSpec]) -> PackageSpecs:
    return PackageSpecs(listed, {spec.binary.hash: spec.ingredients for spec in specs if spec.ingredients})
