"""Ids, hashes and seeds that are the same for the same content on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def content_id(value: Any, sample: int | None = None) -> str:
    """The id of a JSON value: 16 hex digits of the SHA-256 of its canonical JSON, followed by `-sample` if given."""
    digest = hashlib.sha256(_canonical(value)).hexdigest()[:16]
    return digest if sample is None else f"{digest}-{sample}"


def hash_rows(rows: Iterable[Any]) -> str:
    """The SHA-256 (64 hex digits) of a sequence of JSON values, order included."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(_canonical(row) + b"\n")
    return digest.hexdigest()


def seed_for(seed: int, *keys: Any) -> int:
    """The seed of one random choice, in [0, 2**63).

    Args:
        seed: the seed of the run.
        keys: JSON values that name the choice, for example a trajectory id and a turn.
    """
    return int.from_bytes(hashlib.sha256(_canonical([seed, *keys])).digest()[:8], "big") >> 1


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
