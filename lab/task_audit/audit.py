"""Check a file of tasks: references that fail, tests that prove nothing, tasks that are there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from lab.task_synthesis.duplicates import Duplicates
from lab.task_synthesis.synthesis import trivial_answers
from sweet_rl.dialogues import Grade, Grader
from sweet_rl.dialogues.backend.calls import NO_TEST
from sweet_rl.dialogues.backend.extract_code import function_name
from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader
from sweet_rl.runs.records import Task

CHUNK = 32  # tasks that are graded together
NO_TESTS = "no tests"
FAILS = "the reference fails"
NO_CALL = "a test is neither a call nor a call compared with a literal"
CHANCE = "the reference gives different results on another run"
OWN_TESTS = "the reference, as an answer, does not pass its own tests"
TRIVIAL = "a trivial function passes all tests"
NOT_DRAWN = "the reference page cannot be drawn"
BLANK = "a blank page is as good as the reference"
BLANK_PAGE = "<html><body></body></html>"


@dataclass
class Audit:
    """What was found about one task.

    Attributes:
        task: The task.
        reasons: Reasons to leave it out: kind -> evidence.
        trivial_reward: Highest reward of a trivial answer; None if none was graded.
        distinct_tests: Number of different test calls.
        machine: What the machine did to a check; the task has to be audited again.
    """

    task: Task
    reasons: dict[str, str] = field(default_factory=dict)
    trivial_reward: float | None = None
    distinct_tests: int = 0
    machine: str | None = None

    def to_dict(self) -> dict:
        return {
            "id": self.task.id,
            "reasons": self.reasons,
            "trivial_reward": self.trivial_reward,
            "tests": len(self.task.test_cases),
            "distinct_tests": self.distinct_tests,
        }


def audit_code(tasks: Sequence[Task], graders: Sequence[Grader]) -> Iterator[Audit]:
    """Audit backend tasks, in order.

    Each reference is run on its tests, and graded as an answer, by each of the graders. The trivial answers of
    `synthesis.trivial_answers` are graded by the first one.
    """
    for chunk in _chunks(tasks):
        found = {task.id: Audit(task, distinct_tests=len(set(task.test_cases.values()))) for task in chunk}
        for grader in graders:
            references = grader.grade_many((task, task.ground_truth) for task in chunk)
            for task, grade in zip(chunk, references, strict=True):
                _judge_reference(found[task.id], grade)
        usable = [task for task in chunk if not found[task.id].reasons and found[task.id].machine is None]
        jobs = [(task, answer) for task in usable for answer in _trivial(task)]
        for (task, answer), grade in zip(jobs, graders[0].grade_many(iter(jobs)), strict=True):
            audit = found[task.id]
            audit.machine = audit.machine or grade.machine
            if grade.reward is not None:
                audit.trivial_reward = max(grade.reward, audit.trivial_reward or 0.0)
            if grade.reward == 1.0:
                audit.reasons.setdefault(TRIVIAL, answer.strip().rpartition("\n")[2].strip())
        yield from found.values()


def audit_pages(tasks: Sequence[Task], graders: Sequence[PageGrader], min_gap: float) -> Iterator[Audit]:
    """Audit frontend tasks, in order.

    Each reference page is drawn by each of the graders' browsers. A blank page is graded by the first grader; it is as
    good as the reference if their similarity is above 1 - `min_gap`.
    """
    for chunk in _chunks(tasks):
        found = {task.id: Audit(task) for task in chunk}
        drawn = [list(grader.renderer.render_all([task.ground_truth for task in chunk])) for grader in graders]
        for task, *pictures in zip(chunk, *drawn, strict=True):
            audit = found[task.id]
            failures = [picture.failure for picture in pictures if picture.failure]
            audit.machine = next((failure["message"] for failure in failures if failure["kind"] == "machine"), None)
            if failures:
                audit.reasons[NOT_DRAWN] = failures[0]["kind"]
            elif len({picture.png for picture in pictures}) > 1:
                audit.reasons[CHANCE] = "its pictures differ"
        usable = [task for task in chunk if NOT_DRAWN not in found[task.id].reasons]
        blank = graders[0].grade_many((task, BLANK_PAGE) for task in usable)
        for task, grade in zip(usable, blank, strict=True):
            audit = found[task.id]
            audit.machine, audit.trivial_reward = audit.machine or grade.machine, grade.reward
            if grade.reward is not None and grade.reward > 1 - min_gap:
                audit.reasons[BLANK] = f"similarity {grade.reward:.3f}"
        yield from found.values()


def duplicates(files: Mapping[str, Sequence[Task]]) -> dict[tuple[str, str], dict[str, str]]:
    """The tasks that are like an earlier one, in the same file or in one before it.

    Args:
        files: The tasks of each file, in the order of precedence.

    Returns:
        {(file, id): {kind: "ID of the earlier task, FILE"}}, where FILE is left out if it is the same.
    """
    seen, found, file_of = Duplicates(), {}, {}
    for name, tasks in files.items():
        for task in tasks:
            like = seen.like(task)
            if like is None:
                seen.add(task)
                file_of[task.id] = name
            else:
                kind, other = like
                found[name, task.id] = {kind: other if file_of[other] == name else f"{other}, {file_of[other]}"}
    return found


def count_reasons(rows: Sequence[dict]) -> dict[str, int]:
    """Number of tasks by reason; a task with two reasons counts for both."""
    return dict(Counter(kind for row in rows for kind in row["reasons"]).most_common())


def audit_page(rows: Sequence[dict], command: str, setting: str) -> str:
    """The findings as a page of Markdown: counts, and ids with their reasons. It holds no text of a task.

    Args:
        rows: Findings (`Audit.to_dict`), each with the name of its `file`.
        command: Command that made them.
        setting: How answers were graded, in one line.
    """
    files = dict.fromkeys(row["file"] for row in rows)
    flagged = [row for row in rows if row["reasons"]]
    lines = ["# Audit of tasks", "", "```bash", command, "```", "", f"{setting}.", ""]
    lines += ["| file | tasks | without a reason against them | left out |", "| --- | ---: | ---: | ---: |"]
    for file in files:
        own = [row for row in rows if row["file"] == file]
        out = sum(bool(row["reasons"]) for row in own)
        lines.append(f"| {file} | {len(own)} | {len(own) - out} | {out} |")
    lines += ["", "| reason | tasks |", "| --- | ---: |"]
    lines += [f"| {kind} | {count} |" for kind, count in count_reasons(rows).items()] or ["| none | 0 |"]
    rewards = [row["trivial_reward"] for row in rows if row["trivial_reward"] is not None]
    if rewards:
        half = sum(reward >= 0.5 for reward in rewards)
        lines += [
            "",
            f"The best trivial answer earns {sum(rewards) / len(rewards):.3f} on average over {len(rewards)} "
            f"tasks, and at least 0.5 on {half}.",
        ]
    repeated = [row for row in rows if row["distinct_tests"] < row["tests"]]
    if any(row["tests"] for row in rows):
        lines.append(f"Tasks in which a test call is repeated (not left out): {len(repeated)}.")
    if flagged:
        lines += ["", "| id | file | reason | evidence |", "| --- | --- | --- | --- |"]
        for row in flagged:
            lines += [
                f"| {row['id']} | {row['file']} | {kind} | {_public(kind, evidence)} |"
                for kind, evidence in row["reasons"].items()
            ]
    return "\n".join(lines) + "\n"


def _public(kind: str, evidence: str) -> str:
    """Evidence without the texts of the task: an error message can hold them."""
    if kind in (FAILS, NO_CALL, CHANCE, OWN_TESTS):
        return evidence.partition(":")[0]
    return evidence if kind != TRIVIAL or "_reference" not in evidence else "the reference's value for the first test"


def _judge_reference(audit: Audit, grade: Grade) -> None:
    audit.machine = audit.machine or grade.machine
    if grade.ungradable == "the task has no test cases":
        audit.reasons[NO_TESTS] = ""
    elif grade.ungradable and NO_TEST in grade.ungradable:
        audit.reasons[NO_CALL] = grade.ungradable.replace(f" {NO_TEST}", "")
    elif grade.ungradable and "different results" in grade.ungradable:
        audit.reasons[CHANCE] = grade.ungradable.partition(" for ")[2].partition(" on ")[0]
    elif grade.ungradable:
        audit.reasons[FAILS] = grade.ungradable.removeprefix("the reference fails ")
    elif grade.reward is not None and grade.reward < 1.0:
        failed = next(test for test in grade.evidence["tests"] if not test["passed"])
        audit.reasons.setdefault(OWN_TESTS, f"{failed['name']}: {failed['reason']}")


def _trivial(task: Task) -> Iterator[str]:
    name = function_name(task.ground_truth, task.test_cases)
    return iter(trivial_answers(task, name)) if name else iter(())


def _chunks(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    waiting = iter(tasks)
    while chunk := list(islice(waiting, CHUNK)):
        yield chunk
