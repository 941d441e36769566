"""evaluate_code.py and compare_runs.py by their command lines."""

import shutil

import pytest

from tests.support.command_line import call, check_call, read_rows, write_rows
from tests.support.released_files import LLAMA, trajectories

CODE = "def f(x):\n    return x + 1\n"
WRONG = "def f(x):\n    return 2 * x\n"


def task(number=0, reference=CODE):
    return {"id": f"t{number}", "problem_description": f"add {number}", "ground_truth": reference,
            "test_cases": {"test1": "f(1)", "test2": "f(3)"}}  # fmt: skip


def row(number, sample, answer, **more):
    text = f"I WANT TO ANSWER: {answer} {sample}"
    bos = {"text": "<s>", "train": False, "bos": True}
    parts = [bos, {"text": "add", "train": False}, {"text": text, "train": True}]
    history = [{"role": "user", "content": "add"}, {"role": "assistant", "content": text}]
    return {"id": f"t{number}-{sample}", "task": task(number), "dialogue_history": history, "answer": answer,
            "reward": 0.123, "ending": "answered", "parts": parts, "mine": [sample]} | more  # fmt: skip


ROWS = [
    row(0, 0, CODE),
    row(0, 1, WRONG),
    row(1, 0, WRONG, ending="turn_limit"),
    row(1, 1, None, ending="failed", failure={"kind": "timeout", "message": "late", "side": "human"}),
    row(2, 0, CODE, task=task(2, "import random\ndef f(x):\n    return random.random()")),
    row(2, 1, CODE, task=task(2, "import random\ndef f(x):\n    return random.random()")),
]


def evaluated(**flags) -> str:
    """What evaluate_code.py prints, with runs of spaces as one space."""
    return " ".join(check_call("evaluate_code.py", **flags).split())


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graded")
    source = write_rows(folder / "in.jsonl", ROWS)
    return folder, source, evaluated(input_path=source, output_path=folder / "out.jsonl", k=2, sandbox="seccomp")


def test_rewards_evidence_and_unknown_fields_are_in_the_output(graded):
    folder, source, _ = graded
    rows = read_rows(folder / "out.jsonl")
    assert [r["id"] for r in rows] == [r["id"] for r in ROWS]
    assert [r["reward"] for r in rows] == [1.0, 0.5, 0.0, None, None, None]
    assert [r["mine"] for r in rows] == [r["mine"] for r in ROWS]
    assert rows[1]["grade"]["tests"][1] == {
        "name": "test2", "passed": False, "reason": "wrong value", "message": "expected 4, got 6"}  # fmt: skip
    assert rows[2]["grade"]["failure"] == "no answer" and "different results" in rows[4]["grade"]["ungradable"]
    assert read_rows(source) == ROWS


def test_the_figures_are_printed(graded):
    out = graded[2]
    assert "success 25.0 %" in out and "tests passed 37.5 %" in out
    assert "best of 2, success: 100.0 %" in out and "leaves out 1 tasks" in out
    assert "no answer 1" in out and "timeout 1" in out and "ungradable tasks, not counted: 1" in out


@pytest.mark.parametrize("paper_grader", [False, True])
def test_a_task_with_a_test_that_is_no_hidden_test_is_named_and_not_counted(paper_grader, tmp_path, caplog):
    good, bad = task(0), task(1) | {"test_cases": {"test1": "f(1)", "test2": "abs(f(3) - 4) < 1e-6"}}
    source, path = write_rows(tmp_path / "tasks.jsonl", [good, bad]), tmp_path / "graded.jsonl"
    out = evaluated(input_path=source, output_path=path, grade_references=True, paper_grader=paper_grader)
    assert "success 100.0 %" in out and "ungradable tasks, not counted: 1" in out
    assert [row["reward"] for row in read_rows(path)] == [1.0, None]
    assert "task t1: test2 is no hidden test" in caplog.text


def test_answers_that_failed_by_the_machine_are_graded_again_alone(graded, tmp_path):
    folder, source, _ = graded
    rows = read_rows(folder / "out.jsonl")
    rows[1] |= {"reward": None, "grade": {"failure": None, "ungradable": None, "machine": "ran out of wall time"}}
    flags = {"input_path": source, "output_path": write_rows(tmp_path / "out.jsonl", rows)}
    shutil.copy(folder / "out.jsonl.manifest.json", tmp_path)
    assert "already complete" in evaluated(**flags)
    assert "success 25.0 %" in evaluated(**flags, retry_failed=True)
    again = read_rows(tmp_path / "out.jsonl")
    assert [row for row in again if row["id"] != "t0-1"] == [row for row in rows if row["id"] != "t0-1"]
    assert {row["id"]: row["reward"] for row in again}["t0-1"] == 0.5
    assert "already complete" in evaluated(**flags, retry_failed=True)


# A helper is not found in a function's scope, and a forbidden word earns 0; `return 0` passes 2 of 4 tests.
HELPER = "def plus(x):\n    return x + 1\ndef f(x):\n    return plus(x)\n"
RELEASED = trajectories(LLAMA)
RELEASED[0]["answer"] += "\n# I would print( it"


@pytest.mark.parametrize(
    ("protocol", "rows", "own", "paper"),
    [
        (
            "sweet_rl", [row(0, 0, CODE, protocol="sweet_rl"), row(0, 1, HELPER, protocol="sweet_rl")],
            [1.0, 1.0], [1.0, 0.0],
        ),
        ("released", RELEASED, [1.0, 0.5, 0.0] * 2, [0.0, 0.5, 0.0, 1.0, 0.5, 0.0]),
    ],
)  # fmt: skip
def test_dialogues_played_earlier_are_graded_anew_by_the_release_s_rules(protocol, rows, own, paper, tmp_path):
    played = write_rows(tmp_path / "played.jsonl", rows)
    first, again = tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    evaluated(input_path=played, output_path=first)
    assert [one["reward"] for one in read_rows(first)] == own
    for path in (played, first):  # also dialogues that were graded before
        evaluated(input_path=path, output_path=again, paper_grader=True, overwrite=True)
        assert [one["reward"] for one in read_rows(again)] == paper
        assert {one["grade"]["rules"] for one in read_rows(again)} == {"paper"}
    shown = check_call("compare_runs.py", runs=f"zero-shot={again}", paper="table2")
    (here,) = [line for line in shown.splitlines() if line.startswith("here: ")]
    assert f"protocol {protocol}, " in here and "the released rules of grading" in here
    assert ", the rules of sweet_rl, " in check_call("compare_runs.py", str(first), paper="table2")


def test_dialogues_of_two_protocols_are_compared_only_if_asked(tmp_path):
    spoken = row(0, 0, CODE, human={"kind": "model", "name": "one"})
    spoken["dialogue_history"] += [{"role": "user", "content": "Thanks."}]
    for protocol in ("sweet_rl", "released"):
        played = write_rows(tmp_path / f"{protocol}.jsonl", [spoken | {"protocol": protocol}])
        evaluated(input_path=played, output_path=tmp_path / f"{protocol}.graded.jsonl")
    runs = f"ours={tmp_path}/sweet_rl.graded.jsonl,released={tmp_path}/released.graded.jsonl"
    refused = call("compare_runs.py", runs=runs)
    assert refused.code != 0 and "under different protocols: sweet_rl in 'ours'" in refused.err
    check_call("compare_runs.py", "--mix_humans", runs=runs)
