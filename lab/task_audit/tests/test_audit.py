"""The audit of task files, by the real sandbox."""

import json

import pytest

from lab.task_audit.audit import (
    BLANK,
    BLANK_PAGE,
    CHANCE,
    FAILS,
    NO_TESTS,
    NOT_DRAWN,
    OWN_TESTS,
    TRIVIAL,
    audit_code,
    audit_page,
    audit_pages,
    duplicates,
)
from lab.task_synthesis.duplicates import LIKE_DESCRIPTION, SAME_REFERENCE, SAME_TASK
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader
from sweet_rl.runs.records import Task
from tests.unit.dialogues.frontend.test_cosine_similarity import OTHER, PAGE, VECTORS, Browsers, Encoder

CALLS = {f"test{n}": f"f({n})" for n in range(1, 4)}
SQUARE = "def f(x):\n    return x * x\n"
TASKS = {
    "good": Task("Square a number, please.", SQUARE, CALLS),
    "none": Task("Nothing tests this one.", SQUARE),
    "fails": Task("Divide ten by something less than three.", "def f(x):\n    return 10 / (3 - x)\n", CALLS),
    "chance": Task("Draw a number at random.", "import random\ndef f(x):\n    return random.random()\n", CALLS),
    "constant": Task("Is it above nine?", "def f(x):\n    return x > 9\n", CALLS),
    "first": Task("Give it back.", "def f(x, y=0):\n    return x\n", CALLS),
    "same value": Task("Tell what we are called.", "def f(x):\n    return 'SECRET NAME'\n", CALLS),
    "repeated": Task("Cube a number, but ask for one number often.", "def f(x):\n    return x ** 3\n",
                     {"test1": "f(2)", "test2": "f(3)", "test3": "f(2)"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def audits():
    with CodeGrader(workers=2) as one, CodeGrader(workers=2) as other:
        found = list(audit_code(list(TASKS.values()), [one, other]))
    assert [audit.task for audit in found] == list(TASKS.values()) and not any(audit.machine for audit in found)
    return {name: audit.to_dict() for name, audit in zip(TASKS, found, strict=True)}


def test_each_task_is_flagged_for_its_own_reason_and_a_good_one_for_none(audits):
    kinds = {name: list(row["reasons"]) for name, row in audits.items()}
    assert kinds == {
        "good": [], "none": [NO_TESTS], "fails": [FAILS], "chance": [CHANCE], "constant": [TRIVIAL],
        "first": [TRIVIAL], "same value": [TRIVIAL], "repeated": [],
    }  # fmt: skip
    assert audits["constant"]["reasons"][TRIVIAL] == "return False"
    assert audits["first"]["reasons"][TRIVIAL].startswith("return a[0]")
    assert audits["fails"]["reasons"][FAILS].startswith("test3: exception")


def test_the_reward_of_the_best_trivial_answer_and_repeated_calls_are_measured(audits):
    assert audits["good"]["trivial_reward"] == pytest.approx(1 / 3)  # 1 for 1 * 1
    assert (audits["repeated"]["distinct_tests"], audits["repeated"]["tests"]) == (2, 3)
    assert audits["fails"]["trivial_reward"] is None


def test_a_reference_that_a_second_run_contradicts_is_flagged():
    class Later(CodeGrader):
        """Grades as on another day, on which the reference is another one."""

        def grade_many(self, jobs):
            later = SQUARE.replace("x * x", "x * x + 1")
            return super().grade_many((Task(task.problem_description, later, CALLS), answer) for task, answer in jobs)

    with CodeGrader(workers=1) as one, Later(workers=1) as other:
        (audit,) = audit_code([TASKS["good"]], [one, other])
    assert audit.reasons == {OWN_TESTS: "test1: wrong value"}


def test_duplicates_are_found_within_and_across_files():
    copy = Task("Square a number, please.", SQUARE, CALLS, id="copy")
    renamed = Task("A wholly different text about areas.", SQUARE.replace("f(x)", "g(y)").replace("x", "y"), CALLS)
    words = "We would like to have a number squared as quickly as you possibly can, thank you"
    one = Task(words, "def f(x):\n    return x + 1\n", CALLS)
    like = Task(words + " all", "def f(x):\n    return x + 2\n", CALLS)
    good = TASKS["good"].id
    found = duplicates({"test.jsonl": [TASKS["good"], copy, one], "train.jsonl": [TASKS["good"], renamed, like]})
    assert found == {
        ("test.jsonl", "copy"): {SAME_TASK: good},
        ("train.jsonl", good): {SAME_TASK: f"{good}, test.jsonl"},
        ("train.jsonl", renamed.id): {SAME_REFERENCE: f"{good}, test.jsonl"},
        ("train.jsonl", like.id): {LIKE_DESCRIPTION: f"{one.id}, test.jsonl"},
    }


def test_pages_are_compared_by_their_text():
    pages = [Task(f"page {n}", "<html><body>\n  <p>hello</p></body></html>".replace("\n", " " * n)) for n in (1, 2)]
    pages.append(Task("another", "<html><body><p>bye</p></body></html>"))
    assert duplicates({"a": pages}) == {("a", pages[1].id): {SAME_REFERENCE: pages[0].id}}


def test_the_page_has_counts_and_ids_but_no_text_of_a_task(audits):
    rows = [row | {"file": "some.jsonl"} for row in audits.values()]
    page = audit_page(rows, "python -m lab.task_audit.audit_tasks", "Each reference was run 2 times")
    assert "| some.jsonl | 8 | 2 | 6 |" in page and f"| {TRIVIAL} | 3 |" in page
    assert f"| {TASKS['first'].id} | some.jsonl | {TRIVIAL} | return a[0] if a else None |" in page
    assert "SECRET" not in page and "division" not in page and "SECRET" not in json.dumps(rows)
    assert "repeated (not left out): 1" in page


def test_pages_that_are_as_good_as_blank_or_cannot_be_drawn_are_flagged(monkeypatch):
    monkeypatch.setitem(VECTORS, BLANK_PAGE, [0.6, 0.8])  # that of OTHER; its cosine with PAGE is 0.6
    tasks = [Task("a", PAGE), Task("b", OTHER), Task("c", "<html>slow</html>")]
    graders = [PageGrader(Browsers(), Encoder()) for _ in range(2)]
    found = list(audit_pages(tasks, graders, 0.1))
    assert [audit.reasons for audit in found] == [{}, {BLANK: "similarity 1.000"}, {NOT_DRAWN: "timeout"}]
    assert found[0].trivial_reward == pytest.approx(0.6)
    (busy,) = audit_pages([Task("d", "<html>busy</html>")], graders, 0.1)
    assert busy.machine == "no processor"
