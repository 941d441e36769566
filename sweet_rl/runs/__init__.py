"""A run on disk: append-only records, manifest, lock, resume and shards."""
