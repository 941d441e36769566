"""Log-probs of given texts by vLLM in this process: an alternative to `logps.score_texts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweet_rl.errors import UserError
from sweet_rl.model_loading import gpu_memory, load_config, parameter_count

if TYPE_CHECKING:
    from sweet_rl.log_probs.rows import EncodedText


SHARE_OF_MEMORY = 0.85  # of each GPU, for all engines together
CACHE = 8e9  # bytes of a GPU that an engine needs beside its weights: key-value cache, CUDA graphs, workspace
LENGTHS = 1024  # the longest text is rounded up to a multiple of it, so that later texts seldom need a new engine
STEP_TOKENS = 2048  # of one step: prompt log-probs take the float32 logits of all of them, 1 GB at 128k words


def load_vllm_scorers(paths: Sequence[str], bf16: bool) -> list[VLLMScorer]:
    """A scorer for each path, on the same GPUs. Raises UserError if vLLM is not installed.

    If the engines do not fit beside each other, each is started when it is used and the other one is stopped.
    """
    memory = gpu_memory()
    shares = shares_of(paths, 2 if bf16 else 4, memory) if memory else [SHARE_OF_MEMORY / len(paths)] * len(paths)
    together: list[VLLMScorer] = []
    for path, share in zip(paths, shares, strict=True):
        settings: dict[str, Any] = {"dtype": "bfloat16" if bf16 else "float32", "gpu_memory_utilization": share}
        if len(memory) > 1:
            settings["tensor_parallel_size"] = len(memory)
        together.append(VLLMScorer(path, **settings))
    if sum(shares) > 1:
        for scorer in together:
            scorer.others = [other for other in together if other is not scorer]
    return together


def shares_of(paths: Sequence[str], size: int, memory: Sequence[int]) -> list[float]:
    """The share of the GPUs' memory that each engine gets. If they sum up to more than 1, the engines must take turns.

    Args:
        paths: Paths of the models.
        size: bytes of a weight.
        memory: bytes of each GPU; weights and cache are divided among them.

    Raises:
        UserError: a model does not fit even alone.
    """
    capacity = SHARE_OF_MEMORY * min(memory) * len(memory)
    weights = [parameter_count(path) * size for path in paths]
    needed = [one + CACHE * len(memory) for one in weights]
    for path, one in zip(paths, needed, strict=True):
        if one > capacity:
            raise UserError(
                f"--engine vllm: {path} needs about {one / 1e9:.0f} GB and the visible GPUs have "
                f"{capacity / 1e9:.0f} GB for it. Use more GPUs, or --bf16."
            )
    if sum(needed) > capacity:
        return [SHARE_OF_MEMORY] * len(paths)
    spare = (capacity - sum(weights)) / len(paths)
    return [SHARE_OF_MEMORY * (one + spare) / capacity for one in weights]


class VLLMScorer:
    """Scores texts by the log-probs of prompts (`prompt_logprobs`) of a checkpoint in vLLM.

    The engine is started by the first call, for the longest text of the call. Each text is computed whole.

    Args:
        path: Path of the model.
        engine_settings: Settings of `vllm.LLM`.

    Attributes:
        others: scorers whose engines are stopped before this one's is started.

    Raises:
        UserError: vLLM is not installed.
    """

    def __init__(self, path: str, **engine_settings: Any) -> None:
        try:
            import vllm  # noqa: F401
        except ImportError as error:
            raise UserError("vLLM is not installed (`pip install vllm`). Leave out --engine vllm.") from error
        self.path = path
        self.others: list[VLLMScorer] = []
        self._settings = {"max_num_batched_tokens": STEP_TOKENS, **engine_settings}
        self._engine: Any = None
        self._longest = 0

    def __call__(self, texts: Sequence[EncodedText]) -> list[np.ndarray]:
        """Log-probs of each text's trained tokens, float32 [n_i], in the order of `texts`.

        Raises:
            UserError: vLLM refuses the model or the length of the texts.
        """
        from vllm import SamplingParams

        self._start(max(map(len, texts)) + 1)  # one token is sampled after each text
        settings = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        prompts = [{"prompt_token_ids": text.ids.tolist()} for text in texts]
        found = []
        for text, output in zip(texts, self._engine.generate(prompts, settings, use_tqdm=False), strict=True):
            values = [output.prompt_logprobs[at][text.ids[at]].logprob for at in text.targets.tolist()]
            found.append(np.asarray(values, dtype=np.float32))
        return found

    def _start(self, tokens: int) -> None:
        """Start the engine for texts of so many tokens, unless it runs and takes them."""
        if self._engine is not None and tokens <= self._longest:
            return
        for scorer in (self, *self.others):
            scorer.stop()
        import vllm

        limit = getattr(load_config(self.path).get_text_config(), "max_position_embeddings", None)
        self._longest = max(tokens, min(-(-tokens // LENGTHS) * LENGTHS, limit or tokens))
        try:
            self._engine = vllm.LLM(model=self.path, max_model_len=self._longest, **self._settings)
        except (ValueError, RuntimeError) as error:
            raise UserError(f"--engine vllm: no engine for {self.path} and {tokens} tokens. {error}") from error

    def stop(self) -> None:
        """Stop the engine and free its memory."""
        if self._engine is not None:
            self._engine.llm_engine.engine_core.shutdown()
            self._engine = None
