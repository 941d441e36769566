"""Reference log-probs: whose they are, in which order, and when a share on disk is used again."""

from __future__ import annotations

import numpy as np
import pytest

from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.training.reference import reference_logps
from tests.support.tiny_models import tiny_model
from tests.unit.models.log_probs.test_logps import dialogue_texts


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


def refuse():
    raise AssertionError("the model was loaded although nothing had to be computed")


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
    assert_same(reference_logps(tmp_path, texts, "key", lambda: model), expected)
    assert_same(reference_logps(tmp_path, texts, "key", refuse), expected)


@pytest.mark.parametrize("processes", [2, 7])
def test_processes_compute_shares_of_their_own_and_give_the_same(model, tmp_path, processes):
    texts = shuffled_texts()
    expected = score_texts(model, texts)
    computed = []

    def load():
        computed.append(1)
        return model

    class Waiting(Exception):
        pass

    def wait():
        raise Waiting

    for process in range(processes):
        with pytest.raises(Waiting):
            reference_logps(tmp_path, texts, "key", load, process, processes, wait)
    assert len(computed) == min(processes, len(texts))
    files = {path.name.split("-", 2)[2] for path in tmp_path.iterdir()}
    assert files == {f"{n}-of-{processes}.npy" for n in range(len(computed))}
    for process in range(processes):
        assert_same(reference_logps(tmp_path, texts, "key", refuse, process, processes), expected)


def test_another_model_or_other_texts_are_computed_anew(model, tmp_path):
    texts = shuffled_texts()
    for own, key in ((model, "one model"), (tiny_model("llama", seed=1), "another model")):
        assert_same(reference_logps(tmp_path, texts, key, lambda own=own: own), score_texts(own, texts))
    masked = EncodedText(texts[0].ids, np.roll(texts[0].train, -1))
    for changed in (texts[:-1], texts[::-1], [masked, *texts[1:]]):
        with pytest.raises(AssertionError, match="was loaded"):
            reference_logps(tmp_path, changed, "another model", refuse)
