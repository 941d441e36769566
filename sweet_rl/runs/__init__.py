"""A run on disk: append-only records with a manifest.

- A process killed at any moment loses at most the record that it was writing; the same command continues the run.
- Other settings or inputs are refused, with the list of what differs, unless `--overwrite` is given.
- Two processes never write to one output, which is locked (flock).
"""
