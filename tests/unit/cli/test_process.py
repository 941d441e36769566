"""Messages of libraries that a user can do nothing about are left out; others are not."""

import logging
import os
import sys
import warnings

import pytest

from sweet_rl.cli.process import SPINS, quiet_libraries, share_cores

REPORT = "LlamaForCausalLM LOAD REPORT from: model\nKey | Status | |\n----+----\n{}\nNotes:\n- can be ignored"
HEAD, OTHER = "value_head.weight | UNEXPECTED | |", "lm_head.weight | MISSING | |"
MODELING = "transformers.modeling_utils"


@pytest.fixture
def quiet(monkeypatch):
    """The libraries' settings are those of before when the test ends."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(name, "1")
    loggers = [logging.getLogger(name) for name in ("DeepSpeed", MODELING)]
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
        (MODELING, REPORT.format(HEAD), False),
        (MODELING, REPORT.format(OTHER), True),
        (MODELING, REPORT.format(f"{HEAD}\n{OTHER}"), True),
        (MODELING, "something else", True),
    ],
)
def test_only_known_messages_are_left_out(quiet, name, message, shown):
    record = logging.LogRecord(name, logging.WARNING, __file__, 1, message, (), None)
    assert bool(logging.getLogger(name).filter(record)) is shown


@pytest.mark.parametrize(("options", "shown"), [([], False), (["default"], True)])
def test_future_warnings_are_left_out_unless_warnings_are_asked_for_on_the_command_line(
    quiet, options, shown, monkeypatch
):
    monkeypatch.setattr(sys, "warnoptions", options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quiet_libraries()
        warnings.warn("x", FutureWarning, stacklevel=1)
    assert bool(caught) is shown


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
