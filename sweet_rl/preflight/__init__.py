"""Checks before a long run: what this machine lacks, said in seconds instead of hours (scripts/preflight.py)."""
