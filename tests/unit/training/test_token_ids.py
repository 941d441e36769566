"""Token ids that the model does not have are a message with their place, not an error inside the model."""

import pytest

from sweet_rl.method.candidate_texts import encoded_candidates
from sweet_rl.models.base import ModelError
from sweet_rl.models.openai_server import read_replies
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, Trajectory, TurnCandidates
from sweet_rl.training.examples import encode_pairs, encode_trajectories
from sweet_rl.training.settings import DataSettings
from tests.support.tiny_models import save_tiny_chat_model


@pytest.fixture(scope="module")
def chat(tmp_path_factory) -> ChatFormat:
    return ChatFormat.from_pretrained(save_tiny_chat_model(tmp_path_factory.mktemp("model"), vocab_size=300))


@pytest.mark.parametrize("token", [-1, 300, 2**31, 10**12])
def test_an_id_outside_of_the_vocabulary_is_named_with_its_place(chat, token):
    prompt = {"text": "Hello", "train": False}
    wrong, right = ({"text": "x", "train": True, "token_ids": [5, one]} for one in (token, 7))
    pair = PreferencePair([prompt, right], [prompt, wrong], id="odd", tokenizer=chat.fingerprint)
    with pytest.raises(UserError, match=f"file, pair 'odd', 'rejected': the token id {token} .*below 300"):
        encode_pairs([pair], chat, DataSettings(), "file")
    candidates = TurnCandidates([prompt], "a", ["b", "c"], id="odd", tokenizer=chat.fingerprint,
                                additional_token_ids=[[5], [5, token]])  # fmt: skip
    with pytest.raises(UserError, match=f"candidates 'odd', candidate 1: the token id {token}"):
        encoded_candidates(candidates, chat, hint=False)
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "token_ids": [token]}]
    row = {
        "task": {"problem_description": "a", "ground_truth": "b"},
        "dialogue_history": said,
        "tokenizer": chat.fingerprint,
    }
    dialogue = Trajectory.from_dict(row | {"answer": None, "reward": 1.0, "id": "odd"})
    with pytest.raises(UserError, match=f"trajectory 'odd': the token id {token}"):
        encode_trajectories([dialogue], chat, DataSettings(), "file")
    with pytest.raises(ModelError, match="token ids that .* does not know") as error:
        read_replies({"choices": [{"text": "x", "token_ids": [5, token]}]}, chat)
    assert error.value.kind == "malformed"


def test_an_id_that_only_the_model_has_is_taken_and_ids_of_another_tokenizer_are_not_used(chat):
    parts = [{"text": "x", "train": True, "token_ids": [299]}]
    assert len(chat.tokenizer) < 299 and chat.encode(parts, chat.fingerprint)[0] == [299]
    parts[0]["token_ids"] = [300]
    assert chat.encode(parts, "another")[0] == chat.tokenizer.encode("x", add_special_tokens=False)


ODD = "a\ud83d b"
