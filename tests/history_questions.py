"""The answers to questions about a history, from all documents of all revisions and nothing else."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from indexes import Key, Told, listed, run_git

from cachewatch.core.comparison.kept_and_reused_hashes import is_same_spec, not_written
from cachewatch.core.comparison.package_changes import compare
from cachewatch.core.kinds_and_specs import CompilerForm, Document, PackageChange, Signature

DAY = 86_400.0
Row = tuple[Any, ...]


class Change(NamedTuple):
    """What a revision did to a document; a baseline has nothing before it."""

    number: int
    key: Key
    change: PackageChange
    is_baseline: bool


class Everything(Told):
    """The state of all documents in every revision."""

    def __init__(self, folder: Path, most: int | None = None) -> None:
        """Read everything, or only the first revisions."""
        super().__init__()
        self.changes: list[Change] = []
        self.timeline: list[dict[Key, Document | None]] = []
        lines = run_git(folder, "rev-list", "--first-parent", "--reverse", "--timestamp", "main").splitlines()[:most]
        self.times = [int(line.split()[0]) for line in lines]
        self.commits = [line.split()[1] for line in lines]
        for number, commit in enumerate(self.commits):
            self.revision(number, listed(folder, commit), folder)
            self.timeline.append(dict(self.states))

    def _compare(
        self, number: int, key: Key, before: Document | None, after: Document | None, *, is_baseline: bool
    ) -> None:
        super()._compare(number, key, before, after, is_baseline=is_baseline)
        change = None if before is None and after is None else compare(key[1], before, after)
        if change is not None:
            self.changes.append(Change(number, key, change, is_baseline))

    def tags(self) -> set[str]:
        """Return the tags that ever had a readable document."""
        return {tag for tag, _ in self.documents}

    def specs(self, number: int, tag: str) -> Iterator[tuple[str, str, Signature]]:
        """Yield (package, hash, signature) of a tag in one revision."""
        for (own, package), document in self.timeline[number].items():
            if own == tag and document is not None:
                yield from ((package, spec_hash, signature) for spec_hash, signature in document.specs.items())

    def hashes(self) -> set[str]:
        """Return every hash that was ever there."""
        return {h for n in range(len(self.timeline)) for tag in self.tags() for _, h, _ in self.specs(n, tag)}

    def end(self, number: int) -> int | None:
        """Return the revision after `number`, or None behind the last."""
        return number + 1 if number + 1 < len(self.timeline) else None

    def when(self, tag: str, package: str) -> dict[Row, Row]:
        """Return (last, is a baseline, lag, is that a minimum) by version, stack, target and first, again for each return."""
        seen: defaultdict[Row, list[int]] = defaultdict(list)
        for number in range(len(self.timeline)):
            for own, _, s in self.specs(number, tag):
                for version in s.versions if own == package else ():
                    for stack in s.stacks or (None,):
                        seen[version, stack, s.target].append(number)
        # 1-1 and 1.1 are one version for Spack, and named as most people write it.
        dotted = {version for version, *_ in seen}
        for version, *rest in [key for key in seen if "-" in key[0]]:
            if (other := version.replace("-", ".")) in dotted:
                seen[other, *rest] = sorted({*seen[other, *rest], *seen.pop((version, *rest))})
        baseline = self.baselines.get((tag, package))
        found = {}
        for key, numbers in seen.items():
            begin = min((n[0] for other, n in seen.items() if other[0] == key[0] and other[1]), default=None)
            for first in (number for number in numbers if number - 1 not in numbers):
                last = next(number for number in range(first, len(self.timeline)) if number + 1 not in numbers)
                is_known = key[1] is not None and first != baseline and first == numbers[0]
                assert begin is not None or not is_known
                lag = (
                    round((self.times[first] - self.times[begin]) / DAY, 1) if is_known and begin is not None else None
                )
                found[*key, first] = (self.end(last), first == baseline, lag, is_known and begin == baseline)
        return found

    def blame(self, spec_hash: str) -> dict[Key, list[tuple[list[Row], Row]]]:
        """Return by document the lives: stays in stacks, and (born, whether then or before, died)."""
        found = {}
        for key in self.documents:
            if lives := self._lives(key, spec_hash):
                ends = [self.end(stays[-1][2] - 1) for stays in lives]
                found[key] = [
                    (stays, (stays[0][0], stays[0][0] == self.baselines[key], died))
                    for stays, died in zip(lives, ends, strict=True)
                ]
        return found

    def _lives(self, key: Key, spec_hash: str) -> list[list[Row]]:
        """Return the stays in stacks of a hash in one document, a list for each spec that it named."""
        lives: list[list[Row]] = []
        last: Document | None = None
        forms: set[CompilerForm] = set()  # of the documents since the last one that has the hash
        for number, state in enumerate(self.timeline):
            document = state.get(key)
            if document is None:
                continue
            forms.add(document.compiler_form)
            if spec_hash not in document.specs:
                continue
            s = document.specs[spec_hash]
            if last is None or not is_same_spec(
                last.specs[spec_hash],
                s,
                not_written(last.specs.counts, document.specs.counts, is_compiler_unknown=len(forms) > 1),
            ):
                lives.append([])
            stays = lives[-1]
            if stays and stays[-1][1:] == (s.stacks, number):
                stays[-1] = (stays[-1][0], s.stacks, number + 1)
            else:
                stays.append((number, s.stacks, number + 1))
            last, forms = document, {document.compiler_form}
        return lives

    def log(self, tag: str, package: str | None = None) -> dict[int, set[str]]:
        """Return the revisions that did anything, each with the packages that could not be read."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        for number, (own, name), change, is_baseline in self.changes:
            if (
                own == tag
                and package in (None, name)
                and not is_baseline
                and any((*change.matches, *change.new, *change.gone, *change.restacked))
            ):
                found[number] |= set()
        for own, name, number in self.diagnostics:
            if own == tag and package in (None, name):
                found[number].add(name)
        return found

    def churn(self, tag: str, by: str, since: int, until: int) -> dict[str, Row]:
        """Return (added, removed, net added, net removed) by package or stack."""
        found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for number, (own, package), change, is_baseline in self.changes:
            if own != tag or is_baseline or not since < number <= until:
                continue
            own_counts = (change.counts.added, change.counts.removed, change.counts.rebuilt)
            for name, counts in [(package, own_counts)] if by == "package" else _stacks(change):
                found[name] = [a + b for a, b in zip(found[name], counts, strict=True)]
        return {name: (a, r, a - same, r - same) for name, (a, r, same) in found.items() if a or r}

    def best(self, wanted: set[str]) -> dict[str, Row]:
        """Return (found, newest revision that had so many, since when it had, missing) by tag."""
        found = {}
        for tag in self.tags():
            there = [{h for _, h, _ in self.specs(n, tag)} & wanted for n in range(len(self.timeline))]
            most = max(map(len, there))
            if most:
                newest = max(n for n, some in enumerate(there) if len(some) == most)
                since = newest
                while since and len(there[since - 1]) == most:
                    since -= 1
                found[tag] = (most, newest, since, tuple(sorted(wanted - there[newest])))
        return found


def _stacks(change: PackageChange) -> Iterator[tuple[str, tuple[int, int, int]]]:
    reused = change.removed_hashes.hashes & change.added_hashes.hashes
    old, new = sides = defaultdict[str, set[Row]](set), defaultdict[str, set[Row]](set)
    for side, specs in enumerate((change.specs_before, change.specs_after)):
        for spec_hash, signature in specs.items():
            for stack in signature.stacks:
                sides[side][stack].add((spec_hash, side if spec_hash in reused else 0))
    rebuilt: Counter[str] = Counter()
    for pair in change.matches:
        if pair.kind == "rebuilt":
            rebuilt.update(dict.fromkeys(pair.before.stacks, pair.count))
    for stack in old.keys() | new.keys():
        before, after = old.get(stack, set()), new.get(stack, set())
        yield stack, (len(after - before), len(before - after), rebuilt[stack])
