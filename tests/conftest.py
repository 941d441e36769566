"""The tiny models that many tests read, made once. A test that changes a model copies its folder, or makes its own."""

from __future__ import annotations

import gc
import os

import pytest

# The tests compare numbers that were computed on a CPU; benchmarks/gpu_check.py is the test of a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

# Imports of torch stand in the fixtures, because tests that need no model start without it.


@pytest.fixture(scope="session")
def tiny_chat_model(tmp_path_factory) -> str:
    """The folder of a llama with random weights (seed 0), a byte tokenizer and a chat template."""
    from tests.support.tiny_models import save_tiny_chat_model

    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny_chat_model"))


@pytest.fixture(scope="session")
def tiny_chat(tiny_chat_model):
    """The ChatFormat of `tiny_chat_model`."""
    from sweet_rl.models.texts.chat import ChatFormat

    return ChatFormat.from_pretrained(tiny_chat_model)


@pytest.fixture(scope="session")
def tiny_critic(tmp_path_factory) -> str:
    """The folder of a model like `tiny_chat_model` with other weights (seed 1)."""
    from tests.support.tiny_models import save_tiny_chat_model

    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny_critic"), seed=1)


@pytest.fixture(scope="session")
def tiny_agent(tmp_path_factory) -> str:
    """The folder of a model like `tiny_chat_model` with larger weights: what it says depends on the dialogue."""
    from tests.support.tiny_models import save_tiny_chat_model

    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny_agent"), initializer_range=0.2)


@pytest.fixture(scope="session")
def tiny_vision_model(tmp_path_factory) -> str:
    """The folder of a Qwen2-VL with random weights, its image processor and a chat template."""
    from tests.support.tiny_vision import save_tiny_vision_model

    return save_tiny_vision_model(tmp_path_factory.mktemp("tiny_vision_model"))


@pytest.fixture(scope="session")
def tiny_vision(tiny_vision_model):
    """The VisionFormat of `tiny_vision_model`."""
    from sweet_rl.models.log_probs.vision import VisionFormat

    return VisionFormat.from_pretrained(tiny_vision_model)


@pytest.fixture(scope="session")
def perturbed_mini(tmp_path_factory) -> str:
    """The folder of the packaged mini agent with noise on its weights, as a critic that has learnt something."""
    from tests.support.perturbed_model import save_perturbed_mini

    return save_perturbed_mini(tmp_path_factory.mktemp("perturbed_mini") / "model")


def pytest_collection_finish() -> None:
    """Trainings collect garbage often; what was imported by now is none."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()
