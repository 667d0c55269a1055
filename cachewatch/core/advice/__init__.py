"""What readers are to do about what happened, with what is remembered of earlier digests and what a cache has of an environment."""
