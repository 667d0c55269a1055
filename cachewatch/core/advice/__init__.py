"""What readers should do: from the changes, from what earlier digests asked for, and from what an environment needs."""
