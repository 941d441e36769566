"""Which siblings make a pair, and what stands in its texts."""

import pytest

from sweet_rl.method.trajectory_pairs import check_texts, trajectory_pairs
from sweet_rl.models.texts.released_texts import LLAMA3, TextMarkup
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory

TASK = Task("add one", "def f(x): return x + 1", {"test1": "f(1)"}, id="t")
OTHER = Task("add two", "def f(x): return x + 2", {"test1": "f(1)"}, id="u")


def dialogue(sample, reward, text=None, task=TASK, **more):
    text = text or f"answer {sample}"
    parts = [
        {"text": "<s>", "train": False, "bos": True},
        {"text": "add one", "train": False},
        {"text": text, "train": True},
    ]
    history = [{"role": "user", "content": "add one"}, {"role": "assistant", "content": text, "output": text}]
    row = {"parts": parts, "ending": "answered"} | more
    return Trajectory(task, history, text, reward, id=f"{task.id}-{sample}", **row)


@pytest.mark.parametrize("rows, expected", [
    ([(0, 1.0), (1, 0.5), (2, 1.0), (3, 0.0)], ["0>1", "0>3", "2>1", "2>3"]),  # each success over each worse sibling
    ([(0, 0.9), (1, 0.0)], []),
    ([(0, 1.0), (1, 1.0)], []),
    ([(0, 1.0), (1, 0.0, {"task": OTHER})], []),
    ([(0, 1.0), (1, 0.0, {"ending": "failed"}), (2, None)], []),  # a failed dialogue, and an ungradable one
    ([(0, 1.0), (1, 0.0, {"ending": "turn_limit"})], ["0>1"]),
    ([(0, 1.0, {"text": "same"}), (1, 0.0, {"text": "same"})], []),
])  # fmt: skip
def test_successes_are_paired_with_worse_siblings_of_another_text(rows, expected):
    trajectories = [dialogue(sample, reward, **(more[0] if more else {})) for sample, reward, *more in rows]
    pairs = trajectory_pairs(trajectories, False, TextMarkup())
    found = [f"{pair.extra['chosen_id']}>{pair.extra['rejected_id']}" for pair in pairs]
    assert [text.replace("t-", "") for text in found] == expected


def test_pair_ids_are_unique_and_texts_are_the_dialogues_parts():
    rows = [dialogue(0, 1.0), dialogue(1, 0.0), dialogue(2, 0.5)]
    pairs = list(trajectory_pairs(rows, False, TextMarkup()))
    assert len({pair.id for pair in pairs}) == 2
    assert pairs[0].chosen == rows[0].parts and pairs[0].rejected == rows[1].parts


def test_the_hint_stands_untrained_after_the_one_bos():
    (pair,) = trajectory_pairs([dialogue(0, 1.0), dialogue(1, 0.0)], True, TextMarkup())
    for parts in (pair.chosen, pair.rejected):
        assert parts[0]["text"] == "<s>" and [part["text"] for part in parts].count("<s>") == 1
        assert parts[1]["text"] == f"In light that the final answer is: {TASK.ground_truth}.\n"
        assert not parts[1]["train"] and [part["train"] for part in parts].count(True) == 1


def test_released_texts_are_read_with_their_response_template_which_is_shown(capsys):
    end, header = "<|eot_id|>", LLAMA3.header
    beginning = f"<|begin_of_text|>add one{end}{header}how?{end}so{end}{header}"

    def row(sample, reward, output):
        reply = {"role": "assistant", "content": "", "input": beginning, "output": output}
        history = [{"role": "user", "content": "add one"}, reply]
        return Trajectory(TASK, history, output, reward, id=f"t-{sample}")

    rows = [row(0, 1.0, "good"), row(1, 0.0, "bad")]
    markup = TextMarkup(response_template=header)
    (pair,) = trajectory_pairs(rows, False, markup)
    assert "".join(part["text"] for part in pair.chosen) == f"{beginning}good"
    assert [part["text"] for part in pair.chosen if part["train"]] == [f"how?{end}", "good"]
    check_texts(rows, markup)
    assert capsys.readouterr().out == f"the agent's turns are what stands between {header!r} and {end!r}\n"
    with pytest.raises(UserError, match="--tokenizer"):
        list(trajectory_pairs(rows, False, TextMarkup(response_template="[agent]")))


def test_a_pair_names_its_trajectories_rewards_and_common_tokenizer():
    (pair,) = trajectory_pairs([dialogue(0, 1.0, tokenizer="a"), dialogue(1, 0.25, tokenizer="a")], False, TextMarkup())
    assert (pair.tokenizer, pair.task_id, pair.id) == ("a", "t", "t-0>t-1")
    assert (pair.extra["chosen_reward"], pair.extra["rejected_reward"]) == (1.0, 0.25)
    (other,) = trajectory_pairs([dialogue(0, 1.0, tokenizer="a"), dialogue(1, 0.0, tokenizer="b")], False, TextMarkup())
    assert other.tokenizer is None
