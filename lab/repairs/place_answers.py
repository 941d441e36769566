"""Between steps 5 and 6: answers are placed by their reward, which can be known; the critic orders the questions.

    python -m lab.repairs.place_answers --task_type mini --input_path ranked.jsonl --output_path placed.jsonl

A candidate that ends the dialogue has a reward of its own. With a reward of 1 it stands above all questions of its
turn, because no question can lead to more; with a lower one it stands below them. Among answers, and among questions,
the order stays.
"""

from __future__ import annotations

import random
from dataclasses import replace

from lab.ciphered.tasks import write_rows
from sweet_rl.cli import run
from sweet_rl.credit.advantage import order_by_score
from sweet_rl.domains import Domain
from sweet_rl.domains.backend.environment import CodeGrading
from sweet_rl.errors import UserError
from sweet_rl.models import Completion
from sweet_rl.progress import progress_bar
from sweet_rl.records import Task, TurnCandidates, read_records, seed_for
from sweet_rl.task_types import load_domain

Answer = tuple[Task, str]


def answer_of(domain: Domain, task: Task, text: str) -> str | None:
    """The answer in a message of the agent that ends a dialogue; None if it does not end one."""
    environment = domain.begin(domain.agent_template(), max_turns=2)(task)
    environment.step(Completion(text, None, None, "stop"))
    return environment.answer if environment.ending == "answered" else None


def placed(scores: list[float], rewards: list[float | None]) -> list[float]:
    """The scores, with right answers moved above all others and wrong answers below.

    Args:
        scores: The critic's score of each candidate.
        rewards: The reward of each candidate that is an answer; None for a question.
    """
    shift = 1 + max(scores) - min(scores)
    return [
        score if reward is None else score + (shift if reward == 1.0 else -shift)
        for score, reward in zip(scores, rewards, strict=True)
    ]


def main(
    input_path: str, output_path: str, task_type: str = "mini", random_questions: bool = False, seed: int = 0
) -> None:
    """Write ranked candidates again, with answers placed by their reward.

    Args:
        input_path: Ranked candidates.
        output_path: The same, placed.
        task_type: Domain of the tasks.
        random_questions: Draw the scores of all candidates at random before (a control: what is the critic for?).
        seed: Seed of that draw.
    """
    domain, records = load_domain(task_type), list(read_records(input_path, TurnCandidates))
    if not all(record.task and record.judge_scores for record in records):
        raise UserError(f"{input_path}: expected ranked candidates with their tasks. Run rank_best_of_n.py first.")
    answers: dict[tuple[str, str], Answer] = {}
    for record in records:
        for text in dict.fromkeys(record.additional_outputs):
            if (answer := answer_of(domain, record.task, text)) is not None:
                answers[record.task.id, text] = (record.task, answer)
    with domain.grader(CodeGrading()) as grader:
        grades = list(progress_bar(grader.grade_many(answers.values()), total=len(answers), desc="answers"))
    if any(grade.reward is None for grade in grades):
        raise UserError("an answer could not be graded on this machine: see evaluate_code.py.")
    rewards = {key: grade.reward for key, grade in zip(answers, grades, strict=True)}
    rows = []
    for record in records:
        scores = list(record.judge_scores)
        if random_questions:
            draw = random.Random(seed_for(seed, record.id, "random_questions"))
            by_text = {text: draw.random() for text in dict.fromkeys(record.additional_outputs)}
            scores = [by_text[text] for text in record.additional_outputs]
        scores = placed(scores, [rewards.get((record.task.id, text)) for text in record.additional_outputs])
        rows.append(replace(record, judge_scores=scores, judge_result=order_by_score(scores)).to_dict())
    write_rows(output_path, rows)
    right = sum(reward == 1.0 for reward in rewards.values())
    print(f"{output_path}: {len(rows)} turns; {len(answers)} answers, {right} of them right")


if __name__ == "__main__":
    run(main)
