"""Tasks with a test that is no hidden test are found by the audit."""

from lab.task_audit.audit import NO_CALL, audit_code
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task


def test_a_task_whose_test_an_answer_would_judge_itself_is_flagged():
    task = Task("Halve it.", "def f(x):\n    return x / 2\n", {"a": "f(1)", "b": "[f(x) for x in (1, 2)] == [1, 2]"})
    with CodeGrader(workers=1) as grader:
        (audit,) = audit_code([task], [grader])
    assert audit.reasons == {NO_CALL: "b: it is neither the call of a name nor such a call == a literal"}
