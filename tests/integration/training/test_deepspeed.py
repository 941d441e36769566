"""DeepSpeed on two processes reproduces the losses and the weights of plain torch in one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import torch

from sweet_rl.chat import ChatFormat
from tests.integration.training.test_train_dpo import ENVIRONMENT, SCRIPT, command, settings, weights, write_pairs
from tests.support.tiny_models import save_tiny_chat_model

pytest.importorskip("deepspeed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, pairs, and what one process makes of them."""
    place = tmp_path_factory.mktemp("place")
    model = save_tiny_chat_model(place / "model")
    pairs = write_pairs(place / "pairs.jsonl", ChatFormat.from_pretrained(model), turns=6)
    flags = [*settings(model, pairs, place / "one"), "--max_epochs", "1"]
    done = subprocess.run(command(*flags), capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0, done.stderr
    return place


def losses(folder) -> list[float]:
    return [json.loads(line)["loss"] for line in open(folder / "training_log.jsonl")]


def run_together(words: list[str], output) -> None:
    """A launcher and its processes, all of them ended if they take too long. DeepSpeed compiles a C++ module the
    first time that it is used."""
    with (
        open(output, "w") as file,
        subprocess.Popen(words, stdout=file, stderr=file, env=ENVIRONMENT, start_new_session=True) as launched,
    ):
        try:
            code = launched.wait(timeout=900)
        except subprocess.TimeoutExpired:
            os.killpg(launched.pid, signal.SIGKILL)
            raise
    assert code == 0, output.read_text()[-3000:]


@pytest.mark.parametrize("stage", [2, 3])
def test_two_processes_of_zero_train_as_one_of_plain_torch(place, stage):
    flags = [str(flag) for flag in settings(place / "model", place / "pairs.jsonl", place / f"zero{stage}")]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(SCRIPT)]
    run_together([*launch, *flags, "--max_epochs", "1", "--zero_stage", str(stage)], place / f"zero{stage}.txt")
    expected, found = losses(place / "one"), losses(place / f"zero{stage}")
    assert len(found) == 3 and found == pytest.approx(expected, abs=1e-5)
    one, sharded = weights(place / "one"), weights(place / f"zero{stage}")
    assert one.keys() == sharded.keys()
    for name in one:
        torch.testing.assert_close(sharded[name], one[name], rtol=0, atol=2e-4)
