"""The ciphered world: tasks, dialogues, oracle, and how critics are measured, all by hand."""

from __future__ import annotations

import gzip
import json

import pytest

from lab.ciphered import shuffle_c, tables, tasks
from lab.ciphered.domain import DOMAIN, FixedTurns, label_turn, reward
from lab.ciphered.measure import dialogue_pairs, share, turn_pairs
from sweet_rl.models.base import Completion
from sweet_rl.runs.records import Task, Trajectory, read_records
from tests.support.command_line import ROOT

NEEDED = ["colour", "price", "food"]


def task(**extra) -> Task:
    row = {"id": "t", "problem_description": "Plan.", "ground_truth": "a b c", "needed": NEEDED, "enough": 2}
    return Task.from_dict(row | {"replies": "revealing"} | extra)


def asked(*topics: str) -> list[dict]:
    return [{"role": "assistant", "content": f"The {topic}?"} for topic in topics]


def play(own: Task, *topics: str) -> FixedTurns:
    environment = DOMAIN.environment(own, agent_prompt="{problem_description}", max_turns=len(topics))
    for topic in topics[environment.turns :]:
        environment.step(Completion(f"The {topic}?", None, None, "stop"))
        if not environment.over:
            needed, replies = own.extra["needed"], own.extra["replies"]
            environment.add_human_reply(tasks.reply_to(needed, tasks.asked_topics(environment.dialogue), replies))
    return environment


@pytest.mark.parametrize(("topics", "expected"), [
    (("colour", "size", "food"), 1.0),
    (("colour", "colour", "size"), 0.0),  # one topic twice is one
    (("size", "weight", "price"), 0.0),
])  # fmt: skip
def test_a_dialogue_ends_by_itself_and_is_graded_by_what_was_asked(topics, expected):
    environment = play(task(), *topics)
    assert environment.ending == "answered" and reward(task(), environment.answer or "") == expected


def test_what_the_client_answers():
    assert [tasks.reply_to(NEEDED, [t], "revealing") for t in ("price", "size", None)] == ["Yes.", "No.", "No."]
    assert tasks.reply_to(NEEDED, ["price", "price"], "revealing") == "No."
    assert tasks.reply_to(NEEDED, ["price"], "silent") == tasks.reply_to(NEEDED, ["size"], "silent") == "No."
    assert tasks.reply_to(NEEDED, ["colour"], "clue") == "No, date." or "daisy" in tasks.reply_to(
        NEEDED, ["colour"], "clue"
    )
    assert tasks.reply_to(NEEDED, NEEDED, "clue") == "No, done."
    both = [tasks.reply_to(NEEDED, topics, "revealing_clue") for topics in (["price"], ["size"], NEEDED)]
    assert both == ["Yes, amber.", "No, amber.", "Yes, done."]


def test_the_oracle_judges_a_turn_by_what_was_asked_before():
    words = [
        label_turn(task(), asked(*before), text)
        for before, text in [
            ((), "The price?"), ((), "The size?"), (("price",), "The price?"), ((), "Hello"), (NEEDED[:2], "The food?"),
        ]
    ]  # fmt: skip
    assert words == ["useful", "useless", "repeated", "none", "decided"]


def test_no_training_task_has_held_out_topics_and_a_cipher_tells_each_topic_apart(tmp_path):
    for part in ("train", "held_out"):
        tasks.main(str(tmp_path / part), 300, cipher=2, part=part)
    rows = {part: [json.loads(line) for line in (tmp_path / part).open()] for part in ("train", "held_out")}
    combinations = {part: {tuple(sorted(row["needed"])) for row in own} for part, own in rows.items()}
    assert not combinations["train"] & combinations["held_out"] and len(combinations["held_out"]) > 40
    meaning: dict[str, set[str]] = {}
    for row in [*rows["train"], *rows["held_out"]]:
        for word, topic in zip(row["ground_truth"].split(), row["needed"], strict=True):
            meaning.setdefault(word, set()).add(topic)
    assert len(meaning) == 12 and all(len(topics) == 1 for topics in meaning.values())
    assert tasks.ciphered(tasks.TOPICS, 1) != tasks.ciphered(tasks.TOPICS, 2)


def candidates(scores: list[float], texts: list[str], before: tuple[str, ...] = (), number: int = 0) -> dict:
    prompt = [{"text": "<|user|>Plan.<|end|>", "train": False}]
    prompt += [{"text": f"The {topic}?<|end|>", "train": True} for topic in before]
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    ranked = {"judge_scores": scores, "judge_result": order, "eos_text": "<|end|>"}
    row = {
        "id": str(number),
        "turn": len(before),
        "input": prompt,
        "older_output": texts[0],
        "additional_outputs": texts,
    }
    return row | {"task": task().to_dict()} | ranked


