"""Rounds of collecting, grading and train_policy_gradient.py: the packaged tiny agent learns from its own dialogues."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from lab.policy_gradients.policy_examples import encode_policy_examples
from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen, model_path
from sweet_rl.runs.records import Trajectory, read_records
from sweet_rl.training.settings import DataSettings
from tests.integration.training.test_train_dpo import KILLED_BEFORE_A_STEP
from tests.support.command_line import ROOT, call, read_rows, words_of, write_rows
from tests.support.launched import run_together

pytestmark = pytest.mark.slow
SCRIPT = "lab.policy_gradients.train_policy_gradient"
TRAINING = {
    "learning_rate": 4e-4, "train_batch_size": 16, "max_epochs": 4, "warmup_ratio": 0, "logging_steps": 1,
    "turn_weight": 0.5,
}  # fmt: skip


def run(script: str, **flags) -> str:
    """What the script prints; it must succeed."""
    done = call(script, **flags)
    assert done.code == 0, done.err
    return done.out + done.err


def collect(place: Path, agent: str | Path, name: str) -> Path:
    """The graded dialogues of an agent, four per task."""
    run(
        "lab.policy_gradients.collect", agent_model=agent, env_model="mini", agent_prompt_path="mini_agent.txt",
        input_path=place / "train.jsonl", output_path=place / f"{name}.dialogues.jsonl", best_of_n=4, max_turns=7,
        max_tokens=100,
    )  # fmt: skip
    run("evaluate_code.py", input_path=place / f"{name}.dialogues.jsonl", output_path=place / f"{name}.jsonl")
    return place / f"{name}.jsonl"


def success(path: Path) -> float:
    return float(np.mean([row["reward"] == 1 for row in read_rows(path)]))


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("place")
    run("make_mini_tasks.py", num_train=24, num_test=1, seed=11, output_dir=place)
    return place


@pytest.fixture(scope="module")
def first(place) -> Path:
    """The untrained agent's graded dialogues."""
    return collect(place, "mini", "first")


def score(place: Path, agent: str | Path, graded: Path, name: str) -> Path:
    """The graded dialogues with the credit of each turn by the agent itself, which sees the solution."""
    made = place / f"{name}.jsonl"
    run("score_turns.py", model_id=agent, reference="sampled", input_path=graded, output_path=made)
    return made


@pytest.fixture(scope="module")
def credited(place, first) -> Path:
    return score(place, "mini", first, "credited")


@pytest.fixture(scope="module")
def few(place, credited) -> Path:
    """A part of the first round's tasks, for what needs no success."""
    return write_rows(place / "few.jsonl", read_rows(credited)[:48])


def test_two_rounds_raise_the_success_far_above_that_of_the_untrained_agent(place, first, credited):
    run(SCRIPT, pretrain="mini", dataset=credited, save_path=place / "policy1", **TRAINING)
    graded = collect(place, place / "policy1", "second")
    data = score(place, place / "policy1", graded, "second_credited")
    run(SCRIPT, pretrain=place / "policy1", dataset=data, save_path=place / "policy2", **TRAINING)
    trained = success(collect(place, place / "policy2", "third"))
    assert trained > success(first) + 0.2


def test_the_recorded_log_probs_are_those_of_the_policy_on_the_tokens_that_are_trained(first):
    chat = ChatFormat.from_pretrained("mini")
    examples = encode_policy_examples(read_records(first, Trajectory), chat, DataSettings(), PolicyGradientSettings())
    computed = score_texts(load_frozen(model_path("mini"), device="cpu"), examples.texts)
    for own, recorded in zip(computed, examples.sampled, strict=True):
        np.testing.assert_allclose(own, recorded, rtol=0, atol=2e-4)


def test_recomputed_log_probs_train_the_same_policy_as_recorded_ones(place, few):
    short = TRAINING | {"max_epochs": 1, "train_batch_size": 64}
    weights = []
    for old in ("sampled", "recomputed"):
        run(SCRIPT, pretrain="mini", dataset=few, save_path=place / old, old_logprobs=old, kl_coef=0.1, **short)
        weights.append(AutoModelForCausalLM.from_pretrained(place / old).state_dict())
    start = AutoModelForCausalLM.from_pretrained(model_path("mini")).state_dict()
    moved = sum((weights[0][name] - start[name]).abs().sum() for name in start)
    apart = sum((weights[0][name] - weights[1][name]).abs().sum() for name in start)
    assert apart < 0.05 * moved


