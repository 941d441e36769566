"""Interview: the agent has four questions to find out what a client cares about (docs/your_own_domain.md).

python interview.py --output_path train.jsonl --num_tasks 24 --seed 1
"""

import json
import random
import re
from pathlib import Path

from sweet_rl.dialogues import AnswerEnvironment, Domain, HumanReply
from sweet_rl.models.base import Sampling
from sweet_rl.runs.cli import run

WISHES = {  # what a client can care about, and the words by which a question about it is known
    "free units": "free|allowance|not counted|left out",
    "the price": "rate|price|single|multiply",
    "a maximum": "maximum|most|highest|capped",
    "a minimum": "minimum|least|lowest|floor",
    "rounding": "round|full steps|multiple",
    "exceptions": "flag|special|exception|second argument",
    "extras": "bonus|reward|bundle|extra",
    "sharing": "shared|split|divide",
}
CLIENTS = {  # what is wanted, and what the client who wants it cares about
    "the cost of parking a car.\ndef parking_fee(hours, resident)": ("free units", "the price", "a maximum"),
    "the cost of a taxi ride.\ndef taxi_fare(distance, night)": ("the price", "a minimum", "rounding"),
    "the points of a shopper.\ndef loyalty_points(amount, gold)": ("extras", "exceptions", "a maximum"),
    "the tips that each waiter gets.\ndef tip_share(amount, trainee)": ("sharing", "exceptions", "a minimum"),
}


def found(task, text):
    """The client's wishes that a text asks about."""
    return [wish for wish in task.ground_truth.split(", ") if re.search(WISHES[wish], text)]


class Interview(AnswerEnvironment):
    def step(self, completion, prompt_text=None):
        super().step(completion, prompt_text)
        if self.over:  # graded is all that the agent has asked
            self.ending = "answered"
            self.answer = "\n".join(m["content"] for m in self.dialogue if m["role"] == "assistant")


class Client:  # --env_model client: a human without a model
    async def reply(self, task, dialogue, seed):
        wishes = found(task, dialogue[-1]["content"])
        return HumanReply(f"Yes, I care about {wishes[0]}." if wishes else "I don't know.")


class PlayedClient:  # any other --env_model: a chat model plays the human
    def __init__(self, model, human_prompt, settings):
        self.model, self.human_prompt = model, human_prompt

    async def reply(self, task, dialogue, seed):
        said = "\n".join(f"{message['role']}: {message['content']}" for message in dialogue)
        text = self.human_prompt.format(**vars(task), dialogue=said)
        completions = await self.model.complete([{"role": "user", "content": text}], Sampling(max_tokens=60, seed=seed))
        return HumanReply(completions[0].text)


def reward(task, answer):
    """The share of the client's wishes that the agent asked about."""
    return len(found(task, answer)) / len(task.ground_truth.split(", "))


DOMAIN = Domain(
    name="interview",
    environment=Interview,
    scripted_humans={"client": Client},
    human=PlayedClient,
    human_prompt="""You said: {problem_description}
You care about {ground_truth}. Say so only if you are asked, and reply to the last message in one sentence.
{dialogue}""",
    reward=reward,
    label_turn=lambda task, messages_before, text: "useful" if found(task, text) else "useless",
    min_gap=0.3,
)


def main(output_path: str, num_tasks: int = 48, seed: int = 0) -> None:
    draw, rows = random.Random(seed), []
    for number in range(num_tasks):
        wanted, place = draw.choice([*CLIENTS]), draw.choice(["our shop", "our club", "my boss", "a friend"])
        words, wishes = f"I need a Python function for {place} that tells {wanted}", ", ".join(CLIENTS[wanted])
        rows.append({"id": f"{seed}-{number}", "problem_description": words, "ground_truth": wishes})
    Path(output_path).write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    run(main)
