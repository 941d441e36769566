"""An agent whose replies begin with a given text: what it continues, and what is kept of the reply."""

import asyncio

import pytest

from sweet_rl.models.base import Completion, Sampling
from sweet_rl.models.prefixed import PrefixedModel
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.transformers_local import TransformersModel
from tests.support.field_tokenizers import field_tokenizer

ASKED = [{"role": "user", "content": "Write f"}]


def test_the_model_goes_on_where_the_prefix_ends(tiny_chat_model):
    model = TransformersModel.from_pretrained(tiny_chat_model, device="cpu")
    prefixed = PrefixedModel(model, "ANSWER:\n")
    sampling = Sampling(max_tokens=6, seed=4, n=2)
    replies = asyncio.run(prefixed.complete(ASKED, sampling))
    begun, _ = model.chat.encode([*model.chat.prompt(ASKED), {"text": "ANSWER:\n", "train": False}])
    plain = asyncio.run(model.complete(begun, sampling))
    for reply, continued in zip(replies, plain, strict=True):
        assert reply.text == "ANSWER:\n" + continued.text and reply.finish_reason == continued.finish_reason
        ids, _ = model.chat.encode([{"text": "ANSWER:\n", "train": False}])
        assert reply.token_ids == ids + continued.token_ids and model.chat.decode(reply.token_ids) == reply.text
        assert reply.logprobs is None and reply.completion_tokens == len(reply.token_ids)


@pytest.mark.parametrize("name", ["mistral legacy", "llama2 legacy, chatml", "phi3"])
def test_the_ids_of_the_prefix_are_those_of_a_reply_that_begins_with_it(name):
    chat = ChatFormat(field_tokenizer(name))
    whole, _ = chat.encode(chat.dialogue([*ASKED, {"role": "assistant", "content": "Which days"}]))

    class Model:
        async def complete(self, prompt, sampling):
            assert prompt == whole[: len(whole) - 2]
            return [Completion("days", whole[-2:], None, "stop", 9, 2)]

    model = Model()
    model.chat = chat
    (reply,) = asyncio.run(PrefixedModel(model, "Which day").complete(ASKED, Sampling()))
    assert reply.text == "Which days" and chat.encode(chat.prompt(ASKED))[0] + reply.token_ids == whole
