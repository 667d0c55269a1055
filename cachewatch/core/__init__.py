"""The rules of cachewatch as values and functions, without any input or output."""
