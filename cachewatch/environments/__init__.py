"""Environments of Spack: what a lock file needs, what a cache has of it, and what a revision changes about that."""
