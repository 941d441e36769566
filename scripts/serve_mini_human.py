"""The scripted human of the mini tasks behind the OpenAI API, for a trial without a large model.

    python scripts/serve_mini_human.py --tasks runs/mini/tasks/train.jsonl,runs/mini/tasks/test.jsonl --port 8000
    python scripts/simulate_interactions.py --agent_model mini --agent_prompt_path mini_agent.txt \
        --env_model mini-human --hostname localhost:8000 \
        --input_path runs/mini/tasks/train.jsonl --output_path trajectories.jsonl

It knows the tasks of make_mini_tasks.py that it was started with, and serves until it is ended.
"""

from __future__ import annotations

from sweet_rl.runs.cli import run


def main(tasks: list[str], port: int = 8000, host: str = "127.0.0.1") -> None:
    """Serve the human.

    Args:
        tasks: Files of mini tasks, separated by commas.
        port: Port of the server.
        host: Address on which it listens.
    """
    from sweet_rl.dialogues.mini.human_server import serve

    serve(tasks, host, port)


if __name__ == "__main__":
    run(main)
