"""The scripted human of the mini tasks behind the OpenAI API: a recipe can be tried without a large model.

    python benchmarks/serve_mini_human.py --tasks runs/mini/tasks/train.jsonl,runs/mini/tasks/test.jsonl --port 8000
    python scripts/simulate_interactions.py --agent_model mini --agent_prompt_path mini_agent.txt \
        --env_model mini-human --hostname localhost:8000 \
        --input_path runs/mini/tasks/train.jsonl --output_path trajectories.jsonl

It knows the tasks of make_mini_tasks.py that it was started with, and serves until it is ended.
"""

from __future__ import annotations

import random
import re
import time

from aiohttp import web

from sweet_rl.dialogues.mini.human import answer
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import Task, read_records

MODEL = "mini-human"
_SPEAKER = re.compile(r"(?:^|\n\n)(Engineer|You): ")


def reply_to(prompt: str, rules: dict[str, dict], seed: int) -> str:
    """The human's reply to a prompt that was made with sweet_rl/models/prompts/code_user.txt.

    Args:
        prompt: The prompt.
        rules: Field `mini` of each task by its reference solution.
        seed: Random seed of the choice of words.

    Raises:
        ValueError: It is no such prompt, or of no known task.
    """
    _, _, rest = prompt.partition("<hidden_code>\n")
    code, _, rest = rest.partition("\n</hidden_code>")
    _, _, rest = rest.partition("<conversation>\n")
    conversation, closed, _ = rest.rpartition("\n</conversation>")  # the last one: an engineer may write one, too
    if not closed or code.strip() not in rules:
        raise ValueError("this human answers the prompt of code_user.txt for the tasks it was started with, no other")
    _, *parts = _SPEAKER.split(conversation)
    said = [text for speaker, text in zip(parts[::2], parts[1::2], strict=True) if speaker == "Engineer"]
    return answer(rules[code.strip()], said[-1] if said else "", random.Random(seed), said[:-1])


def main(tasks: list[str], port: int = 8000, host: str = "127.0.0.1") -> None:
    """Serve the human.

    Args:
        tasks: Files of mini tasks, separated by commas.
        port: Port of the server.
        host: Address on which it listens.
    """
    rules: dict[str, dict] = {}
    for path in tasks:
        read = read_records(path, Task)
        rules |= {task.ground_truth.strip(): task.extra["mini"] for task in read}

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        try:
            text = reply_to(body["messages"][-1]["content"], rules, body.get("seed") or 0)
        except ValueError as error:
            return web.json_response({"error": {"message": str(error), "type": "invalid_request_error"}}, status=400)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        kind = {"id": "1", "object": "chat.completion", "created": int(time.time()), "model": MODEL}
        return web.json_response({**kind, "choices": [choice], "usage": usage})

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", complete), web.get("/v1/models", models)])
    web.run_app(app, host=host, port=port, print=None, access_log=None)


if __name__ == "__main__":
    run(main)
