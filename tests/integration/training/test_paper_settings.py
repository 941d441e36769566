"""Each kind of training in configs/paper, by two processes under ZeRO: only model and sizes are replaced."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from sweet_rl.models.log_probs.value_head import load_value_model
from sweet_rl.models.log_probs.vision import is_vision_model, load_vision_frozen
from sweet_rl.models.weights import load_frozen
from sweet_rl.runs.errors import UserError
from tests.integration.training.test_picture_value import graded
from tests.integration.training.test_train_dpo import log_of, write_pairs
from tests.integration.training.test_train_sft import dialogue
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import ROOT, check_call, write_rows
from tests.support.warm_processes import warm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("deepspeed") is None, reason="needs: pip install -e '.[test]'"
    ),
]  # fmt: skip
# Trainings one after the other in the same processes. One chunk holds 8 tokens, so that the vocabulary projection has
# several. DeepSpeed would compile a C++ module.
TRAININGS = """
import json
import runpy
import sys

import deepspeed
from accelerate.state import AcceleratorState

from sweet_rl.runs.cli import parse_flags
from sweet_rl.runs.cli import arguments
from sweet_rl.models.log_probs import projection

deepspeed.ops.__compatible_ops__ = {{}}
projection.CHUNK_TOKENS, projection.CHUNK_ELEMENTS = 8, 8
for words in json.loads(sys.argv[1]):
    AcceleratorState._reset_state(reset_partial_state=True)
    main = runpy.run_path("{script}")["main"]
    main(**arguments(main, parse_flags(main, words)))
"""
ENGINES = {"2": ["--zero_stage", "2"], "3": ["--zero_stage", "3"]}
PRECISIONS = {"float32": "--nobf16", "bfloat16": "--bf16"}
ALL = [f"{precision} {engine}" for engine in ENGINES for precision in PRECISIONS]
PAPER = "bfloat16 2"  # of all files of configs/paper/backend and frontend


@pytest.fixture(scope="module")
def data(tiny_chat, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    dialogues = [dialogue(number, float(number < 12)) for number in range(16)]
    pages = [row for number in range(4) for color in ("red", "blue") for row in graded(number, color)]
    return {
        "pairs": write_pairs(folder / "pairs.jsonl", tiny_chat, turns=4),
        "dialogues": Path(write_rows(folder / "dialogues.jsonl", dialogues)),
        "pages": Path(write_rows(folder / "pages.jsonl", pages)),
    }


@pytest.mark.parametrize(
    ("config", "script", "dataset", "ways"),
    [
        ("backend/critic", "train_dpo", "pairs", ALL),
        ("backend/rejection_fine_tuning", "train_sft", "dialogues", [PAPER, "float32 3"]),
        ("backend/value_critic", "train_value", "pairs", [PAPER, "float32 3"]),
        ("backend/value_function", "train_value", "dialogues", [PAPER, "float32 3"]),
        ("frontend/value_critic", "train_value", "pages", [PAPER, "float32 3"]),
    ],
)
def test_divided_models_train_what_plain_torch_does(config, script, dataset, ways, data, request, tmp_path):
    model = request.getfixturevalue("tiny_vision_model" if dataset == "pages" else "tiny_chat_model")
    flags = {
        "config": ROOT / f"configs/paper/{config}.yaml", "pretrain": model, "dataset": data[dataset],
        "max_epochs": 1, "learning_rate": 1e-3, "max_len": 512, "logging_steps": 1, "save_steps": "none",
    }  # fmt: skip
    if dataset == "pages":
        renderer_or_skip().close()
        flags |= {"max_pixels": 6 * 28 * 28, "page_timeout": 120}
    words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    check_call(f"{script}.py", *words, "--zero_stage", "none", "--nobf16", "--save_path", str(tmp_path / "plain"))
    (tmp_path / "trainings.py").write_text(TRAININGS.format(script=ROOT / "scripts" / f"{script}.py"))
    trainings = []
    for way in ways:
        precision, engine = way.split()
        trainings.append([*words, *ENGINES[engine], PRECISIONS[precision], "--save_path", str(tmp_path / way)])
    code, printed = warm(tmp_path / "trainings.py", [json.dumps(trainings)], processes=2)
    assert code == 0, printed[-5000:]
    expected = figures(tmp_path / "plain")
    assert len(expected) >= 1
    if script == "train_dpo":  # the policy begins as the reference
        assert all(figures(tmp_path / way, "margin")[0] == pytest.approx(0, abs=2e-4) for way in ways)
    for way in ways:
        tolerance = 0.02 if way.startswith("bfloat16") else 1e-5
        assert figures(tmp_path / way) == pytest.approx(expected, abs=tolerance), way
    same = [("plain", way) for way in ways if way.startswith("float32")]
    if "bfloat16 3" in ways:
        same.append((PAPER, "bfloat16 3"))
    for one, other in same:
        assert figures(tmp_path / other) == pytest.approx(figures(tmp_path / one), abs=1e-5)
        weights, found = (trained(tmp_path / name) for name in (one, other))
        assert weights.keys() == found.keys()
        for key, weight in weights.items():
            if key == "value_head.bias":  # it cancels in a pair: its gradient is rounding
                continue
            # By root mean square, in steps of 1e-3: the first step of Adam enlarges the rounding of a tiny gradient.
            assert (found[key].float() - weight.float()).square().mean().sqrt() <= 1e-5, key


def trained(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of the model as it is used."""
    load = load_vision_frozen if is_vision_model(str(folder)) else load_frozen
    try:
        return load_value_model(str(folder), load=load).state_dict()
    except UserError:  # no value head
        return load(str(folder)).state_dict()


def figures(folder: Path, name: str = "loss") -> list[float]:
    return [line[name] for line in log_of(folder)]
