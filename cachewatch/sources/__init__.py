"""Where documents come from: folders, git repositories and live build caches, opened for a comparison."""
