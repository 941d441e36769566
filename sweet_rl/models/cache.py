"""Model calls on disk: a call that was made before, with the same prompt, settings and seed, is not made again.

The key is a hash of everything that a reply depends on: engine and weights, request fields, prompt, sampling settings
and seed (at temperature 0 the seed is left out). A server's model is known by its name only: after serving other
weights under the same name, use another folder. Any number of processes of one machine may share a folder, and be
killed at any moment.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweet_rl.models.base import ChatModel, Completion, ModelError, Prompt, Sampling, is_ids, prompt_ids
from sweet_rl.models.thinking import without_thinking
from sweet_rl.runs.errors import UserError

VERSION = 1  # of keys and entries; a cache of another version has no entry for these keys
DATABASE = "calls.sqlite"


class CallCache:
    """Replies by key, in a folder that only its owner may read. Raises UserError if it cannot be used."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self.hits = self.misses = 0
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            self._store = sqlite3.connect(
                self.path / DATABASE, timeout=60.0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = NORMAL",
            "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, replies TEXT)",
        ):
            self._run(statement)

    def get(self, key: str) -> list[Completion] | ModelError | None:
        """Return the replies stored under `key`, or the failure; None if there is neither."""
        rows = self._run("SELECT replies FROM calls WHERE key = ?", key)
        self.hits, self.misses = self.hits + len(rows), self.misses + (not rows)
        if not rows:
            return None
        stored = json.loads(rows[0][0])
        return ModelError(**stored) if isinstance(stored, dict) else [Completion(**fields) for fields in stored]

    def put(self, key: str, replies: list[Completion] | ModelError) -> None:
        """Store replies, or a call that was paid for and failed, under `key`."""
        if isinstance(replies, ModelError):
            stored: Any = {"kind": replies.kind, "message": str(replies)}
        else:
            stored = [asdict(reply) for reply in replies]
        self._run("REPLACE INTO calls VALUES (?, ?)", key, json.dumps(stored))

    def close(self) -> None:
        self._store.close()

    def _run(self, statement: str, *values: str) -> list[tuple]:
        try:
            return self._store.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> UserError:
        return UserError(f"the cache {self.path} cannot be used: {error}. Remove its folder, or choose another one.")


class CachedModel:
    """A ChatModel that looks into a cache, which other models may share, before it asks `model`.

    `identity` is what distinguishes the model's replies from those of every other model.
    """

    def __init__(self, model: ChatModel, identity: dict[str, Any], cache: CallCache) -> None:
        self.model, self.chat, self.identity, self.cache = model, model.chat, identity, cache

    async def check(self) -> None:
        await self.model.check()

    async def complete(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        if self.chat is not None:
            prompt = prompt_ids(self.chat, prompt)
        key = self._key(prompt, sampling)
        stored = self.cache.get(key)
        if isinstance(stored, ModelError):
            raise stored
        if stored is not None and len(stored) == sampling.n:
            return stored
        try:
            replies = await self.model.complete(prompt, sampling)
        except ModelError as error:
            if error.kind == "filtered":  # after the reply was sampled and paid for
                self.cache.put(key, error)
            raise
        if any(without_thinking(reply.text).strip() for reply in replies):  # if all are empty, a retry asks again
            self.cache.put(key, replies)
        return replies

    def summary(self) -> dict[str, Any]:
        """Return the model's own summary and the hits and misses of the cache, for all models that share it."""
        counts = {"cache": {"hits": self.cache.hits, "misses": self.cache.misses}}
        return getattr(self.model, "summary", dict)() | counts

    async def close(self) -> None:
        await self.model.close()

    def _key(self, prompt: Prompt, sampling: Sampling) -> str:
        settings = asdict(sampling) | {"top_p": 1.0}  # so that older entries are found
        if sampling.temperature == 0:
            del settings["seed"]
        call = {"version": VERSION, "model": self.identity, "sampling": settings}
        if is_ids(prompt):
            call["ids"] = prompt
        else:
            call["messages"] = [{"role": one["role"], "content": one["content"]} for one in prompt]  # type: ignore[index]
        return hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()
