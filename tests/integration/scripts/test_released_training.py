"""The recipe on released-style dialogues: what a policy was trained on is what it is asked under the released protocol.

The steps of run_backend.sh with texts of our own in place of the published prompts, whose hashes the test replaces.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sweet_rl.dialogues import released
from sweet_rl.dialogues.released import ReleasedEnvironment
from sweet_rl.method.candidates import turns_of
from sweet_rl.models.base import Completion
from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, read_records
from sweet_rl.training.examples import encode_pairs
from sweet_rl.training.settings import DataSettings
from tests.support.api_server import MODEL, ApiServer, chat_reply
from tests.support.chat_families import small_tokenizer
from tests.support.command_line import check_call, read_rows, write_rows
from tests.support.protocol_files import AGENT, BACKEND, protocol_files
from tests.support.released_files import TASKS
from tests.support.tiny_models import tiny_model

HEADER = "<|start_header_id|>{}<|end_header_id|>\n\n"
SYSTEM = HEADER.format("system") + "Today Date: 26 Jul 2024\n\n" + AGENT.strip() + "<|eot_id|>"
SAID = ["I need one number. OUTPUT: How many days are free?", "OUTPUT:I WANT TO ANSWER:\n{}"]


def user(text: str) -> str:
    return HEADER.format("user") + text + "<|eot_id|>" + HEADER.format("assistant")


def released_rows() -> list[dict]:
    """Two dialogues about each task, as the release writes them: the prompt as text, and what was sampled."""
    rows = []
    for task in TASKS:
        for code in (task["ground_truth"], "def late_fee(days):\n    return days *"):
            first = "<|begin_of_text|>" + SYSTEM + user(task["problem_description"])
            second = first + "How many days are free?<|eot_id|>" + user("I don't know.")
            outputs = SAID[0], SAID[1].format(code)
            dialogue = [
                {"role": "user", "content": task["problem_description"]},
                {"role": "assistant", "content": " How many days are free?", "input": first, "output": outputs[0]},
                {"role": "user", "content": "I don't know."},
                {"role": "assistant", "content": f"I WANT TO ANSWER:\n{code}", "input": second, "output": outputs[1]},
            ]
            rows.append({"task": task, "dialogue_history": dialogue, "answer": f"\n{code}", "reward": 0.0})
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The folder in which all steps ran: rewards, a policy, its dialogues, and candidates for their turns."""
    folder = tmp_path_factory.mktemp("recipe")
    model, tokenizer = folder / "model", small_tokenizer("llama31")
    tokenizer.save_pretrained(model)
    made = tiny_model("llama", torch.float32, vocab_size=len(tokenizer), max_position_embeddings=2048)
    made.save_pretrained(model)
    write_rows(folder / "offline.jsonl", released_rows())
    write_rows(folder / "test.jsonl", TASKS)
    check_call(
        "evaluate_code.py", input_path=folder / "offline.jsonl", output_path=folder / "rewarded.jsonl",
        tokenizer=model, preference_path=folder / "pairs.jsonl", paper_grader=True, sandbox="none",
    )  # fmt: skip
    check_call(
        "train_dpo.py", pretrain=model, dataset=folder / "pairs.jsonl", save_path=folder / "policy",
        max_epochs=1, train_batch_size=2, micro_train_batch_size=1, learning_rate=1e-3,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, ApiServer(lambda body: chat_reply("Three of them.")) as server:
        flags = {
            "protocol": "released", "protocol_files": protocol_files(folder, patch, released, BACKEND),
            "agent_model": folder / "policy", "env_model": MODEL, "hostname": server.url,
            "input_path": folder / "test.jsonl", "max_turns": 3, "max_tokens": 12,
        }  # fmt: skip
        check_call("simulate_interactions.py", **flags, output_path=folder / "played.jsonl")
        critic = {"critic": model, "critic_type": "pmi", "candidates": 2}
        check_call("play_best_of_n.py", **flags, **critic, output_path=folder / "chosen.jsonl")
    check_call(
        "sample_best_of_n.py", model_id=folder / "policy", input_path=folder / "played.jsonl",
        output_path=folder / "candidates.jsonl", best_of_n=2, max_tokens=6,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def chat(folder) -> ChatFormat:
    return ChatFormat.from_pretrained(folder / "model")


def test_a_released_row_is_known_by_its_prompt_and_keeps_its_protocol_when_graded(folder):
    assert Trajectory.from_dict(released_rows()[0]).protocol == "released"
    assert {graded["protocol"] for graded in read_rows(folder / "rewarded.jsonl")} == {"released"}


def test_training_texts_and_evaluation_prompts_begin_with_the_same_tokens(folder, chat):
    pairs = read_records(str(folder / "pairs.jsonl"), PreferencePair)
    texts = encode_pairs(pairs, chat, DataSettings()).texts
    played = read_records(str(folder / "played.jsonl"), Trajectory)
    assert len(pairs) == len(played) == 2 and len(texts) == 4
    for trajectory in played:
        assert trajectory.protocol == "released" and trajectory.parts is not None
        ids, train = chat.encode(trajectory.parts, trajectory.tokenizer)
        first = ids[: train.index(True)]  # the prompt of its first turn
        same_task = [text for text in texts if list(text.ids[: len(first)]) == first]
        assert len(same_task) == 2, "both texts of the pair about this task begin with this prompt"
        assert not any(any(text.train[: len(first)]) for text in same_task)


def test_the_prompts_of_a_dialogue_are_those_of_the_released_rows(chat):
    for row in released_rows():
        environment = ReleasedEnvironment(Task.from_dict(row["task"]), AGENT)
        for message in row["dialogue_history"][1::2]:
            assert parts_text(chat.prompt(environment.observe())) == message["input"]
            environment.step(Completion(message["output"], None, None, "stop"))
            if not environment.over:
                environment.add_human_reply("I don't know.")
        assert (environment.answer, environment.ending) == (row["answer"], "answered")


def test_candidates_are_sampled_from_exactly_the_prompts_that_the_agent_saw(folder, chat):
    played = read_records(str(folder / "played.jsonl"), Trajectory)
    given = [m["input"] for row in played for m in row.dialogue_history if m["role"] == "assistant"]
    inputs = [row["input"] for row in read_rows(folder / "candidates.jsonl")]
    assert [parts_text(parts) for parts in inputs] == given and len(given) == 6
    for trajectory in played:
        last = turns_of(trajectory, chat)[-1].input
        assert last == trajectory.parts[:-1] and last in inputs


def test_the_best_of_several_candidates_is_played_under_the_released_protocol(folder, chat):
    for trajectory in read_records(str(folder / "chosen.jsonl"), Trajectory):
        assert (trajectory.protocol, trajectory.ending, trajectory.turns) == ("released", "turn_limit", 3)
        first = ReleasedEnvironment(trajectory.task, AGENT).observe()
        assert trajectory.dialogue_history[2]["input"] == parts_text(chat.prompt(first))
        assert trajectory.answer == trajectory.dialogue_history[-1]["content"]
