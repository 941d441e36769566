"""Dialogues about mini tasks, played by a script and graded for real, as files of the pipeline."""

from __future__ import annotations

import random
from functools import lru_cache

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.mini.human import answer
from sweet_rl.dialogues.mini.oracle import usefulness
from sweet_rl.dialogues.mini.tasks import family_of, make_tasks, rules_of, source
from sweet_rl.dialogues.mini.worlds import TOPIC_BY_NAME
from sweet_rl.evaluation.evaluate import grade_trajectories
from sweet_rl.runs.records import Task, Trajectory

OPEN, CLOSE = {"user": "<|user|>", "assistant": "<|assistant|>"}, "<|end|>"


def play(row: dict, asked: int, sample: int, answers: bool = True) -> Trajectory:
    """A dialogue that asks for `asked` hidden rules after one useless question, then answers with them, or never."""
    task = Task.from_dict(row)
    mini = row["mini"]
    rules = rules_of(mini)
    draw = random.Random(sample)
    history = [{"role": "user", "content": task.problem_description}]
    questions = ["Which style guide do you follow?", *(TOPIC_BY_NAME[r.topic].questions[0] for r in rules[:asked])]
    for question in questions:
        say(history, question, mini)
        history.append({"role": "user", "content": answer(mini, question, draw)})
    code = None
    if answers:
        code = source(family_of(mini), rules[:asked])
        say(history, f"I WANT TO ANSWER:\n{code}", mini)
    ending = "answered" if answers else "turn_limit"
    return Trajectory(task, history, answer=code, id=f"{task.id}-{sample}", ending=ending)


def say(history: list[dict], text: str, mini: dict) -> None:
    """Append a message of the agent with its exact prompt and the oracle's word, as a recorded dialogue has them."""
    word = usefulness(mini, history, text)
    prompt = "<|begin|>" + "".join(f"{OPEN[m['role']]}{m['content']}{CLOSE}" for m in history) + OPEN["assistant"]
    history.append({"role": "assistant", "content": text, "input": prompt, "output": text, "finish_reason": "stop",
                    "oracle": word})  # fmt: skip


@lru_cache
def graded(tasks: int = 6, seed: int = 5, shift: int = 0) -> tuple[Trajectory, ...]:
    """Two dialogues per task: one that asks for every rule and solves it, one that asks for fewer, or never answers."""
    played = []
    for number, row in enumerate(make_tasks(tasks, seed)):
        rules = len(row["mini"]["rules"])
        played.append(play(row, rules if shift == 0 else max(0, rules - (number % 2)), 0))
        played.append(play(row, number % rules, 1, answers=number % 3 != 2))
    played[-1].ending, played[-1].answer = "failed", None
    played[-1].failure = {"kind": "connection", "message": "the server gave out", "side": "human"}
    with CodeGrader(workers=1) as grader:
        return tuple(grade_trajectories(played, grader))
