"""The commands of Spack that reports offer: to install a version, for which target, and from which mirror."""

from cachewatch.core.versions_spellings_targets import USUAL_TARGET, runs
from cachewatch.report.digest_and_message_values import Example

# Upstream's own catalogue, and where Spack installs what it lists.
_PUBLIC_CATALOGUE = "github.com/spack/cache.spack.io"
_PUBLIC_MIRROR = "https://binaries.spack.io/{tag}"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=")
_LONGEST_WORD = 100
USUAL_PLATFORM = "linux"


def install_line(package: str, version: str, *, spec_hash: str = "", platform: str = USUAL_PLATFORM) -> str | None:
    """Return the command to install a version (if given, its build `spec_hash`); None if a shell could misread it."""
    if not all(map(is_plain, (package, version, platform, *([spec_hash] if spec_hash else ())))):
        return None
    build = f"/{spec_hash[:7]}" if spec_hash else ""
    return f"spack install --cache-only {package}@{version}{build}{on_platform(platform)}"


def on_platform(platform: str) -> str:
    """Return the end of an install command that names `platform`; "" for Linux, which is usual."""
    return "" if platform == USUAL_PLATFORM else f" platform={platform}"


def is_plain(name: str) -> bool:
    """Tell whether a shell reads `name` as one plain word."""
    return 0 < len(name) <= _LONGEST_WORD and not name.startswith("-") and not set(name) - _PLAIN


def public_mirror(catalogue: str) -> str | None:
    """Return the URL of Spack's public mirror, with {tag}, if `catalogue` is the address of its list; else None."""
    return _PUBLIC_MIRROR if catalogue.removesuffix("/").removesuffix(".git").endswith(_PUBLIC_CATALOGUE) else None


def platform_of(example: Example) -> str:
    """Return the platform for an install command: the only one of the example or, if it has several, Linux."""
    platforms = {machine.platform for machine in example.machines}
    return platforms.pop() if len(platforms) == 1 else USUAL_PLATFORM


def target_of(example: Example) -> str:
    """Return the target that an install command must name; "" if usual machines need none, or none suits all."""
    targets = sorted({one.target for one in example.machines if one.platform == USUAL_PLATFORM})
    if any(runs(USUAL_TARGET, one) for one in targets):
        return ""
    return next((one for one in targets if all(runs(other, one) for other in targets)), "")
