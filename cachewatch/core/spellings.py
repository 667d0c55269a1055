"""Bring values that Spack has written in several ways to one spelling, and say which targets run on which machines.

Two documents that say the same must compare equal, so every value is respelled here before a comparison. The renamed
compilers are those of `spack/aliases.py` in Spack 1.0 (where `intel-oneapi-compiler-classic` lacks the s that the
package name has). Which targets are compatible is known from archspec, as in Spack.
"""

from functools import cache, lru_cache

# What a compiler is called where a document names none.
NO_COMPILER = "none"

# The stack that is the union of all others, and so is not one.
UNION_STACK = "root"

_PATCH_DIGITS = 7  # of the checksum of a patch

_UNNAMED = {"", "none", "null", "~", "None"}

_PACKAGE_OF_COMPILER = {
    "clang": "llvm",
    "oneapi": "intel-oneapi-compilers",
    "dpcpp": "intel-oneapi-compilers",
    "intel": "intel-oneapi-compilers-classic",
    "intel-oneapi-compiler-classic": "intel-oneapi-compilers-classic",
    "rocmcc": "llvm-amdgpu",
    "arm": "acfl",
}


@lru_cache(maxsize=4096)
def compiler(text: str | None) -> str:
    """Spell a compiler as Spack 1.0 does: `gcc@=11.4.0` is `gcc@11.4.0`, `oneapi` its package."""
    if text is None or text in _UNNAMED:
        return NO_COMPILER
    name, at, version = text.partition("@")
    return _PACKAGE_OF_COMPILER.get(name, name) + at + version.removeprefix("=")


def is_old_compiler(text: str | None) -> bool:
    """Tell whether `text` is written as before Spack 1.0, with `@=`."""
    return text is not None and "@=" in text


@lru_cache(maxsize=256)
def variants(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Spell and sort variants: `x:=b,a` is `x=a,b`, `-x` is `~x`, quotes around a value mean nothing."""
    # As Spack lists them: by name, whatever the sign before it.
    return tuple(sorted(sorted(set(map(_variant, texts))), key=_variant_name))


@lru_cache(maxsize=4096)
def stacks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Sort stacks as a set, without the union."""
    return tuple(sorted(set(names) - {UNION_STACK}))


@lru_cache(maxsize=16384)
def _variant(text: str) -> str:
    if text.startswith("-"):
        return "~~" + text[2:] if text.startswith("--") else "~" + text[1:]
    name, equals, value = text.partition("=")
    if not equals:
        return text
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    name = name.removesuffix(":")
    if name == "patches" or "," in value:
        value = _values(name, value)
    return f"{name}={value}"


def _values(name: str, listed: str) -> str:
    """Sort the values of a variant, which are a set, and shorten checksums of patches as upstream does."""
    if listed.startswith("-"):
        return listed  # flags of a compiler, in which commas are something else
    values = listed.split(",")
    return ",".join(sorted({value[:_PATCH_DIGITS] for value in values} if name == "patches" else set(values)))


def _variant_name(variant: str) -> str:
    return variant.lstrip("+~")


@cache
def runnable(target: str) -> frozenset[str]:
    """Return the targets whose binaries run on machines of `target`: it and its ancestors.

    Of a target that archspec does not know, only its own binaries are known to run there.
    """
    from archspec.cpu import TARGETS  # noqa: PLC0415  slow to load, and seldom needed

    known = TARGETS.get(target)
    return frozenset({target, *(ancestor.name for ancestor in known.ancestors)} if known else {target})


def runs(machine: str, target: str) -> bool:
    """Tell whether machines of the target `machine` run what was built for `target`."""
    return machine == target or target in runnable(machine)


def closeness(target: str) -> int:
    """Return how much of a machine's target another one that it runs makes use of: the higher, the more."""
    return len(runnable(target))
