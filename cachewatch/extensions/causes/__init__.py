"""Why specs of a recorded build cache, or of two lock files, have other hashes. docs/why.md describes the answers."""
