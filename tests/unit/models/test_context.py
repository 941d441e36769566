"""How long texts may be, by configurations of real families, and which lengths may share a forward pass."""

import pytest
from transformers import AutoConfig

from sweet_rl.models.context import check_length, context_length, rope_group
from sweet_rl.runs.errors import UserError

LONGROPE = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 8.0, 40.0],
    "original_max_position_embeddings": 64, "factor": 4.0,
}  # fmt: skip
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize("family, settings, expected", [
    ("llama", {"max_position_embeddings": 64}, 64),
    ("gpt2", {"n_positions": 64}, 64),
    ("mistral", {"max_position_embeddings": 64, "sliding_window": 8}, 64),
    ("gemma3", {"text_config": {"max_position_embeddings": 64, "sliding_window": 8}}, 64),
    ("mpt", {"max_seq_len": 64}, 64),
    ("bloom", {}, None),
    ("mamba", {}, None),
    ("llama", {"max_position_embeddings": 64, "rope_parameters": DYNAMIC}, 256),
    ("llama", {"max_position_embeddings": 64, "rope_parameters": YARN}, 256),
    ("llama", {"max_position_embeddings": 256, "rope_parameters": YARN}, 256),
    ("phi3", {"max_position_embeddings": 256, "rope_parameters": LONGROPE, "hidden_size": 32, "num_attention_heads": 4,
              "original_max_position_embeddings": 64}, 256),
    ("cohere", {"max_position_embeddings": 64, "model_max_length": 256}, 256),
])  # fmt: skip
def test_the_context_is_what_positions_allow_and_no_window(family, settings, expected):
    config = AutoConfig.for_model(family, **settings)
    assert context_length(config) == expected
    check_length(expected or 10**6, expected, "here")
    if expected is not None:
        with pytest.raises(UserError, match=f"line 3: {expected + 1} tokens, .* has {expected}. Do this."):
            check_length(expected + 1, expected, "line 3", "Do this.")


def test_lengths_share_a_pass_unless_their_rotation_depends_on_them():
    shape = {"hidden_size": 32, "num_attention_heads": 4}
    llama = AutoConfig.for_model("llama", max_position_embeddings=64)
    dynamic = AutoConfig.for_model("llama", max_position_embeddings=64, rope_parameters=DYNAMIC)
    long = AutoConfig.for_model(
        "phi3", max_position_embeddings=256, original_max_position_embeddings=64, rope_parameters=LONGROPE, **shape
    )
    assert rope_group(llama, 5) == rope_group(llama, 500) == ()
    assert rope_group(long, 5) == rope_group(long, 64) != rope_group(long, 65) == rope_group(long, 200)
    assert rope_group(dynamic, 5) == rope_group(dynamic, 64)
    assert len({rope_group(dynamic, length) for length in (64, 65, 66)}) == 3
