"""Tests that do not come apart are found by the audit."""

from lab.task_audit.audit import APART, audit_code
from sweet_rl.domains.backend.hidden_tests import CodeGrader
from sweet_rl.records import Task


def test_a_task_whose_test_an_answer_would_judge_itself_is_flagged():
    task = Task("Halve it.", "def f(x):\n    return x / 2\n", {"a": "f(1)", "b": "[f(x) for x in (1, 2)] == [1, 2]"})
    with CodeGrader(workers=1) as grader:
        (audit,) = audit_code([task], [grader])
    assert audit.reasons == {APART: "b: a call of the answer depends on x, which the test itself binds"}
