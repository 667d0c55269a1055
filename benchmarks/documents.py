"""The text of documents, exactly as upstream's generator writes it since April 2025 (form E)."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import shake_128

UNION_STACK = "root"
_ALPHABET = b"abcdefghijklmnopqrstuvwxyz234567"
_TO_ALPHABET = bytes(_ALPHABET[byte % 32] for byte in range(256))


@dataclass(frozen=True, slots=True)
class Signature:
    """All that specs of one kind have in common; `stacks` is empty for those unreferenced."""

    compiler: str
    os: str
    platform: str
    target: str
    stacks: tuple[str, ...]
    variants: tuple[str, ...]
    version: str

    @property
    def all_stacks(self) -> list[str]:
        """The stacks as a document lists them."""
        return sorted([*self.stacks, UNION_STACK])


Group = tuple[Signature, Sequence[int]]


def spec_hash(seed: int, package: str, number: int) -> str:
    """Return the hash of one build of `package`: 32 characters that look like Spack's."""
    return shake_128(b"%d/%s/%d" % (seed, package.encode(), number)).digest(32).translate(_TO_ALPHABET).decode()


def document(package: str, tag: str, groups: Sequence[Group], seed: int) -> bytes:
    """Write the document of `package`; there is no newline at its end."""
    meta = json.dumps(_meta(groups), sort_keys=True)
    details = ", ".join(text for _, text in sorted(_records(package, groups, seed)))
    frame = f'---\ntitle: "{package}"\nlayout: cache\ncategories: [package, {tag}]\n'
    return f"{frame}meta: {meta}\nspec_details: [{details}]\n---".encode()


def tags_file(tags: Iterable[tuple[str, Iterable[str]]]) -> bytes:
    """Write `_data/tags.yaml`."""
    lines: list[str] = []
    for name, stacks in tags:
        lines += [f"- name: {name}", "  stacks:", *(f"  - {stack}" for stack in stacks)]
    return ("\n".join(lines) + "\n").encode()


def _records(package: str, groups: Sequence[Group], seed: int) -> Iterable[tuple[str, str]]:
    """Yield the hash and the text of each record; all of one signature are encoded once."""
    for signature, numbers in groups:
        rest = json.dumps(
            {
                "os": signature.os,
                "platform": signature.platform,
                "size": "-",
                "stacks": signature.all_stacks,
                "target": signature.target,
                "variants": list(signature.variants),
                "versions": [signature.version],
            }
        )[1:]
        head = f'{{"compiler": {json.dumps(signature.compiler)}, "hash": "'
        for number in numbers:
            found = spec_hash(seed, package, number)
            yield found, f'{head}{found}", {rest}'


def _meta(groups: Sequence[Group]) -> dict[str, object]:
    signatures = [signature for signature, _ in groups]
    by_stack: dict[str, int] = {}
    for signature, numbers in groups:
        for stack in signature.all_stacks:
            by_stack[stack] = by_stack.get(stack, 0) + len(numbers)
    return {
        "compilers": sorted({s.compiler for s in signatures}),
        "num_specs": sum(len(numbers) for _, numbers in groups),
        "num_specs_by_stack": by_stack,
        "oss": sorted({s.os for s in signatures}),
        "platforms": sorted({s.platform for s in signatures}),
        "stacks": sorted(by_stack),
        "targets": sorted({s.target for s in signatures}),
        "versions": sorted({s.version for s in signatures}),
    }
