"""Tell people what really changed in a Spack build cache."""

__version__ = "0.1.0"
