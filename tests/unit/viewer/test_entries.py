"""What is shown of each kind of file: rows, views, summaries, and errors for what does not go together."""

import json
from dataclasses import replace

import pytest

from sweet_rl.evaluation.statistics import bootstrap_interval
from sweet_rl.method.critics import ChosenCritic, CriticFlags
from sweet_rl.method.ranking import ranked
from sweet_rl.method.turn_pairs import turn_pairs
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory, TurnCandidates
from sweet_rl.viewer.show import ViewSettings, open_collection
from tests.support.command_line import write_rows
from tests.support.dialogues import graded

TEXTS = ["When do you need it?", "Is there a maximum?", "Is there a basic charge for everybody?", "Why?", "How?"]
SCORES = [0.1, 0.5, -0.2, 0.3, -0.4]


def candidate_records() -> list[TurnCandidates]:
    """Candidates of the first dialogue's first two turns, ranked."""
    trajectory, chat = graded()[0], ChatFormat.from_pretrained(model_path("mini"))
    records = []
    for turn in range(2):
        prompt = chat.prompt(trajectory.dialogue_history[: 1 + 2 * turn])
        said = trajectory.dialogue_history[1 + 2 * turn]["content"]
        texts = [*TEXTS[:-1], said]
        record = TurnCandidates(prompt, said, texts, task=trajectory.task, turn=turn, id=f"{trajectory.id}-{turn}")
        records.append(ranked(record, SCORES, chat.eos_text))
    return records


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, records = tmp_path_factory.mktemp("files"), candidate_records()
    pairs = [pair for record in records for pair in turn_pairs(record, 3, seed=1)]
    return {
        "trajectories": write_rows(folder / "graded.jsonl", graded()),
        "ranked": write_rows(folder / "ranked.jsonl", records),
        "pairs": write_rows(folder / "pairs.jsonl", pairs),
    }


def scanned(path, credit=None, **more):
    collection = open_collection(ViewSettings(path, **more), credit)
    return collection, [row for row, _ in collection.scan()]


def test_the_summary_has_success_over_tasks_with_its_interval(files):
    collection, rows = scanned(files["trajectories"])
    successes = {}
    for t in graded():
        if t.reward is not None and t.ending != "failed":
            successes.setdefault(t.task.id, []).append(float(t.reward == 1))
    expected = bootstrap_interval(successes).to_dict()
    assert collection.summary()["score"] == expected
    assert len(rows) == 12 and rows[0]["turns"] == collection.view(0)["messages"][-1]["turn"] + 1


@pytest.mark.parametrize("grade", [{"failure": None, "grader": "mine.reward (12345678)"}, None])
def test_rewards_of_a_function_are_summarised_by_their_mean_and_not_by_success(tmp_path, grade):
    task = replace(graded()[0].task, test_cases={})
    rows = [replace(graded()[0], task=task, reward=0.25 + i / 48, grade=grade, id=f"d{i}") for i in range(6)]
    collection, _ = scanned(write_rows(tmp_path / "a.jsonl", rows))
    summary = collection.summary()
    assert summary["measure"] == "reward" and summary["score"] == summary["reward"]
    half = [replace(row, reward=row.reward / 2) for row in rows]
    compared, _ = scanned(write_rows(tmp_path / "b.jsonl", half), compare_path=str(tmp_path / "a.jsonl"))
    mean = summary["score"]["mean"]
    assert [run["score"]["mean"] for run in compared.summary()["runs"]] == [mean / 2, mean]
    assert compared.summary()["difference"]["mean"] == pytest.approx(mean / 2)


def test_candidates_come_best_first_in_their_halves_with_how_often_they_were_drawn(files):
    collection, rows = scanned(files["ranked"], pair_path=files["pairs"])
    assert len(rows) == 1 and rows[0]["candidates"] == 2
    message = collection.view(0)["messages"][1]
    shown = message["candidates"]
    assert [c["score"] for c in shown] == sorted(SCORES, reverse=True)
    assert [c["half"] for c in shown] == ["chosen", "chosen", "middle", "rejected", "rejected"]
    assert sum(c["chosen"] for c in shown) == sum(c["rejected"] for c in shown) == 3
    assert all(c["chosen"] == 0 for c in shown if c["half"] != "chosen")
    assert shown[-1]["text"] == message["text"] and message["credit"]["advantage"] == SCORES[-1]
    assert collection.view(0)["prompt"][: message["prompt"]].endswith("<|assistant|>")


def test_the_oracles_word_is_the_one_that_the_record_holds(tmp_path):
    history = [
        {"role": "user", "content": "?", "oracle": "not the agent's"},
        {"role": "assistant", "content": "a", "oracle": "any word"},
        {"role": "assistant", "content": "b"},
        {"role": "assistant", "content": "c"},
    ]
    task = graded()[0].task
    collection, rows = scanned(write_rows(tmp_path / "a.jsonl", [Trajectory(task, history, None, 0.0)]))
    assert rows[0]["oracle"] == ["any word", None, None]
    assert [m.get("oracle") for m in collection.view(0)["messages"]] == [None, "any word", None, None]
    assert "oracle" not in scanned(write_rows(tmp_path / "b.jsonl", [Trajectory(task, history[:1], None, 0.0)]))[1][0]


