"""Log-probs of given texts by vLLM in this process: an alternative to `logps.score_texts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweet_rl.errors import UserError

if TYPE_CHECKING:
    from sweet_rl.scoring.rows import EncodedText


SHARE_OF_MEMORY = 0.85  # of the GPU, for all engines together


def load_vllm_scorers(paths: Sequence[str | None], bf16: bool) -> list[VLLMScorer | None]:
    """A scorer for each path, None for None, on the same GPU. Raises UserError if vLLM is not installed."""
    share = SHARE_OF_MEMORY / sum(path is not None for path in paths)
    dtype = "bfloat16" if bf16 else "float32"
    return [path and VLLMScorer(path, dtype=dtype, gpu_memory_utilization=share) for path in paths]


class VLLMScorer:
    """Scores texts by the log-probs of prompts (`prompt_logprobs`) of a checkpoint in vLLM.

    Each text is computed whole. `engine_settings` are those of `vllm.LLM`. Raises UserError if vLLM is not installed.
    """

    def __init__(self, path: str, **engine_settings: Any) -> None:
        try:
            import vllm
        except ImportError as error:
            raise UserError("vLLM is not installed (`pip install vllm`). Leave out --engine vllm.") from error
        self._engine = vllm.LLM(model=path, **engine_settings)

    def __call__(self, texts: Sequence[EncodedText]) -> list[np.ndarray]:
        """Log-probs of each text's trained tokens, float32 [n_i], in the order of `texts`."""
        from vllm import SamplingParams

        settings = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        prompts = [{"prompt_token_ids": text.ids.tolist()} for text in texts]
        found = []
        for text, output in zip(texts, self._engine.generate(prompts, settings, use_tqdm=False), strict=True):
            values = [output.prompt_logprobs[at][text.ids[at]].logprob for at in text.targets.tolist()]
            found.append(np.asarray(values, dtype=np.float32))
        return found
