"""Model calls on disk: a call that was made before, with the same prompt, settings and seed, is not made again.

The key is a hash of everything that a reply depends on: engine and weights, request fields, prompt, sampling settings
and seed (at temperature 0 the seed is left out). A server's model is known by its name only: after serving other
weights under the same name, use another folder. Any number of processes of one machine may share a folder, and be
killed at any moment. A damaged entry counts as missing; after an error of the database the cache is no longer used.
The folder has JSON text in one SQLite table of one form, so that a folder of somebody else can lie but runs no code.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sweet_rl.models.base import ChatModel, Completion, ModelError, Sampling
from sweet_rl.models.thinking import without_thinking
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Message, Part

logger = logging.getLogger(__name__)
VERSION = 1  # of keys and entries; a cache of another version has no entry for these keys
DATABASE = "calls.sqlite"
REPLIES = TypeAdapter(list[Completion])
_TABLE = "CREATE TABLE calls (key TEXT PRIMARY KEY, replies TEXT)"


class CallCache:
    """Replies by key, in a folder that only its owner may read.

    Args:
        folder: Made if it does not exist.
        max_calls: Largest number of replies that models on servers are asked for; no limit by default.

    Raises:
        UserError: The folder or its database cannot be used, or is not of this class.
    """

    def __init__(self, folder: str | Path, max_calls: int | None = None) -> None:
        self.path = Path(folder)
        self.hits = self.misses = 0
        self._max_calls, self._asked, self._in_progress = max_calls, 0, 0
        self._idle = asyncio.Event()  # nothing is in progress
        self._idle.set()
        self._broken = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="call-cache")  # the event loop never waits for the disk
        try:
            self._store = _opened(self.path)
        except (OSError, ValueError, sqlite3.Error) as error:
            raise UserError(
                f"the cache {self.path} cannot be used: {error}. Remove its folder, or choose another one."
            ) from error

    async def get(self, key: str) -> list[Completion] | None:
        """Return the replies stored under `key`, or None if there are none that can be read."""
        rows = await self._run("SELECT replies FROM calls WHERE key = ?", key)
        found = _decoded(rows[0][0]) if rows else None
        self.hits, self.misses = self.hits + (found is not None), self.misses + (found is None)
        return found

    async def put(self, key: str, completions: list[Completion]) -> None:
        """Store replies under `key`."""
        await self._run("REPLACE INTO calls VALUES (?, ?)", key, json.dumps([asdict(one) for one in completions]))

    @contextlib.asynccontextmanager
    async def counted(self, replies: int) -> AsyncIterator[None]:
        """Ask for replies and store them inside, within the limit.

        Raises:
            UserError: The limit would be exceeded; raised when all replies in progress have been stored.
        """
        if self._max_calls is not None and self._asked + replies > self._max_calls:
            await self._idle.wait()
            raise UserError(
                f"--max_calls {self._max_calls}: {self._asked} replies were asked for and are in {self.path}. "
                "The same command continues, with as many again."
            )
        self._asked += replies
        self._in_progress += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_progress -= 1
            if not self._in_progress:
                self._idle.set()

    def without_calls(self, model: ChatModel) -> ChatModel:
        """The model as this cache knows it: a reply that is not stored raises ModelError of the kind "not stored"."""
        if not isinstance(model, CachedModel):
            return model
        return CachedModel(_NeverAsked(model.model), model.identity, self)

    def close(self) -> None:
        self._thread.shutdown()
        self._store.close()

    async def _run(self, statement: str, *values: str) -> list[tuple] | None:
        if self._broken:
            return None
        try:
            work = asyncio.get_running_loop().run_in_executor
            return await work(self._thread, lambda: self._store.execute(statement, values).fetchall())
        except sqlite3.Error as error:
            if not self._broken:
                logger.warning("the cache %s is not used from now on: %s", self.path, error)
            self._broken = True
            return None


def _opened(folder: Path) -> sqlite3.Connection:
    """The database of a folder. Raises ValueError if it is not one that was made here, before anything is written."""
    path = folder / DATABASE
    folder.mkdir(0o700, parents=True, exist_ok=True)
    names = os.listdir(folder)
    if names and (DATABASE not in names or path.is_symlink() or not path.is_file()):
        raise ValueError("it holds other files and no cache of model calls")
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # because SQLite does not wait while another process makes the database
        store = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        store.text_factory = bytes  # because a damaged text may be no UTF-8
        store.execute("PRAGMA cell_size_check = ON")
        found = store.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        if not found:
            store.execute("PRAGMA journal_mode = WAL")
            store.execute(_TABLE)
        elif found != [(_TABLE.encode(),)]:
            raise ValueError(f"{DATABASE} is the database of another program")
        store.execute("PRAGMA synchronous = NORMAL")
        return store
    finally:
        os.close(lock)


def _decoded(content: Any) -> list[Completion] | None:
    """The replies of an entry; None if they are not as `CallCache.put` writes them."""
    try:
        return REPLIES.validate_json(content, strict=True)
    except (ValueError, RecursionError):
        return None


class CachedModel:
    """A ChatModel that looks into a cache before it asks `model`.

    Args:
        model: The model that is asked on a miss.
        identity: What distinguishes the model's replies from those of every other model.
        cache: May be shared with other models.
        paid: Whether its replies count for the cache's limit.
    """

    def __init__(self, model: ChatModel, identity: dict[str, Any], cache: CallCache, paid: bool = False) -> None:
        self.model, self.chat, self.identity, self.cache, self._paid = model, model.chat, identity, cache, paid

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
        """Return the model's own summary and the hits and misses of the cache, for all models that share it."""
        counts = {"cache": {"hits": self.cache.hits, "misses": self.cache.misses}}
        return getattr(self.model, "summary", dict)() | counts

    def waiting(self) -> str:
        """Return what the model waits for, for a progress line."""
        return getattr(self.model, "waiting", str)()

    async def close(self) -> None:
        await self.model.close()

    async def _look_up(
        self, prompt: dict[str, Any], sampling: Sampling, ask: Callable[[], Awaitable[list[Completion]]]
    ) -> list[Completion]:
        settings = asdict(sampling)
        if sampling.temperature == 0:
            del settings["seed"]
        asked = {"version": VERSION, "model": self.identity, "sampling": settings, **prompt}
        key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        found = await self.cache.get(key)
        if found is None or len(found) != sampling.n:
            async with self.cache.counted(sampling.n) if self._paid else contextlib.nullcontext():
                found = await ask()
                if any(without_thinking(one.text).strip() for one in found):  # else a retry would find silence again
                    await self.cache.put(key, found)
        return found


class _NeverAsked:
    """Stands for a model that is not to be asked."""

    def __init__(self, model: ChatModel) -> None:
        self.model, self.chat = model, model.chat

    async def check(self) -> None: ...

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        raise ModelError("not stored", "this reply is not in the cache.")

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        raise ModelError("not stored", "this reply is not in the cache.")

    async def close(self) -> None: ...
