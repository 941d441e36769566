"""A server with the OpenAI API for benchmarks of dialogues: it answers by rules, after a wait that depends on the call.

The same call always has the same wait and reply, so that two ways of running dialogues can be compared on the same
work. Waits are log-normal; a median of 0 means no wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from aiohttp import web

MODEL = "rules"
FILLER = "It depends on what the value is used for later on, so please tell me what you have in mind there. " * 3


def turns_of(description: str) -> int:
    """Return the number of messages of the agent for a task: the one in its description, else 2 to 10."""
    _, _, count = description.partition("turns: ")
    digest = hashlib.sha256(description.encode()).digest()
    return int(count.split()[0]) if count else 2 + digest[0] % 9


def say(messages: list[dict]) -> str:
    """Return a question, the answer in the last turn, or the human's reply."""
    if "<hidden_code>" in messages[-1]["content"]:
        return "It is as you think. Please go on and ask about the next thing."
    asked = sum(message["role"] == "assistant" for message in messages)
    if asked + 1 >= turns_of(messages[0]["content"]):
        return "I WANT TO ANSWER:\n```python\ndef f(x):\n    return x\n```"
    return f"What about point {asked}? {FILLER}"


def wait_of(body: dict, median: float, p99: float) -> float:
    """Seconds, log-normal over calls."""
    digest = hashlib.sha256(json.dumps([body["messages"], body.get("seed")]).encode()).digest()
    return median * math.exp(random.Random(digest).gauss(0.0, math.log(p99 / median) / 2.3263))


@contextlib.contextmanager
def serving(median: float = 0.0, p99: float = 0.0) -> Iterator[str]:
    """Yield the URL of such a server in another process."""
    words = [sys.executable, str(Path(__file__)), str(median), str(p99)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()


def waited(url: str) -> float:
    """Return the seconds of all waits of a server since the last call of this function."""
    with urllib.request.urlopen(f"{url}/waited") as answer:
        return json.load(answer)["seconds"]


async def serve(median: float, p99: float) -> None:
    total = 0.0

    async def complete(request: web.Request) -> web.Response:
        nonlocal total
        body = json.loads(await request.read())
        if median:
            wait, start = wait_of(body, median, p99), time.monotonic()
            await asyncio.sleep(wait)
            total += time.monotonic() - start
        message = {"role": "assistant", "content": say(body["messages"])}
        reply = {
            "id": "1", "object": "chat.completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 500, "completion_tokens": 60},
        }  # fmt: skip
        return web.Response(body=json.dumps(reply).encode(), content_type="application/json")

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL}]})

    async def stop_watch(_: web.Request) -> web.Response:
        nonlocal total
        seconds, total = total, 0.0
        return web.json_response({"seconds": seconds})

    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", complete), web.get("/v1/models", models)])
    app.add_routes([web.get("/v1/waited", stop_watch)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2])))
