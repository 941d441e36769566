"""Model calls on disk: what was asked before, in the same words with the same settings and seed, is not asked again.

The key is everything that a reply depends on: engine and weights (a server's model by its name: after serving other
weights under the same name, take another folder), request fields, prompt, sampling settings, seed; at temperature 0
the seed does not count. Any number of processes of one machine may share a folder, and be killed at any moment. A
damaged entry is asked again; a cache that cannot be used any more is left alone, with a warning.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweet_rl.errors import UserError
from sweet_rl.models.base import ChatModel, Completion, Message, Part, Sampling

logger = logging.getLogger(__name__)
VERSION = 1  # of the keys and the entries; another one finds nothing of this one's


class CallCache:
    """Replies by key, in an SQLite file of the folder. Raises UserError if it cannot be opened."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "calls.sqlite"
        self.hits = self.misses = 0
        self._broken = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="call-cache")  # the event loop never waits for the disk
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                self.path, timeout=60.0, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute("CREATE TABLE IF NOT EXISTS calls (key BLOB PRIMARY KEY, replies BLOB)")
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"the cache {self.path} cannot be used: {error}. Remove its folder, or choose another one."
            ) from error

    async def get(self, key: bytes) -> list[Completion] | None:
        """The replies under `key`; None where there are none that can be read."""
        found = await self._run(self._get, key)
        self.hits, self.misses = self.hits + (found is not None), self.misses + (found is None)
        return found

    async def put(self, key: bytes, completions: list[Completion]) -> None:
        content = zlib.compress(json.dumps([asdict(one) for one in completions]).encode(), 1)
        await self._run(self._put, key, content)

    def close(self) -> None:
        self._thread.shutdown()
        self._database.close()

    async def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        if self._broken:
            return None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        except sqlite3.Error as error:
            if not self._broken:
                logger.warning("the cache %s is not used from now on: %s", self.path, error)
            self._broken = True
            return None

    def _get(self, key: bytes) -> list[Completion] | None:
        row = self._database.execute("SELECT replies FROM calls WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return [Completion(**one) for one in json.loads(zlib.decompress(row[0]))]
        except (ValueError, TypeError, zlib.error):
            return None

    def _put(self, key: bytes, content: bytes) -> None:
        self._database.execute("INSERT OR REPLACE INTO calls VALUES (?, ?)", (key, content))


class CachedModel:
    """A ChatModel that looks into a cache before it asks `model`. `identity` is what tells the model's replies from
    those of every other model."""

    def __init__(self, model: ChatModel, identity: dict[str, Any], cache: CallCache) -> None:
        self.model, self.chat, self.identity, self.cache = model, model.chat, identity, cache

    async def check(self) -> None:
        await self.model.check()

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        if self.chat is not None:
            return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)
        plain = [{"role": message["role"], "content": message["content"]} for message in messages]
        return await self._look_up({"messages": plain}, sampling, lambda: self.model.complete(messages, sampling))

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        own = None if self.chat is None else self.chat.fingerprint
        prompt = {"parts": parts, "tokenizer": tokenizer, "own_tokenizer": own}
        return await self._look_up(prompt, sampling, lambda: self.model.complete_parts(parts, sampling, tokenizer))

    def summary(self) -> dict[str, Any]:
        """The model's own summary, and how many calls the cache answered (for all models that share it)."""
        counts = {"cache": {"hits": self.cache.hits, "misses": self.cache.misses}}
        return getattr(self.model, "summary", dict)() | counts

    async def close(self) -> None:
        await self.model.close()

    async def _look_up(
        self, prompt: dict[str, Any], sampling: Sampling, ask: Callable[[], Awaitable[list[Completion]]]
    ) -> list[Completion]:
        settings = asdict(sampling)
        if sampling.temperature == 0:
            del settings["seed"]
        asked = {"version": VERSION, "model": self.identity, "sampling": settings, **prompt}
        key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
        found = await self.cache.get(key)
        if found is None or len(found) != sampling.n:
            found = await ask()
            await self.cache.put(key, found)
        return found
