"""The keys of the sources that are live build caches. Reading a configuration loads these, and no HTTP client."""

from cachewatch.config.sections import key
from cachewatch.config.sources_and_channels import Address, LiveSource
from cachewatch.config.value_types_and_secrets import Size, Text


class CatalogueSource(LiveSource):
    """A catalogue of several build caches, as cache.spack.io has one."""

    address: Address = key("URL or path of the catalogue of build caches, as cache.spack.io has one", name="url")
    max_index: Size | None = key(
        "maximum unpacked size of an index; a larger index is not read, nor is one that unpacks to more than 200 times"
        " its size",
        None,
        if_left_out="`4GiB`",
    )


class BuildCacheSource(CatalogueSource):
    """A live build cache."""

    address: Address = key("URL or path of the build cache", name="url")
    tag: Text | None = key("name for the tag", None, if_left_out="`develop`")
    stack: Text | None = key("name for the stack", None, if_left_out="`cache`")
    view: Text | None = key("named index to read", None, if_left_out="the main index")