def test_a_failure_of_the_machine_is_shown_with_the_grade(tmp_path):
    slow = replace(graded()[0], reward=None, grade={"failure": None, "ungradable": None, "machine": "no processor"})
    collection, _ = scanned(write_rows(tmp_path / "a.jsonl", [slow]))
    assert collection.view(0)["grade"]["machine"] == "no processor" and "score" not in collection.summary()


def test_ranked_candidates_can_stand_at_the_turns_of_their_trajectories(files):
    collection, rows = scanned(files["trajectories"], ranked_path=files["ranked"])
    assert rows[0]["candidates"] == 2 and "candidates" not in rows[1]
    view = collection.view(0)
    assert [len(m["candidates"]) for m in view["messages"] if "candidates" in m] == [5, 5]
    assert view["messages"][1]["credit"]["advantage"] == SCORES[-1]


def test_candidates_of_another_dialogue_with_the_same_id_are_refused(files, tmp_path):
    said = graded()[0].dialogue_history
    for place, fields in ((1, {"content": "Else?", "output": None}), (3, {"content": "", "output": "<think>"})):
        history = [*said[:place], {**said[place], **fields}, *said[place + 1 :]]
        path = write_rows(tmp_path / f"{place}.jsonl", [replace(graded()[0], dialogue_history=history)])
        with pytest.raises(UserError, match=f"ranked.jsonl.* turn {place // 2} of {graded()[0].id} .*{place}.jsonl"):
            scanned(path, ranked_path=files["ranked"])
    short = write_rows(tmp_path / "short.jsonl", [replace(graded()[0], dialogue_history=said[:2])])
    with pytest.raises(UserError, match="turn 1 of"):
        scanned(short, ranked_path=files["ranked"])
    history = [
        *said[:1],
        {**said[1], "content": "", "output": said[1]["content"]},
        *said[2:],
    ]  # as sampled, with thoughts
    path = write_rows(tmp_path / "thought.jsonl", [replace(graded()[0], dialogue_history=history)])
    assert scanned(path, ranked_path=files["ranked"])[1][0]["candidates"] == 2


def test_a_pair_has_what_both_share_once_and_what_is_trained_apart(files):
    collection, rows = scanned(files["pairs"])
    view = collection.view(0)
    assert view["shared"] == len(view["chosen"]) - 1 == rows[0]["first"]
    assert view["chosen"][-1]["trained"] and view["rejected"][-1]["trained"]
    assert view["chosen"][-1]["text"] != view["rejected"][-1]["text"]


def test_credit_is_computed_once_and_continued(files, tmp_path, capsys):
    settings = CriticFlags(model_id="mini", reference="seed_without_c", reference_model_id="mini").chosen
    kept = str(tmp_path / "credit.jsonl")
    collection, rows = scanned(files["trajectories"], credit=settings, credit_path=kept)
    lines = open(kept).read().splitlines()
    assert len(lines) == 12 and all(len(r["advantages"]) == r["turns"] for r in rows if r["ending"] != "failed")
    with open(kept, "w") as file:
        file.write("\n".join(lines[:5]) + "\n" + lines[5][:40])  # killed in the middle of a line
    manifest = tmp_path / "credit.jsonl.manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"status": "running"}))
    scanned(files["trajectories"], credit=settings, credit_path=kept)
    assert sorted(open(kept).read().splitlines()) == sorted(lines)
    message = collection.view(0)["messages"][1]
    assert "".join(message["credit"]["tokens"]).startswith(message["text"])
    collection, _ = scanned(files["trajectories"], credit_path=kept)
    assert collection.summary()["advantage_by_turn"][0]["n"] == sum(r["ending"] != "failed" for r in rows)
    assert {row["word"] for row in collection.summary()["advantage_by_word"]} >= {"useful", "useless"}


def test_a_critic_of_a_file_gives_credit_per_turn(files, tmp_path):
    (tmp_path / "short.py").write_text(
        "from dataclasses import dataclass\n"
        "from sweet_rl.method.critics import CriticType\n"
        "@dataclass\nclass Settings:\n    pass\n"
        "class Short:\n    def __init__(self, settings):\n        pass\n"
        "    def scores(self, records):\n"
        "        return [[-len(text) for text in record.additional_outputs] for record in records]\n"
        "CRITIC = CriticType(Settings, Short)\n"
    )
    critic = ChosenCritic(str(tmp_path / "short.py"))
    for kind in ("trajectories", "ranked"):
        collection, rows = scanned(files[kind], credit=critic, credit_path=str(tmp_path / f"{kind}_credit.jsonl"))
        message = collection.view(0)["messages"][1]
        shown = [message] if kind == "trajectories" else message["candidates"]
        assert [one["credit"] for one in shown] == [{"advantage": -len(one["text"])} for one in shown]


