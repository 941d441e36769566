"""The domain Backend Programming."""

import pytest

from sweet_rl.dialogues.backend.environment import DOMAIN, CodeGrading
from sweet_rl.dialogues.backend.released_rules import PaperGrader
from sweet_rl.models.base import Completion
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

TASK = Task("Sum a list {max_turns}: def f(x)", "def f(x): return sum(x)", {"t": "f([1])"})


def test_the_first_message_holds_the_task_and_the_number_of_turns_but_not_the_solution():
    (opening,) = DOMAIN.begin(DOMAIN.agent_template(), 7)(TASK).observe()
    assert opening["role"] == "user"
    assert TASK.problem_description in opening["content"] and "at most 7 messages" in opening["content"]
    assert TASK.ground_truth not in opening["content"]


def test_the_answer_is_all_that_follows_the_marker():
    environment = DOMAIN.begin(DOMAIN.agent_template(), 3)(TASK)
    code = "```python\ndef f(x):\n    print('OUTPUT: 3')\n    return 'OUTPUT:'\n```"
    environment.step(Completion(f"Here it is.\nI WANT TO ANSWER:\n{code}\n", None, None, "stop"))
    assert (environment.over, environment.ending, environment.answer) == (True, "answered", code)


def test_tasks_without_tests_are_refused():
    DOMAIN.check([Task("a", "b"), TASK], "x.jsonl")
    with pytest.raises(UserError, match="x.jsonl: no task has test_cases"):
        DOMAIN.check([Task("a", "b")], "x.jsonl")


def test_the_settings_reach_the_grader():
    with DOMAIN.grader(CodeGrading(timeout=2.5, memory_mb=99, workers=3)) as grader:
        assert (grader.timeout, grader.memory_mb, grader.workers) == (2.5, 99, 3)
        assert not isinstance(grader, PaperGrader)
    with DOMAIN.grader(CodeGrading(paper_grader=True)) as grader:
        assert isinstance(grader, PaperGrader)