def test_dialogues_of_another_policy_are_refused(few, perturbed_mini, tmp_path):
    done = call(SCRIPT, pretrain=perturbed_mini, dataset=few, save_path=tmp_path / "out", **TRAINING)
    assert done.code == 2 and "sampled" in done.err
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_the_log_probs_of_sampling_are_refused_where_another_distribution_is_sampled(place, tmp_path):
    for changed in ({"temperature": 0.7}, {"top_p": 0.9}, {"agent_prefix": "I"}):
        done = call(
            "lab.policy_gradients.collect", agent_model="mini", env_model="mini", input_path=place / "train.jsonl",
            output_path=tmp_path / "out.jsonl", **changed,
        )  # fmt: skip
        assert done.code == 2 and f"--{next(iter(changed))}" in done.err


def test_questions_that_the_oracle_calls_useful_get_more_credit(credited):
    by_word: dict[str, list[float]] = {}
    for row in read_rows(credited):
        taken = [message for message in row["dialogue_history"] if message["role"] == "assistant"]
        assert len(row["turn_credit"]) == len(taken)
        for message, credit in zip(taken, row["turn_credit"], strict=True):
            by_word.setdefault(message.get("oracle"), []).append(credit)
    assert np.mean(by_word["useful"]) > np.mean(by_word["useless"])


def test_killed_and_continued_with_credit_and_a_reference_it_ends_with_the_same_weights(few, tmp_path):
    flags = TRAINING | {"pretrain": "mini", "dataset": few, "kl_coef": 0.01, "train_batch_size": 8, "max_epochs": 2}
    run(SCRIPT, **flags, save_path=tmp_path / "whole")
    killed = tmp_path / "killed.py"
    script = ROOT / "lab/policy_gradients/train_policy_gradient.py"
    killed.write_text(KILLED_BEFORE_A_STEP.format(step=3, script=script))
    given = flags | {"save_path": tmp_path / "killed", "save_minutes": 1e-9}
    code, printed = run_together([[sys.executable, str(killed), *words_of(given)]])
    assert code == signal.SIGKILL and (tmp_path / "killed" / "checkpoints" / "checkpoint-3").is_dir(), printed
    assert "going on from step 3" in run(SCRIPT, **given)
    one, other = (AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict() for name in ("whole", "killed"))
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=1e-6)


def test_an_adapter_starts_at_the_sampling_policy_and_is_merged(few, tmp_path):
    printed = run(
        SCRIPT, pretrain="mini", dataset=few, save_path=tmp_path / "out", lora_rank=4, aggregation="constant",
        loss_tokens=100, divide_by_std=False, **TRAINING | {"max_epochs": 1, "learning_rate": 1e-3},
    )  # fmt: skip
    assert "of a task whose dialogues all have the same reward, left out" in printed
    log = read_rows(tmp_path / "out" / "training_log.jsonl")
    assert log[0]["sampling_kl"] < 1e-6 < log[-1]["sampling_kl"]
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    start = AutoModelForCausalLM.from_pretrained(model_path("mini")).state_dict()
    assert any((merged[name] - start[name]).abs().max() > 1e-4 for name in start)
    assert (tmp_path / "out" / "adapter" / "adapter_model.safetensors").is_file()


def test_the_penalty_is_for_leaving_the_reference_that_is_given(few, perturbed_mini, tmp_path):
    run(
        SCRIPT, pretrain="mini", ref_pretrain=perturbed_mini, dataset=few, kl_coef=0.1, save_path=tmp_path / "out",
        **TRAINING | {"max_epochs": 1},
    )  # fmt: skip
    line = read_rows(tmp_path / "out" / "training_log.jsonl")[0]
    assert line["sampling_kl"] < 1e-6 and line["reference_kl"] > 1e-4  # before the first step
