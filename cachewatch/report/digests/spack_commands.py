"""The commands of Spack that reports offer: to install a version, and from which mirror."""

# Upstream's own catalogue, and where Spack installs what it lists.
_PUBLIC_CATALOGUE = "github.com/spack/cache.spack.io"
_PUBLIC_MIRROR = "https://binaries.spack.io/{tag}"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=")
_LONGEST_WORD = 100
USUAL_PLATFORM = "linux"


def install_line(package: str, version: str, *, spec_hash: str = "", platform: str = USUAL_PLATFORM) -> str | None:
    """Return the command to install a version or one build of it; None if a shell could misread a name."""
    if not all(map(is_plain, (package, version, platform, *([spec_hash] if spec_hash else ())))):
        return None
    build = f"/{spec_hash[:7]}" if spec_hash else ""
    return f"spack install --cache-only {package}@{version}{build}{on_platform(platform)}"


def on_platform(platform: str) -> str:
    """Return the end of an install command for another platform than Linux, else ""."""
    return "" if platform == USUAL_PLATFORM else f" platform={platform}"


def is_plain(name: str) -> bool:
    """Tell whether a shell reads `name` as one plain word."""
    return 0 < len(name) <= _LONGEST_WORD and not name.startswith("-") and not set(name) - _PLAIN


def public_mirror(catalogue: str) -> str | None:
    """Return the URL of Spack's public mirror, with {tag}, if `catalogue` is its own list; else None."""
    return _PUBLIC_MIRROR if catalogue.removesuffix("/").removesuffix(".git").endswith(_PUBLIC_CATALOGUE) else None
