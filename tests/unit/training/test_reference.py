"""Reference log-probs: whose they are, in which order, and when a share on disk is used again."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.training.reference import reference_logps
from sweet_rl.training.settings import TrainingSettings
from tests.support.tiny_models import tiny_model
from tests.unit.models.log_probs.test_logps import dialogue_texts


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


class Fake:
    """One process of a training, which loads `model`; None if nothing may have to be computed."""

    dtype, settings = torch.float32, TrainingSettings()
    engine = SimpleNamespace(autocast=contextlib.nullcontext)

    def __init__(self, folder, model, process: int = 0, processes: int = 1, wait=lambda: None):
        self.save_path, self.model, self.loaded = folder, model, 0
        self.accelerator = SimpleNamespace(process_index=process, num_processes=processes, wait_for_everyone=wait)

    def load_frozen(self, path):
        assert self.model is not None, "the model was loaded although nothing had to be computed"
        self.loaded += 1
        return self.model

    share_prompts = staticmethod(share_prompts)


def shuffled_texts() -> list[EncodedText]:
    """Texts whose order is not that of their prompts, one of them twice."""
    texts = dialogue_texts()
    return [texts[i] for i in (5, 0, 3, 1, 4, 2)]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)


def test_log_probs_are_in_the_order_of_the_texts_and_read_again_without_the_model(model, tmp_path):
    texts = shuffled_texts()
    expected = [score_texts(model, [text])[0] for text in texts]
    assert_same(reference_logps(texts, "key", Fake(tmp_path, model)), expected)
    assert_same(reference_logps(texts, "key", Fake(tmp_path, None)), expected)


@pytest.mark.parametrize("processes", [2, 7])
def test_processes_compute_shares_of_their_own_and_give_the_same(model, tmp_path, processes):
    texts = shuffled_texts()

    class Waiting(Exception):
        pass

    def wait():
        raise Waiting

    fakes = [Fake(tmp_path, model, process, processes, wait) for process in range(processes)]
    for fake in fakes:
        with pytest.raises(Waiting):
            reference_logps(texts, "key", fake)
    assert sum(fake.loaded for fake in fakes) == min(processes, len(texts))
    for process in range(processes):
        found = reference_logps(texts, "key", Fake(tmp_path, None, process, processes))
        assert_same(found, score_texts(model, texts))


def test_another_model_or_other_texts_are_computed_anew(model, tmp_path):
    texts = shuffled_texts()
    for own, key in ((model, "one model"), (tiny_model("llama", seed=1), "another model")):
        assert_same(reference_logps(texts, key, Fake(tmp_path, own)), score_texts(own, texts))
    masked = EncodedText(texts[0].ids, np.roll(texts[0].train, -1))
    for changed in (texts[:-1], texts[::-1], [masked, *texts[1:]]):
        with pytest.raises(AssertionError, match="was loaded"):
            reference_logps(changed, "another model", Fake(tmp_path, None))
