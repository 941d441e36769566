"""A server with the OpenAI API that answers by rules and fails in every way that the client handles.

    python tests/support/chaos_server.py PORT SHARE_OF_FAILURES [SECONDS_PER_CALL]

A reply depends on the messages and the seed only, so that every run gets the same replies.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys

from aiohttp import web

MODEL = "chaos"
STALL = 2.5  # seconds; longer than the client waits


def say(body: dict) -> str:
    """Return a message: the agent asks two to six times and answers, the human names a number."""
    messages = body["messages"]
    draw = random.Random(hashlib.sha256(json.dumps([messages, body["seed"]]).encode()).digest())
    if "<hidden_code>" in messages[-1]["content"]:
        return f"It is {draw.randrange(10**6)}, I think."
    asked = sum(message["role"] == "assistant" for message in messages)
    if asked >= 2 and draw.random() < 0.4 or asked == 6:
        return f"I WANT TO ANSWER:\ndef f(x):\n    return {draw.randrange(10**6)}"
    return f"What is number {draw.randrange(10**6)}?"


def refusal(status: int, message: str, code: str | None = None, **headers: str) -> web.Response:
    error = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return web.json_response(error, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


async def dropped(request: web.Request, reply: bytes) -> web.StreamResponse:
    """Break the connection, before the response or within it."""
    if random.random() < 0.5:
        response = web.StreamResponse(headers={"Content-Length": str(len(reply)), "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(reply[: len(reply) // 2])
    request.transport.abort()
    return web.Response()


async def stalled(request: web.Request, reply: bytes) -> web.Response:
    await asyncio.sleep(STALL)
    return web.Response(body=reply, content_type="application/json")


async def torn(request: web.Request, reply: bytes) -> web.Response:
    return web.Response(body=reply[: len(reply) // 2], content_type="application/json")


def answers(response) -> object:
    async def answer(request: web.Request, reply: bytes) -> web.Response:
        return response()

    return answer


SERVER_FAULTS = [
    answers(lambda: refusal(500, "internal error")),
    answers(lambda: refusal(502, "<html>bad gateway</html>")),
    answers(lambda: refusal(503, "starting", retry_after="0.05")),
    answers(lambda: refusal(429, "slow down", retry_after_ms="50")),
    answers(lambda: refusal(408, "request timeout")),
    answers(lambda: web.json_response({"error": {"message": "Upstream overloaded", "code": 502}})),
    answers(lambda: refusal(400, "obscene", code="content_filter")),
    answers(lambda: web.json_response({"choices": []})),
    answers(lambda: web.json_response([1])),
    answers(lambda: web.Response(body=b"<html>hello</html>")),
    torn, dropped, dropped, stalled,
]  # fmt: skip


def serve(port: int, share: float, seconds: float) -> None:
    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text = say(body)
        message = {"role": "assistant", "content": text}
        reply = {
            "id": "1", "object": "chat.completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": len(str(body["messages"])) // 4, "completion_tokens": len(text) // 4},
        }  # fmt: skip
        await asyncio.sleep(random.expovariate(1 / seconds) if seconds else 0)
        if random.random() < share:
            return await random.choice(SERVER_FAULTS)(request, json.dumps(reply).encode())
        return web.json_response(reply)

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", complete), web.get("/v1/models", models)])
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None, reuse_address=True, shutdown_timeout=0)


if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
