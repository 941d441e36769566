"""ColBench as an OpenEnv server, for TRL, SkyRL and other trainers that take OpenEnv's environments.

    python scripts/serve_openenv.py --task_type mini --port 8000
    python scripts/serve_openenv.py --task_type code --input_path train.jsonl --human_model HUMAN \
        --human_hostname localhost:8001

It serves until it is ended. docs/integrations.md has a client. Needs pip install 'sweet_rl[openenv]'.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.integrations.benchmark import Benchmark, load_critic
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.errors import UserError


def main(
    benchmark: Benchmark,
    human_settings: Annotated[ModelSettings, prefix("human_")],
    human_model: str | None = None,
    critic: dict | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_sessions: int = 64,
) -> None:
    """Serve the tasks of one domain.

    Args:
        human_model: Model that plays the human where no script does.
        critic: Flags of score_turns.py for the critic that gives the turns their credit:
            '{"critic_type": "pmi", "model_id": "mini"}'. By default none.
        host: Address on which it listens.
        port: Port of the server.
        max_sessions: Largest number of sessions at the same time.
    """
    from sweet_rl.integrations.openenv import make_app, serve

    human = None
    if benchmark.scripted_human is None:
        if human_model is None:
            raise UserError("a model has to play the human of these tasks: name it with --human_model.")
        human = load_model(human_model, human_settings, CallSettings())
    scorer = None if critic is None else load_critic(critic, "--critic")
    serve(make_app(benchmark, human, human_model or "", scorer, max_sessions), host, port)


if __name__ == "__main__":
    run(main)
