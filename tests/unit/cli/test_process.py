"""Messages of libraries that a user can do nothing about are left out; others are not."""

import logging
import os
import subprocess
import sys
import warnings

import pytest

from sweet_rl.cli.process import SPINS, quiet_libraries, share_cores
from tests.support.command_line import ROOT

REPORT = "LlamaForCausalLM LOAD REPORT from: model\nKey | Status | |\n----+----\n{}\nNotes:\n- can be ignored"


@pytest.fixture
def quiet(monkeypatch):
    """The libraries' settings are those of before when the test ends."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(name, "1")
    loggers = [logging.getLogger(name) for name in ("DeepSpeed", "transformers.modeling_utils")]
    with warnings.catch_warnings():
        quiet_libraries()
        yield
    for logger in loggers:
        logger.filters.clear()


@pytest.mark.parametrize(
    ("name", "message", "shown"),
    [
        ("DeepSpeed", "Setting accelerator to CPU. If you have a GPU ...", False),
        ("DeepSpeed", "out of memory", True),
        ("transformers.modeling_utils", REPORT.format("value_head.weight | UNEXPECTED | |"), False),
        ("transformers.modeling_utils", REPORT.format("lm_head.weight | MISSING | |"), True),
        (
            "transformers.modeling_utils",
            REPORT.format("value_head.weight | UNEXPECTED | |\nlm_head.weight | MISSING | |"),
            True,
        ),
        ("transformers.modeling_utils", "something else", True),
    ],
)
def test_only_known_messages_are_left_out(quiet, name, message, shown):
    record = logging.LogRecord(name, logging.WARNING, __file__, 1, message, (), None)
    assert bool(logging.getLogger(name).filter(record)) is shown


def test_the_load_report_of_the_installed_transformers_is_one_that_is_left_out(quiet, tmp_path, caplog):
    import torch
    from transformers import AutoModelForCausalLM

    from sweet_rl.log_probs.value_head import attach_value_head
    from tests.support.tiny_models import save_tiny_chat_model

    path = save_tiny_chat_model(tmp_path / "model")
    model = attach_value_head(AutoModelForCausalLM.from_pretrained(path), 0)
    model.save_pretrained(tmp_path / "value")
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addHandler(caplog.handler)
    try:
        AutoModelForCausalLM.from_pretrained(tmp_path / "value")
        assert "LOAD REPORT" not in caplog.text
        logger.filters.clear()
        AutoModelForCausalLM.from_pretrained(tmp_path / "value")
        assert "LOAD REPORT" in caplog.text
    finally:
        logger.removeHandler(caplog.handler)
    assert torch.isfinite(model.value_head.weight).all()


def test_warnings_asked_for_on_the_command_line_are_kept():
    code = "import warnings, sweet_rl.cli.process as q; q.quiet_libraries(); warnings.warn('x', FutureWarning)"
    for flags, shown in (([], False), (["-W", "default"], True)):
        done = subprocess.run([sys.executable, *flags, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert ("FutureWarning" in done.stderr) is shown


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, SPINS), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_waiting_threads_give_up_their_core_soon_unless_the_environment_says_otherwise(monkeypatch, given, spins):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    share_cores()
    assert os.environ.get("GOMP_SPINCOUNT") == spins
