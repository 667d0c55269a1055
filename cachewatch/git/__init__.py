"""Git repositories: reading revisions of a catalogue, keeping clones, writing revisions."""
