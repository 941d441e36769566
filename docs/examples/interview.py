"""Interview: the agent has four questions to find out what a client cares about. docs/your_own_domain.md runs it.

    python docs/examples/interview.py --output_path tasks/train.jsonl --num_tasks 48 --seed 1
"""

import json
import random
import re
from pathlib import Path

from sweet_rl.cli import run
from sweet_rl.environments import AnswerEnvironment, Domain, ScriptedHuman
from sweet_rl.humans import HumanReply
from sweet_rl.rewards.base import FunctionGrader

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
PLACES = ("our shop", "our club", "our town", "my boss", "a friend", "the museum", "our company", "the office")


class Interview(AnswerEnvironment):
    """Ends when the questions are used up, or earlier if the agent writes `I WANT TO ANSWER:`."""

    def step(self, completion, prompt_text=None):
        super().step(completion, prompt_text)
        if self.over:
            said = [message["content"] for message in self.dialogue if message["role"] == "assistant"]
            self.ending, self.answer = "answered", "\n".join(said)  # what is graded: all that the agent asked


class Client:
    """The human: confirms what it cares about."""

    async def reply(self, task, dialogue, seed):
        cares = task.ground_truth.split(", ")
        found = [wish for wish in cares if re.search(WISHES[wish], dialogue[-1]["content"])]
        return HumanReply(f"Yes, I care about {found[0]}." if found else "I don't know.")


def reward(task, answer):
    """The share of the client's wishes that the agent asked about."""
    cares = task.ground_truth.split(", ")
    return sum(re.search(WISHES[wish], answer) is not None for wish in cares) / len(cares)


DOMAIN = Domain(
    name="interview",
    environment=Interview,
    scripted_humans={"client": ScriptedHuman(Client)},
    grader=lambda settings: FunctionGrader(reward),
    min_gap=0.3,
)


def main(output_path: str, num_tasks: int = 48, seed: int = 0) -> None:
    """Write tasks."""
    draw = random.Random(seed)
    wanted = [draw.choice([*CLIENTS]) for _ in range(num_tasks)]
    rows = [
        {"problem_description": f"I need a Python function for {draw.choice(PLACES)} that tells {words}",
         "ground_truth": ", ".join(CLIENTS[words]), "id": f"task-{seed}-{number}"}
        for number, words in enumerate(wanted)
    ]  # fmt: skip
    Path(output_path).parent.mkdir(parents=True, exist_ok=True)
    Path(output_path).write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    run(main)
