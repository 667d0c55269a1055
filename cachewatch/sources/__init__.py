"""Sources of documents: open what BEFORE and AFTER of a comparison name, and list documents in folders."""