@pytest.mark.parametrize("reference", ["seed", "seed_without_c"])
def test_candidates_get_credit_by_token_too(files, tmp_path, reference):
    """The seed model is its own reference: with the solution the ratio is 1, without it it is not."""
    settings = CriticFlags(model_id="mini", reference=reference, reference_model_id="mini").chosen
    kept = str(tmp_path / "credit.jsonl")
    collection, _ = scanned(files["ranked"], credit=settings, credit_path=kept)
    shown = collection.view(0)["messages"][1]["candidates"]
    assert all(len(c["credit"]["tokens"]) == len(c["credit"]["reference"]) for c in shown)
    assert any(c["credit"]["advantage"] for c in shown) == (reference == "seed_without_c")


def test_dialogues_without_log_probs_of_sampling_need_a_reference_model(files, tmp_path):
    critic = CriticFlags(model_id="mini", reference="sampled").chosen
    with pytest.raises(UserError, match="--reference_model_id"):
        scanned(files["trajectories"], critic, credit_path=str(tmp_path / "c.jsonl"))


def test_released_rows_without_our_fields_are_shown(tmp_path):
    rows = []
    for t in graded():
        row = t.to_dict()
        rows.append({k: row[k] for k in ("dialogue_history", "answer", "reward")} | {"task": released(row["task"])})
    collection, shown = scanned(write_rows(tmp_path / "released.jsonl", rows))
    assert len({row["id"] for row in shown}) == 12 and all("ending" not in row for row in shown)
    view = collection.view(1)
    assert view["id"] == shown[1]["id"] and [t["call"] for t in view["grade"]["tests"]]
    text = "<|user|>Hello<|end|><|assistant|>"
    strings = [{"input": text, "older_output": "a", "additional_outputs": ["a", "b"], "judge_result": [1, 0]}]
    collection, shown = scanned(write_rows(tmp_path / "candidates.jsonl", strings))
    assert [c["text"] for c in collection.view(0)["messages"][-1]["candidates"]] == ["b", "a"]
    collection, _ = scanned(write_rows(tmp_path / "pairs.jsonl", [{"chosen": text + "a", "rejected": text + "b"}]))
    assert [m["text"] for m in collection.view(0)["chosen"]] == ["Hello", "a"]


def released(task: dict) -> dict:
    return {name: task[name] for name in ("problem_description", "ground_truth", "test_cases")}


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("missing.jsonl", {}, "does not exist"),
        ("tasks", {}, "holds tasks"),
        ("other", {}, "neither a trajectory"),
        ("pairs", {"compare_path": "trajectories"}, "--compare_path is not for them"),
        ("pairs", {"ranked_path": "ranked"}, "--ranked_path is not for them"),
        ("trajectories", {"ranked_path": "pairs"}, "expected TurnCandidates"),
        ("trajectories", {"compare_path": "ranked"}, "expected Trajectory"),
        ("trajectories", {"pair_path": "pairs"}, "--ranked_path"),
        ("trajectories", {"names": ["a", "b"]}, "--names"),
        ("trajectories", {"limit": 0}, "--limit"),
        ("ranked", {"pair_path": "foreign"}, "none of its pairs"),
        ("trajectories", {"compare_path": "stranger"}, "no task in common"),
        ("trajectories", {"credit_path": "pairs"}, "'turns' is missing"),
    ],
)
def test_files_that_do_not_go_together_are_said(files, tmp_path, name, more, words):
    files = files | {
        "tasks": write_rows(tmp_path / "tasks.jsonl", [graded()[0].task]),
        "other": write_rows(tmp_path / "other.jsonl", [{"a": 1}]),
        "foreign": write_rows(tmp_path / "foreign.jsonl", [{"chosen": "a", "rejected": "b"}]),
        "stranger": write_rows(tmp_path / "stranger.jsonl", graded(1, seed=99)),
    }
    paths = {key: files.get(value, value) if isinstance(value, str) else value for key, value in more.items()}
    with pytest.raises(UserError, match=words):
        scanned(files.get(name, str(tmp_path / name)), **paths)


def test_the_output_is_never_the_input(tmp_path):
    with pytest.raises(UserError, match="also the input"):
        ViewSettings(str(tmp_path / "a.html"))
    with pytest.raises(UserError, match="--serve"):
        ViewSettings("a.jsonl", "b.html", serve=True)
    assert str(ViewSettings("a.jsonl").page) == "a.html" and str(ViewSettings("a.jsonl", "b.html").page) == "b.html"


def test_runs_in_another_order_are_matched_by_task_and_the_difference_is_the_second_less_the_first(tmp_path):
    one = write_rows(tmp_path / "a.jsonl", graded())
    other = write_rows(tmp_path / "b.jsonl", [*graded(shift=1)[2:], *graded(shift=1)[:2]])
    collection, rows = scanned(one, compare_path=other, names=["before", "after"])
    for number, row in enumerate(rows):
        first, second = collection.view(number)["runs"]
        assert first["id"] == second["id"] == row["id"] == row["other"]["id"]
    # Of six tasks two lose one of two successes, and one its only graded one.
    assert collection.summary()["difference"]["mean"] == pytest.approx(-(1 / 2 + 1 / 2 + 1) / 6)
