"""Talk to an agent: you are the human of a task, and see the credit of each of its turns.

    python scripts/chat.py --agent_model mini
    python scripts/chat.py --agent_model runs/mini/sweet --critic runs/mini/critic --task 3 --output_path talk.jsonl
    python visualizers/visualize_dialogue_histories.py talk.jsonl

Any model or server does (--task_type code --input_path tasks.jsonl --agent_model NAME --agent_hostname URL). At the end
the hidden tests judge the answer.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.evaluation.chat import Chat, chosen_task
from sweet_rl.method.critics import CriticFlags
from sweet_rl.method.turn_credit import TurnScorer
from sweet_rl.models.base import Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.cli import prefix, run, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings

CRITIC_FLAGS = prefix("critic_", model_id="critic", critic_type="critic_type", critic_settings="critic_settings")


def main(
    agent_model: str,
    agent: Annotated[ModelSettings, prefix("agent_")],
    calls: CallSettings,
    sampling: Annotated[Sampling, prefix("", n=None)],
    step: Annotated[StepSettings, prefix("", limit=None, shard=None)],
    critic: Annotated[CriticFlags | None, CRITIC_FLAGS] = None,
    task_type: str = "mini",
    input_path: str | None = None,
    task: str = "0",
    max_turns: int = 10,
    output_path: str | None = None,
) -> None:
    """Talk to an agent.

    Args:
        agent_model: Agent: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        task_type: Domain: mini, code, or the path of a Python file with a DOMAIN.
        input_path: Tasks, JSONL; by default a mini task is made.
        task: Id of the task, or its number from 0.
        max_turns: Largest number of messages of the agent.
        output_path: Transcript, a trajectory that the viewer opens; by default none is written.
    """
    domain = load_domain(task_type)
    if domain.draws_pages:
        raise UserError("--task_type html: this dialogue is of text alone; the viewer shows pages.")
    chosen = chosen_task(domain, input_path, task)

    def play(output=None) -> dict:
        scorer = None if critic is None else TurnScorer(critic.chosen)
        model, prompt = load_model(agent_model, agent, calls), domain.agent_template(agent_model)
        trajectory = Chat(domain, chosen, model, prompt, sampling, max_turns, scorer).run()
        if output is not None:
            output.write(trajectory.to_dict())
        if (failure := trajectory.failure) is not None:
            raise UserError(f"{failure['side']}: {failure['message']}")
        return {"turns": trajectory.turns}

    if output_path is None:
        play()
        return
    settings = {"agent_model": agent_model, "task": chosen.id, "max_turns": max_turns} | to_settings(sampling=sampling)
    with open_run(output_path, settings, [], step.overwrite) as output:
        if output.finished:
            output.show()
        else:
            output.finish(play(output))


if __name__ == "__main__":
    run(main)
