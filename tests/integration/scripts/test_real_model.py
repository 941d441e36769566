"""The pipeline with a real language model as the agent, as the simulated human and as the critic, on ColBench tasks.

    SWEET_RL_REAL_MODEL=HuggingFaceTB/SmolLM2-135M-Instruct SWEET_RL_COLBENCH=colbench \
        python -m pytest tests/integration/scripts/test_real_model.py -s

SWEET_RL_REAL_MODEL is any chat model, a folder or a hub name; SWEET_RL_COLBENCH the folder of ColBench's
backend_dev.jsonl; SWEET_RL_REAL_SERVER, if set, host:port of a server that has the model under the same name. A model
of 135 M parameters takes some ten minutes on two cores and solves no task: the steps are tested, not the model.
"""

import json
import math
import os
from pathlib import Path

import pytest

from sweet_rl.chat import ChatFormat
from sweet_rl.records import PreferencePair, Trajectory, TurnCandidates, read_records
from tests.support.command_line import call

MODEL, SERVER = os.environ.get("SWEET_RL_REAL_MODEL"), os.environ.get("SWEET_RL_REAL_SERVER")
SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "colbench"
TASKS = Path(os.environ.get("SWEET_RL_COLBENCH", SHARED)) / "backend_dev.jsonl"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODEL, reason="no real model: set SWEET_RL_REAL_MODEL to a chat model"),
    pytest.mark.skipif(not TASKS.is_file(), reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder"),
]
SHORT = {"num_tasks": 2, "max_turns": 3, "max_tokens": 48, "env_max_tokens": 48}


def step(script: str, **flags) -> None:
    done = call(script, **flags)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def dialogues(folder) -> list[Trajectory]:
    path = str(folder / "trajectories.jsonl")
    players = {"agent_model": MODEL, "env_model": MODEL, "agent_engine": "transformers", "env_engine": "transformers"}
    step("simulate_interactions.py", **players, input_path=str(TASKS), output_path=path, best_of_n=2, **SHORT)
    return read_records(path, Trajectory)


@pytest.fixture(scope="module")
def candidates(folder, dialogues) -> list[TurnCandidates]:
    rewarded, path = str(folder / "rewarded.jsonl"), str(folder / "candidates.jsonl")
    step("evaluate_code.py", input_path=str(folder / "trajectories.jsonl"), output_path=rewarded, k=2,
         preference_path=str(folder / "p.jsonl"), ground_truth_preference_path=str(folder / "pc.jsonl"))  # fmt: skip
    assert all(trajectory.reward is not None for trajectory in read_records(rewarded, Trajectory))
    step("sample_best_of_n.py", model_id=MODEL, engine="transformers", input_path=rewarded, output_path=path,
         data_fraction=0.5, best_of_n=4, max_tokens=32)  # fmt: skip
    return read_records(path, TurnCandidates)


def ranked(folder, name: str, **flags) -> list[TurnCandidates]:
    path = str(folder / f"{name}.jsonl")
    step("rank_best_of_n.py", model_id=MODEL, input_path=str(folder / "candidates.jsonl"), output_path=path, **flags)
    return read_records(path, TurnCandidates)


def test_dialogues_end_by_the_rules_and_train_on_the_ids_that_were_sampled(dialogues):
    chat = ChatFormat.from_pretrained(MODEL)
    assert len(dialogues) == 4
    for dialogue in dialogues:
        assert dialogue.ending in ("answered", "turn_limit"), dialogue.failure
        said = [message for message in dialogue.dialogue_history if message["role"] == "assistant"]
        ids, train = chat.encode(dialogue.parts, dialogue.tokenizer)
        assert [i for i, trained in zip(ids, train, strict=True) if trained] == sum((m["token_ids"] for m in said), [])
        heard = [m["content"] for m in dialogue.dialogue_history[1:] if m["role"] == "user"]
        assert all(0 < len(text) <= 400 for text in heard)


def test_scoring_gives_the_log_probs_of_sampling_so_the_model_has_no_advantage_over_itself(folder, candidates):
    rows = ranked(folder, "without_c", reference="sampled", no_prompt=True)
    assert max(abs(score) for row in rows for score in row.judge_scores) < 1e-3


def test_the_reference_solution_orders_candidates_and_one_step_of_dpo_follows(folder, candidates):
    rows = ranked(folder, "ranked", reference="sampled")
    assert all(len(set(row.judge_scores)) > 1 for row in rows)
    pairs, saved = str(folder / "turn_pairs.jsonl"), folder / "actor"
    step("generate_random_pairs_from_ranks.py", input_path=str(folder / "ranked.jsonl"), output_path=pairs, num_pairs=2)
    assert read_records(pairs, PreferencePair)
    step("train_dpo.py", pretrain=MODEL, dataset=pairs, save_path=str(saved), max_samples=2, train_batch_size=2,
         micro_train_batch_size=1, gradient_checkpointing=True, nll_loss_coef=0.01, learning_rate=1e-5)  # fmt: skip
    last = json.loads((saved / "manifest.json").read_text())["summary"]["last"]
    assert abs(last["preference_loss"] - math.log(2)) < 1e-4  # before its first step a policy is its reference
    assert ChatFormat.from_pretrained(saved).fingerprint == ChatFormat.from_pretrained(MODEL).fingerprint


@pytest.mark.skipif(not SERVER, reason="no server: set SWEET_RL_REAL_SERVER to host:port")
def test_agent_and_human_on_a_server(folder):
    path = str(folder / "served.jsonl")
    step("simulate_interactions.py", agent_model=MODEL, env_model=MODEL, agent_hostname=SERVER, hostname=SERVER,
         input_path=str(TASKS), output_path=path, **SHORT)  # fmt: skip
    dialogues = read_records(path, Trajectory)
    assert [dialogue.failure for dialogue in dialogues] == [None, None]
    assert all(dialogue.parts for dialogue in dialogues)
