"""What the grader said about an answer, test by test, and the answer's code as the grader takes it."""

from __future__ import annotations

import re

from sweet_rl.records import Trajectory
from sweet_rl.rewards.extract import code_candidates, function_name

TOLD = ("passed", "reason", "message", "expected", "got")
LONGEST_CODE = 200_000  # characters; what is longer is shown as it is
SEEN = re.compile(r"expected (.*), got (.*)", re.DOTALL)


def grade_view(trajectory: Trajectory) -> dict | None:
    """{failure, ungradable, level, tests}; a test is {name, call} and, as far as known, the fields of TOLD.

    Tests of dialogues that were not graded have their call alone; None where the task has no tests.
    """
    grade = trajectory.grade
    grade = grade if isinstance(grade, dict) else {}
    calls = trajectory.task.test_cases
    if not calls and (not grade or "similarity" in grade):
        return None
    results = grade.get("tests")
    found = {t.get("name"): t for t in results if isinstance(t, dict)} if isinstance(results, list) else {}
    tests = [_test(name, call, found.get(name, {})) for name, call in calls.items()]
    return {name: grade.get(name) for name in ("failure", "ungradable", "level")} | {"tests": tests}


def _test(name: str, call: str, result: dict) -> dict:
    test = {"name": name, "call": call}
    test |= {key: result[key] for key in TOLD if result.get(key) is not None}
    seen = SEEN.fullmatch(str(test.get("message", ""))) if "expected" not in test and "got" not in test else None
    if seen and test.get("reason") == "wrong value":
        test["expected"], test["got"] = seen[1], seen[2]
        del test["message"]
    return test


def answer_code(trajectory: Trajectory) -> str | None:
    """The code in the answer that the grader runs; the whole answer where it holds none; None without an answer."""
    answer = trajectory.answer
    if trajectory.ending == "turn_limit" or answer is None:
        return None
    if len(answer) > LONGEST_CODE:
        return answer
    function = function_name(trajectory.task.ground_truth, trajectory.task.test_cases)
    return next(iter(code_candidates(answer, function)), answer)
