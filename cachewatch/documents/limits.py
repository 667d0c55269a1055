"""How much a document may hold: far more than any real one has, and little enough to be compared in seconds.

docs/limits.md lists these. A document above one of them is unreadable, with the reason; all others go on.
"""

from collections.abc import Iterator, Mapping

from cachewatch.core.model import Signature
from cachewatch.core.package_facts import Facts
from cachewatch.errors import UnreadableDocument

# The largest real document has 333 kB. Beyond this something else was committed.
MAX_BYTES = 32 * 2**20
# What is not written as the generator does takes up to 200 times its size in memory while it is read.
MAX_PATIENT_BYTES = 2**20
MAX_EVENTS = 100_000  # of YAML: each mapping, list and value is one or two

MAX_UNLIKE = 5_000  # signatures: real documents have tens
MAX_STACKS = 1_000
MAX_IN_RECORD = 1_000  # variants, or versions, of one spec
MAX_PLACES = 20_000  # versions times stacks, of all signatures: real documents have hundreds
MAX_VALUE = 1024  # characters
MAX_VARIANT = 4096  # one variant may list the checksums of dozens of patches
MAX_MESSAGE = 300


def check(signatures: Mapping[Signature, int], facts: Facts) -> None:
    """Refuse what no document holds, with a sentence that names the limit."""
    for problem in _problems(signatures, facts):
        raise UnreadableDocument(problem)


def brief(message: str) -> str:
    """Return a message that is no longer than people read, whatever a document made of it."""
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."


def _problems(signatures: Mapping[Signature, int], facts: Facts) -> Iterator[str]:
    if len(signatures) > MAX_UNLIKE:
        yield f"has {len(signatures):,} specs that differ in more than their hash; the limit is {MAX_UNLIKE:,}"
    if len(signatures) * len(facts["versions"]) * len(facts["stacks"]) > MAX_PLACES:
        places = sum(len(signature.versions) * len(signature.stacks) for signature in signatures)
        if places > MAX_PLACES:
            yield f"has {places:,} versions in stacks; the limit is {MAX_PLACES:,}"
    if len(facts["stacks"]) > MAX_STACKS:
        yield f"names {len(facts['stacks']):,} stacks; the limit is {MAX_STACKS:,}"
    for name, values in facts.items():
        most = MAX_VARIANT if name == "variants" else MAX_VALUE
        longest = max(map(len, values), default=0)
        if longest > most:
            yield f"names one of its {name} with {longest:,} characters; the limit is {most:,}"
    lists = {"variants": [s.variants for s in signatures], "versions": [s.versions for s in signatures]}
    for kind, found in lists.items():
        longest = max(map(len, found), default=0)
        if longest > MAX_IN_RECORD:
            yield f"has a spec of {longest:,} {kind}; the limit is {MAX_IN_RECORD:,}"
