"""Numbers for the specs of two graphs, by package and name: quicker to look up and to compare than the names."""


class SpecNumbers:
    """Specs by number; both graphs share the numbers."""

    def __init__(self) -> None:
        self.packages: list[str] = []
        self.names: list[str] = []
        self.has_long_names = False  # not all have as many letters
        self._tables: dict[str, NumbersOfPackage] = {}

    def of(self, package: str) -> "NumbersOfPackage":
        """Return the numbers of the specs of a package, by name."""
        found = self._tables.get(package)
        if found is None:
            found = self._tables[package] = NumbersOfPackage(self, package)
        return found

    def add(self, package: str, name: str) -> int:
        """Return the number of another spec."""
        self.packages.append(package)
        self.names.append(name)
        self.has_long_names |= len(name) != len(self.names[0])
        return len(self.names) - 1


class NumbersOfPackage(dict[str, int]):
    """The numbers of the specs of a package; a new name has a new one."""

    def __init__(self, numbers: SpecNumbers, package: str) -> None:
        super().__init__()
        self._numbers = numbers
        self._package = package

    def __missing__(self, name: str) -> int:
        found = self[name] = self._numbers.add(self._package, name)
        return found
