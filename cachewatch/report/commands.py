"""Commands for readers: what settles the things to do, in its order, and what installs what is new."""

from cachewatch.core import spack
from cachewatch.core.advice.values import Assessment, Because, Verb
from cachewatch.core.names import safe
from cachewatch.report.values import Digest, Example, TagDigest

# Upstream's own catalogue, and where Spack installs what it lists.
_PUBLIC_CATALOGUE = "github.com/spack/cache.spack.io"
_PUBLIC_MIRROR = "https://binaries.spack.io/{tag}"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=")
_LONGEST_WORD = 100
_USUAL_PLATFORM, USUAL_TARGET = "linux", "x86_64_v4"
_MOST_REQUIRED = 10
# What re-concretizing settles, beside what is said of an environment.
_CONCRETIZED = (Because.ENVIRONMENT_LAST_OTHER, Because.OTHER, Because.OLD_BUILDS, Because.TURNOVER)


def steps(found: Assessment) -> list[str]:
    """Return the commands for an environment, in their order, where one is not enough; they copy FROM one mirror TO another.

    There are none where names could mean more to a shell.
    """
    required = [one.partition("@")[::2] for one in found.required]
    concretizes = not found.is_waiting and any(
        one.verb is Verb.RECONCRETIZE or one.because in _CONCRETIZED for one in found.actions
    )
    copies = any(one.verb is Verb.COPY or one.is_copy for one in found.actions)
    if not (copies or (required and concretizes)) or not all(is_plain(word) for pair in required for word in pair):
        return []
    said = [f"spack -e . config add \"packages:{name}:require:'@{version}'\"" for name, version in required]
    more = [f"# and {len(said) - _MOST_REQUIRED:,} more likewise"] if len(said) > _MOST_REQUIRED else []
    return [
        *((*said[:_MOST_REQUIRED], *more, "spack -e . concretize --force") if concretizes else ()),
        *(["spack -e . buildcache sync FROM TO"] if copies else ()),
        *(["spack -e . install"] if concretizes else ()),
    ]


def mirror_of(digest: Digest, tag: TagDigest) -> str | None:
    """Return the address from which Spack installs what `tag` has, where it is known."""
    name = tag.report.after.tag
    for span in digest.spans:
        mirror = span.mirror or public_mirror(span.address)
        if span.source == tag.source and mirror and name and is_plain(name):
            return web_address(mirror.replace("{tag}", name))
    return None


def platform_of(example: Example) -> str:
    """Return the platform that an install has to name: the only one, or the usual one."""
    platforms = {machine.platform for machine in example.machines}
    return platforms.pop() if len(platforms) == 1 else _USUAL_PLATFORM


def install_line(package: str, version: str, *, spec_hash: str = "", platform: str = _USUAL_PLATFORM) -> str | None:
    """Return the command that installs a version, or one build of it; None where its names could mean more to a shell.

    It names the platform if that is not Linux.
    """
    if not all(map(is_plain, (package, version, platform, *([spec_hash] if spec_hash else ())))):
        return None
    build = f"/{spec_hash[:7]}" if spec_hash else ""
    return f"spack install --cache-only {package}@{version}{build}{on_platform(platform)}"


def on_platform(platform: str) -> str:
    """Return the end of an install that is not for Linux."""
    return "" if platform == _USUAL_PLATFORM else f" platform={platform}"


def target_of(example: Example) -> str:
    """Return the target that an install has to name, as usual machines cannot run it; empty where they can."""
    targets = sorted({one.target for one in example.machines if one.platform == _USUAL_PLATFORM})
    if any(spack.runs(USUAL_TARGET, one) for one in targets):
        return ""
    return next((one for one in targets if all(spack.runs(other, one) for other in targets)), "")


def is_plain(name: str) -> bool:
    """Tell whether a shell takes `name` for no more than a word."""
    return 0 < len(name) <= _LONGEST_WORD and not name.startswith("-") and not set(name) - _PLAIN


def public_mirror(catalogue: str) -> str | None:
    """Return where Spack installs what `catalogue` lists, with {tag}, if that is upstream's own."""
    return _PUBLIC_MIRROR if catalogue.removesuffix("/").removesuffix(".git").endswith(_PUBLIC_CATALOGUE) else None


def web_address(address: str | None) -> str | None:
    """Return `address` if it is one that a mail may link to."""
    allowed = ("https://", "http://", "mailto:")
    return safe(address) if address and address.startswith(allowed) else None
