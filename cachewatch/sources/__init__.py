"""Sources of documents: open the two sides of a comparison, and list documents in folders."""
