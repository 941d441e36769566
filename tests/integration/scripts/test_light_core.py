"""What the plain install does without torch and transformers, and what a command says that needs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply
from tests.support.command_line import ROOT, Result, count_rows, read_rows, write_rows

TRAIN = ("accelerate", "safetensors", "tokenizers", "torch", "transformers")
# The packages cannot be imported, as if they were not installed.
WITHOUT = f"""
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {TRAIN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
"""
RUN = WITHOUT + "import scripts; sys.argv[0] = 'sweet-rl'; scripts.main()"
TASKS = [Task(f"Add {n}.", f"def f(x):\n    return x + {n}\n", {"a": "f(1)"}, f"t{n}") for n in range(2)]


def light(folder: Path, *words: str) -> Result:
    """Run the command in a process of its own without those packages."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", RUN, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return Result(done.returncode, done.stdout, done.stderr)


def test_colbench_runs_from_the_tasks_to_the_page(tmp_path):
    def answer(body: dict) -> Reply:
        prompt = body["messages"][0]["content"]
        if "<hidden_code>" in prompt or "Add " not in prompt:
            return chat_reply("It is a number.")
        number = int(prompt.split("Add ")[1].split(".")[0])
        asked = len(body["messages"]) > 1
        return chat_reply(f"I WANT TO ANSWER:\n{TASKS[number].ground_truth}" if asked else "What is it?")

    write_rows(tmp_path / "tasks.jsonl", TASKS)
    with ApiServer(answer) as server:
        sides = [word for side in ("model", "human") for word in (f"--{side}", MODEL, f"--{side}_hostname", server.url)]
        done = light(tmp_path, "colbench", *sides, "--tasks", "tasks.jsonl", "--limit", "2")
    assert done.code == 0, done.err
    folder = tmp_path / "colbench" / "first_2"
    assert [row["reward"] for row in read_rows(folder / f"{MODEL}.graded.jsonl")] == [1.0, 1.0]
    assert json.loads((folder / "results.json").read_text())["models"][0]["score"]["mean"] == 1.0
    assert (folder / f"{MODEL}.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    "words",
    [
        "train_dpo --pretrain mini --dataset pairs.jsonl --save_path out",
        "evaluate_code --input_path tasks.jsonl --grade_references --tokenizer mini --output_path out.jsonl",
    ],
)
def test_a_command_that_needs_them_says_which_extra_brings_them(words, tmp_path):
    write_rows(tmp_path / "tasks.jsonl", TASKS)
    write_rows(tmp_path / "pairs.jsonl", [{"chosen": "Q: a A: b", "rejected": "Q: a A: c"}])
    done = light(tmp_path, *words.split())
    assert done.code == 2 and "pip install 'sweet_rl[train]'" in done.err and "Traceback" not in done.err, done.err
    assert not (tmp_path / "out").exists() and not count_rows(tmp_path / "out.jsonl")


def test_a_package_that_a_users_file_lacks_is_shown_at_the_line_that_imports_it(tmp_path):
    write_rows(tmp_path / "tasks.jsonl", TASKS)
    (tmp_path / "domain.py").write_text("import math\nimport no_such_package\n")
    done = light(tmp_path, *"evaluate_code --task_type domain.py --input_path tasks.jsonl --grade_references".split())
    assert 'domain.py", line 2' in done.err and "sweet_rl[" not in done.err
