"""evaluate_code.py and compare_runs.py by their command lines."""

import shutil

import pytest

from tests.support.command_line import call, read_rows, write_rows
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


def script(name, *flags, code=0):
    """What the script prints, with runs of spaces as one space."""
    done = call(f"{name}.py", *map(str, flags))
    assert done.code == code, done.out + done.err
    text = done.out if code == 0 else done.err
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graded")
    source = write_rows(folder / "in.jsonl", ROWS)
    out = script("evaluate_code", "--input_path", source, "--output_path", folder / "out.jsonl", "--k=2",
                 "--preference_path", folder / "pairs.jsonl", "--ground_truth_preference_path", folder / "hinted.jsonl",
                 "--sandbox", "seccomp")  # fmt: skip
    return folder, source, out


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
    assert "no answer 1" in out and "timeout 1" in out and "ungradable tasks, not counted: 1" in out and "t2: " in out


def test_a_task_with_a_test_that_is_no_hidden_test_is_named_and_not_counted(tmp_path, caplog):
    good, bad = task(0), task(1) | {"test_cases": {"test1": "f(1)", "test2": "abs(f(3) - 4) < 1e-6"}}
    source = write_rows(tmp_path / "tasks.jsonl", [good, bad])
    for number, rules in enumerate(((), ("--paper_grader",))):
        path = tmp_path / f"graded{number}.jsonl"
        out = script("evaluate_code", "--input_path", source, "--output_path", path, "--grade_references", *rules)
        assert "1 graded" in out and "success 100.0 %" in out and "ungradable tasks, not counted: 1" in out
        assert [row["reward"] for row in read_rows(path)] == [1.0, None]
        assert f"{source}: 1 of 2 tasks" in caplog.text and "task t1: test2 is no hidden test" in caplog.text
        caplog.clear()


def test_answers_that_failed_by_the_machine_are_graded_again_alone(graded, tmp_path):
    folder, source, _ = graded
    rows = read_rows(folder / "out.jsonl")
    rows[1] |= {"reward": None, "grade": {"failure": None, "ungradable": None, "machine": "ran out of wall time"}}
    write_rows(tmp_path / "out.jsonl", rows)
    shutil.copy(folder / "out.jsonl.manifest.json", tmp_path)
    flags = ["--input_path", source, "--output_path", tmp_path / "out.jsonl"]
    assert "already complete" in script("evaluate_code", *flags)
    out = script("evaluate_code", *flags, "--retry_failed")
    again = read_rows(tmp_path / "out.jsonl")
    assert [row for row in again if row["id"] != "t0-1"] == [row for row in rows if row["id"] != "t0-1"]
    assert {row["id"]: row["reward"] for row in again}["t0-1"] == 0.5 and "success 25.0 %" in out
    assert "already complete" in script("evaluate_code", *flags, "--retry_failed")


def test_dialogues_played_earlier_are_graded_anew_by_the_release_s_rules(tmp_path):
    helper = "def plus(x):\n    return x + 1\ndef f(x):\n    return plus(x)\n"
    rows = [row(0, 0, CODE), row(0, 1, helper), row(1, 0, None, ending="turn_limit")]
    played = write_rows(tmp_path / "ours.jsonl", [one | {"protocol": "sweet_rl"} for one in rows])
    released = trajectories(LLAMA)
    released[0]["answer"] += "\n# I would print( it"
    offline = write_rows(tmp_path / "offline.jsonl", released)
    # a helper is not found in a function's scope, and a forbidden word earns 0; `return 0` passes 2 of 4 tests
    for source, own, paper in (
        (played, [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]),
        (offline, [1.0, 0.5, 0.0] * 2, [0.0, 0.5, 0.0, 1.0, 0.5, 0.0]),
    ):
        first = tmp_path / "first.jsonl"
        script("evaluate_code", "--input_path", source, "--output_path", first, "--overwrite")
        assert [one["reward"] for one in read_rows(first)] == own
        for path in (source, first):  # also dialogues that were graded before
            again = tmp_path / "again.jsonl"
            script("evaluate_code", "--input_path", path, "--output_path", again, "--paper_grader", "--overwrite")
            assert [one["reward"] for one in read_rows(again)] == paper
            assert {one["grade"]["rules"] for one in read_rows(again)} == {"paper"}
        shown = script("compare_runs", "--runs", f"zero-shot={again}", "--paper", "table2")
        (here,) = [line for line in shown.splitlines() if line.startswith("here: ")]
        assert here.startswith(f"here: protocol {'sweet_rl' if source == played else 'released'}, ")
        assert "the released rules of grading" in here
        assert ", the rules of sweet_rl, " in script("compare_runs", str(first), "--paper", "table2")
