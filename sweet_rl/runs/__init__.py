"""A run on disk: append-only records with a manifest, a lock, resume and shards.

An output is `path` (JSONL, one record per line) and `path.manifest.json`; a model directory holds its
`manifest.json` inside. The manifest has the settings, the SHA-256 of each input, the versions, and whether the run
is finished. What holds:

- A process killed at any moment loses at most the record that it was writing; the same command continues the run.
- Other settings or inputs are refused, with the list of what differs, unless `--overwrite` is given.
- Two processes never write to one output: the output itself is locked (flock).
- An existing output without a manifest is never touched unless `--overwrite` is given, a directory not even then.
- An output that another program cut or changed, while it was written or after it was finished, is not finished: the
  manifest has its SHA-256 (of files above 64 MB in a model directory those of size, first and last MB).
- Outputs, what is written beside them, inputs and caches that share a path are refused before any work (`paths`).
- `--overwrite` keeps the old output until the first new record or the summary is written.

Not covered: file systems without flock, and power cuts (only finished outputs are synchronised to disk).
"""
