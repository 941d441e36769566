"""The number of CPU threads: which one is chosen for which model and environment, and whose choice is kept."""

import pytest
import torch

from sweet_rl.models import threads
from sweet_rl.models.threads import Threads, threads_for

MINI, SMOLLM2 = 770_944, 134_515_008


@pytest.mark.parametrize(
    ("weights", "environment", "number"),
    [
        (MINI, {}, 1),
        (10_000_000, {}, 1),
        (10_000_001, {}, 8),
        (SMOLLM2, {}, 8),
        (MINI, {"OMP_NUM_THREADS": "2"}, 8),  # torch has read it, so its number is kept
        (MINI, {"MKL_NUM_THREADS": "2"}, 8),
        (MINI, {"OMP_NUM_THREADS": ""}, 1),
    ],
)
def test_a_tiny_model_has_one_thread_unless_the_environment_names_a_number(weights, environment, number):
    assert threads_for(weights, 8, environment) == number


@pytest.fixture
def machine(monkeypatch):
    """A command on a machine with four CPU cores and no GPU; its `number` is that of torch."""

    class Machine:
        number, command, gpu = 4, "python train_dpo.py", False

    monkeypatch.setattr(torch, "get_num_threads", lambda: Machine.number)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: setattr(Machine, "number", number))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: Machine.gpu)
    monkeypatch.setattr(threads, "command_line", lambda: Machine.command)
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Machine


def model(weights: int) -> torch.nn.Module:
    return torch.nn.Linear(weights, 1, bias=False, device="meta")


def test_the_largest_model_of_a_command_decides(machine):
    here = Threads()
    for weights, number in ((MINI, 1), (SMOLLM2, 4), (MINI, 4)):
        here.choose(model(weights))
        assert machine.number == number


@pytest.mark.parametrize(("name", "value"), [("command", None), ("gpu", True)])
def test_nothing_changes_in_a_library_or_with_a_gpu(machine, monkeypatch, name, value):
    monkeypatch.setattr(machine, name, value)
    Threads().choose(model(MINI))
    assert machine.number == 4


def test_a_number_that_somebody_sets_later_is_kept(machine):
    here = Threads()
    here.choose(model(MINI))
    torch.set_num_threads(3)
    here.choose(model(MINI))
    here.choose(model(SMOLLM2))
    assert machine.number == 3


def test_weights_that_zero_3_has_divided_count_whole(machine):
    divided = model(0)
    divided.weight.ds_numel = SMOLLM2
    Threads().choose(divided)
    assert machine.number == 4


def test_loading_a_model_chooses(machine, tiny_chat_model, monkeypatch):
    from sweet_rl.models import weights

    monkeypatch.setattr(weights, "choose_threads", Threads().choose)  # that of this process has seen other models
    weights.load_weights(tiny_chat_model)
    assert machine.number == 1