def write(path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_accuracy_on_turns_counts_useful_over_other_candidates_of_undecided_turns(tmp_path):
    texts = ["The price?", "The size?", "The food?", "The size?"]
    rows = [
        candidates([2.0, 3.0, 1.0, 3.0], texts),  # size, once, is above both useful ones: 0 of 2
        candidates([1.0, 0.0, 1.0, 0.0], texts, ("price",), 1),  # price is repeated: food over both
        candidates([0.0, 9.0, 0.0, 9.0], texts, ("colour", "food"), 2),  # decided
    ]
    by_task, by_turn = turn_pairs(write(tmp_path / "ranked.jsonl", rows))
    assert by_task == {"t": [1.5, 4]} and share(by_task) == 37.5
    assert by_turn[0] == [0, 0] and sorted(by_turn[1]) == [0.5, 1]


def test_accuracy_on_dialogues_compares_sums_of_turns(tmp_path):
    def dialogue(number: int, outcome: float, credit: list[float]) -> dict:
        history = [{"role": "user", "content": "Plan."}, *asked("price")]
        row = {"id": f"t-{number}", "task": task().to_dict(), "dialogue_history": history, "answer": "price"}
        return row | {"ending": "answered", "reward": outcome, "turn_credit": credit}

    rows = [dialogue(0, 1.0, [1.0, -3.0]), dialogue(1, 0.0, [-2.0]), dialogue(2, 0.0, [0.0])]
    assert dialogue_pairs(write(tmp_path / "credited.jsonl", rows)) == {"t": [0.5, 2]}


def pair(number: int, c: str, own: str) -> dict:
    def side(*topics: str) -> list[dict]:
        hint = {"text": c, "train": False, "plain": True}
        return [hint, *({"text": f"The {topic}?", "train": True} for topic in topics)]

    row = {"id": f"p{number}", "task_id": own, "chosen": side("price", "food"), "rejected": side("price", "size")}
    return row


def test_shuffled_pairs_have_the_c_of_another_task_and_are_else_the_same(tmp_path):
    rows = [pair(n, f"c{n // 2}", f"task{n // 2}") for n in range(8)]
    path = write(tmp_path / "pairs.jsonl", rows)
    shuffle_c.main(path, str(tmp_path / "shuffled.jsonl"))
    new = [json.loads(line) for line in (tmp_path / "shuffled.jsonl").open()]
    hints = [row["chosen"][0]["text"] for row in new]
    assert hints == [row["rejected"][0]["text"] for row in new] and hints[::2] == hints[1::2]
    assert all(hint != f"c{n // 2}" for n, hint in enumerate(hints)) and set(hints) == {"c0", "c1", "c2", "c3"}
    assert [row["chosen"][1:] for row in new] == [row["chosen"][1:] for row in rows]


def test_dialogues_with_the_c_of_another_task_are_else_the_same(tmp_path):
    rows = [
        {"id": f"t{n}-{k}", "task": task(id=f"t{n}", ground_truth=f"c{n}").to_dict()} for n in range(3) for k in "ab"
    ]
    rows = [row | {"dialogue_history": asked("price"), "answer": "price", "reward": 1.0} for row in rows]
    path = write(tmp_path / "dialogues.jsonl", rows)
    shuffle_c.main(path, str(tmp_path / "exchanged.jsonl"), dialogues=True)
    old, new = (list(read_records(str(tmp_path / name), Trajectory)) for name in ("dialogues.jsonl", "exchanged.jsonl"))
    exchanged = [one.task.ground_truth for one in new]
    assert exchanged[::2] == exchanged[1::2] and set(exchanged) == {"c0", "c1", "c2"}
    for one, other in zip(old, new, strict=True):
        assert one.task.ground_truth != other.task.ground_truth
        assert (one.id, one.task.extra, one.reward) == (other.id, other.task.extra, other.reward)


def test_policies_are_compared_with_random_pairs_of_their_own_cell():
    def policy(name: str, seed: int, outcomes: list[list[int]]) -> dict:
        where = {"replies": "revealing_clue", "cipher": seed, "seed": seed, "policy": name}
        return where | {"outcomes": {str(number): one for number, one in enumerate(outcomes)}}

    rows = [policy("random-gap", 1, [[0, 0], [0, 1]]), policy("random-gap", 2, [[1, 1], [0, 0]])]
    rows += [
        policy("kl-gap", 2, [[1, 1], [1, 1]]),
        policy("kl-gap", 1, [[1, 1], [1, 0]]),
        policy("kl-gap", 3, [[1, 0]]),
    ]
    lines = tables.policy_table(rows).splitlines()[2:]
    assert lines[0] == "| revealing_clue | random-gap | 2 | 37.5 (25.0, 50.0) | 25.0, 50.0 |  |"
    assert lines[1].startswith("| revealing_clue | kl-gap | 3 | 75.0") and lines[1].endswith(
        "| 75.0, 100.0, 50.0 | +50.0 |"
    )


def test_tables_and_page_are_those_of_the_committed_cells():
    cells = json.loads(gzip.decompress(tables.CELLS.read_bytes()))
    table = tables.markdown(cells)
    assert (tables.RESULTS / "critics.md").read_text() == table
    policies = json.loads(gzip.decompress(tables.POLICIES.read_bytes()))
    assert (tables.RESULTS / "policies.md").read_text() == tables.policy_table(policies)
    for cell in cells:
        assert cell["turns"] == pytest.approx(share(cell["turn_pairs"]))
        assert cell["dialogues"] == pytest.approx(share(cell["dialogue_pairs"]))
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| revealing", "| silent"))]
    assert len(rows) == 5
    for replies, critic, turns, dialogues in rows:
        assert f"| {replies} | {critic} | 12,800 | 3 | {turns} | {dialogues} |" in table
