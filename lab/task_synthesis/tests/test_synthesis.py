"""New tasks from a corpus: every reason to drop a proposal, duplicates, and the order that does not matter."""

import json
import random

import pytest

from lab.task_synthesis.duplicates import Duplicates
from lab.task_synthesis.synthesis import Dropped, Passages, propose, select, trivial_answers
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

REFERENCE = "def fee(amount, member):\n    rate = 3 if member else 7\n    return min(amount * rate, 500)\n"
CALLS = [f"fee({number}, {number % 2 == 0})" for number in range(1, 11)]
DESCRIPTION = "I need the fee for a payment. It depends on the amount and on who pays."


def reply(reference=REFERENCE, description=DESCRIPTION, tests=CALLS, **more) -> str:
    return json.dumps({"description": description, "reference": reference, "tests": tests, **more})


def task(reference=REFERENCE, tests=CALLS) -> Task:
    return propose(reply(reference, tests=tests), len(tests))


@pytest.mark.parametrize(
    "text",
    [reply(), f"Here it is:\n```json\n{reply()}\n```\nEnjoy {{it}}!", '{"a": 1} ' + reply().replace("\\n", "\n")],
)
def test_a_proposal_is_read_from_json_with_or_without_things_around_it(text):
    found = propose(text, 10)
    assert found.ground_truth == REFERENCE
    assert found.problem_description == f"{DESCRIPTION}\nThe signature of the function is: def fee(amount, member)"
    assert found.test_cases["test1"] == "fee(1, False)" and len(found.test_cases) == 10


@pytest.mark.parametrize(
    "text, reason",
    [
        ("I cannot do that.", "no JSON"),
        ('{"reference": "def f(): ', "no JSON"),
        (reply(description=None), "missing or of the wrong type"),
        (reply(tests="fee(1)"), "missing or of the wrong type"),
        (reply(tests=CALLS[:9]), "not the number"),
        (reply(tests=CALLS[:9] * 2), "not the number"),
        (reply(tests=["fee(1, True)"] * 10), "not the number"),
        (reply(reference="def fee(:"), "no Python"),
        (reply(tests=[*CALLS[:9], "fee(1"]), "no call of"),
        (reply(reference="x = 1\n" * 60 + REFERENCE), "too long"),
        (reply(tests=[*CALLS[:9], "open('x')"]), "no call of"),
        (reply(tests=[*CALLS[:9], "fee(1, True) + 1"]), "no call of"),
        (reply(tests=[*CALLS[:9], "fee(1, True) == 3"]), "no call of"),
        (reply(reference="class fee:\n    pass\n"), "no call of"),
        (reply(description="It is return min(amount * rate, 500) in the end."), "gives the reference away"),
        (reply(reference="(" * 5000 + ")" * 5000), "no Python"),
    ],
)
def test_what_does_not_read_as_a_task_is_dropped_for_its_reason(text, reason):
    with pytest.raises(Dropped, match=reason):
        propose(text, 10)


def test_the_same_code_under_other_names_and_nearly_the_same_words_are_duplicates():
    seen = Duplicates()
    assert seen.add(task())
    renamed = REFERENCE.replace("fee", "toll").replace("amount", "sum_").replace("rate", "r")
    other = "def fee(amount, member):\n    return amount % 11 + 2 * member\n"
    words = "Somebody has to tell me what a crossing costs for one car and for a lorry with so many axles."
    for reference, description, new in (
        (renamed.replace("return", "# a comment\n    return"), words, False),
        (other, DESCRIPTION.replace("payment.", "payment, please."), False),
        (other, words, True),
        (other.replace("11", "13"), "Which of the lamps in my corridor burn after so many switches?", True),
    ):
        calls = [call.replace("fee", "toll") for call in CALLS] if "toll" in reference else CALLS
        assert seen.add(propose(reply(reference, description, calls), 10)) is new


def test_references_that_are_no_python_are_duplicates_if_their_words_are():
    seen = Duplicates()
    pages = ["<h1>a red  page</h1>", "<h1>a red\npage</h1>", "<h1>a blue page</h1>"]
    described = ["Something with a red title.", "A page that shouts at people.", "Blue is what it ought to be."]
    assert [seen.add(Task(text, page, {})) for text, page in zip(described, pages, strict=True)] == [True, False, True]


def test_what_is_selected_does_not_depend_on_the_order_of_the_candidates():
    rows = [{"number": n, "task": task(REFERENCE.replace("500", str(500 + n // 2))).to_dict()} for n in range(6)] + [
        {"number": n, "task": None, "dropped": "no JSON"} for n in range(6, 9)
    ]
    for row in rows[:6]:
        row["task"]["problem_description"] = f"{random.Random(row['number'] // 2).random()} " * 4
    first, reasons = select(rows, limit=2)
    assert [t.ground_truth for t in first] == [REFERENCE, REFERENCE.replace("500", "501")]
    assert reasons == {"like a task before it": 3, "no JSON": 3}
    for seed in range(5):
        mixed = rows[:]
        random.Random(seed).shuffle(mixed)
        assert select(mixed, limit=2) == (first, reasons)
    without, _ = select(rows, known=[Task.from_dict(rows[0]["task"])])
    assert [t.ground_truth for t in without] == [REFERENCE.replace("500", "501"), REFERENCE.replace("500", "502")]


def test_the_last_trivial_answer_repeats_the_reference_for_the_first_test():
    *_, last = trivial_answers(task(), "fee")
    answer: dict = {}
    exec(last, answer)
    assert answer["fee"](10, True) == answer["fee"](1, False) == 7


def test_passages_are_drawn_by_seed_from_all_texts(tmp_path):
    (tmp_path / "a.txt").write_text("alpha " * 500)
    (tmp_path / "b.jsonl").write_text(json.dumps({"body": "beta \u2028" * 500}, ensure_ascii=False) + "\n\n")
    passages = Passages.read(tmp_path, "body")
    drawn = [passages.draw(number, 0) for number in range(40)]
    assert drawn == [passages.draw(number, 0) for number in range(40)] != [passages.draw(n, 1) for n in range(40)]
    assert {text.split()[0] for text in drawn} == {"alpha", "beta"} and max(map(len, drawn)) <= 1500
    assert Passages(["a short text"]).draw(0, 0) == "a short text"
    with pytest.raises(UserError, match="line 1.*text_field"):
        Passages.read(tmp_path)
    (tmp_path / "empty.txt").write_text(" ")
    for name, said in (("empty.txt", "holds no text"), ("missing", "cannot be read")):
        with pytest.raises(UserError, match=said):
            Passages.read(tmp_path / name)
