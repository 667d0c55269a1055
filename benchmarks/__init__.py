"""Measure cachewatch against git's own floor and against its peers; `python -m benchmarks`."""
