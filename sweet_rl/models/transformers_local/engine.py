"""A model of `transformers` in this process, CPU or GPU, as a ChatModel: sampling with continuous batching.

How it works, from the outside in:

- `TransformersModel` puts each call into a queue and waits. A worker thread owns the model.
- `GenerationEngine.step` is called by the worker as long as anything is waiting or running. It admits the waiting
  requests that there is room for, computes each new prompt once for all its samples, and gives every running row its
  next token. Rows join and leave the batch at any step.
- `KVArena` holds keys and values, one row for each sample. A finished row is replaced by the last row.
- `sample_tokens` draws one token per row from one uniform random number per row. The numbers of a row come from its own
  seed, so its reply does not depend on the company in the batch, up to rounding: matrix products of another batch shape
  differ in the last bits, and a sampled token changes if its uniform number falls into that gap.

The continuous batching of transformers 5 (`generate_batch`) is not used, because it has one seed for a whole batch
instead of one per request, so that a reply would depend on its company, and because on a CPU it is much slower.

The prompt's ids are those of `ChatFormat.encode`, so that training sees exactly the ids that sampling saw. Attention
must be full and causal; a sliding window limits the context instead.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.model_loading import check_loadable, freeze, load_weights
from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.records import Message, Part

_COLUMN_STEP = 64


class TransformersModel:
    """Samples from a causal language model; made by `from_pretrained`, or from a model and its ChatFormat.

    The same prompt, sampling settings and seed give the same reply in any batch, up to rounding (see above).

    Args:
        model: A causal language model on its device.
        chat: Its chat format.
        engine_settings: Arguments of GenerationEngine: max_rows, prefill_tokens, cache_bytes.
    """

    def __init__(self, model, chat: ChatFormat, **engine_settings: int) -> None:  # noqa: ANN001
        self.chat = chat
        self.engine = GenerationEngine(model.eval(), set(chat.eos_ids), **engine_settings)
        self._wake = threading.Condition()
        self._closed = False
        self._worker: threading.Thread | None = None

    @classmethod
    def from_pretrained(
        cls, path: str | Path, device: str | None = None, dtype: str | None = None, **engine_settings: int
    ) -> TransformersModel:
        """Load a checkpoint.

        Args:
            path: Folder or hub name.
            device: cuda if there is a GPU, else cpu, by default.
            dtype: float32 on a CPU (bfloat16 is slower on most), else the type of the checkpoint, by default.
            engine_settings: Arguments of GenerationEngine.

        Raises:
            UserError: No language model can be loaded from there.
        """
        check_loadable(path)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        chat = ChatFormat.from_pretrained(path)
        model = load_weights(path, dtype or ("float32" if device == "cpu" else "auto"))
        return cls(freeze(model, device), chat, **engine_settings)

    async def check(self) -> None:
        """Do nothing: the model is loaded."""

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        if self._closed:
            raise ModelError("engine", "this model has been closed.")
        ids, _ = self.chat.encode(parts, tokenizer)
        loop = asyncio.get_running_loop()
        future: asyncio.Future = loop.create_future()

        def deliver(result: list[Generated] | Exception) -> None:
            loop.call_soon_threadsafe(_settle, future, result)

        self.engine.submit(Request(ids, sampling, deliver))
        self._start()
        return [
            Completion.of_ids(self.chat, one.token_ids, one.logprobs, one.finish_reason, len(ids))
            for one in await future
        ]

    def _start(self) -> None:
        with self._wake:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="transformers-model", daemon=True)
                self._worker.start()
            self._wake.notify()

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self.engine.busy and not self._closed:
                    self._wake.wait()
            if self._closed:
                self.engine.fail_all(ModelError("engine", "this model has been closed."))
                return
            try:
                self.engine.step()
            except Exception as error:  # of the model (memory, device): raised in the waiting calls
                self.engine.fail_all(ModelError("engine", f"{type(error).__name__}: {error}"))

    async def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.join)


def _settle(future: asyncio.Future, result: list[Generated] | Exception) -> None:
    if future.cancelled():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


@dataclass(frozen=True)
class Generated:
    """One sampled continuation.

    Attributes:
        token_ids: The sampled ids, with the end-of-text token if it was produced.
        logprobs: One log-probability per id.
        finish_reason: "stop" or "length".
    """

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str


@dataclass
class Request:
    """A prompt to be continued `sampling.n` times.

    Attributes:
        ids: Token ids of the prompt.
        sampling: How tokens are drawn.
        deliver: Called once, with the list of Generated or an exception, in the thread that calls `step`.
        done: The finished continuations by sample number.
    """

    ids: list[int]
    sampling: Sampling
    deliver: Callable[[list[Generated] | Exception], None]
    done: dict[int, Generated] = field(default_factory=dict)


class _Row:
    """One continuation in progress. `uniforms` holds one random number per token."""

    def __init__(self, request: Request, number: int, limit: int) -> None:
        self.request, self.number, self.limit = request, number, limit
        self.uniforms = np.random.Generator(np.random.PCG64(request.sampling.seed + number)).random(limit, np.float32)
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []

    @property
    def length(self) -> int:
        """Prompt and sampled tokens."""
        return len(self.request.ids) + len(self.token_ids)


class GenerationEngine:
    """The running batch of one model.

    Args:
        model: A causal language model in eval mode, on its device.
        eos_ids: Token ids that end a reply.
        max_rows: Largest number of rows in progress; a request for more samples than this runs alone.
        prefill_tokens: Largest number of prompt tokens, padding included, in one forward pass.
        cache_bytes: Memory for the keys and values of all rows in progress at their full length. One request always
            runs, even if it needs more.

    Raises:
        UserError: The model has no plain key-value cache in each layer.
    """

    def __init__(
        self,
        model: Any,
        eos_ids: set[int],
        max_rows: int = 256,
        prefill_tokens: int = 8192,
        cache_bytes: int = 4 << 30,
    ) -> None:
        self.model = model
        self.eos_ids = set(eos_ids)
        self.max_rows = max_rows
        self.prefill_tokens = prefill_tokens
        self.arena = KVArena(model, cache_bytes)
        self.device = self.arena.device
        self.context = context_length(model)
        self.waiting: list[Request] = []
        self.joining: list[Request] = []
        self.lock = threading.Lock()
        self.rows: list[_Row] = []

    def submit(self, request: Request) -> None:
        """Add a request to the queue, from any thread.

        Raises:
            ModelError: The prompt is empty or fills the context (kind `context`).
        """
        if not request.ids:
            raise ModelError("context", "the prompt is empty: there is nothing to continue.")
        if self.context is not None and len(request.ids) >= self.context:
            raise ModelError(
                "context", f"the prompt has {len(request.ids)} tokens and the model's context is {self.context}."
            )
        with self.lock:
            self.waiting.append(request)

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or in progress."""
        return bool(self.rows or self.waiting)

    @torch.inference_mode()
    def step(self) -> None:
        """Admit the requests that there is room for, and give each running row its next token."""
        self.joining = self._admit()
        for group in self._groups(self.joining):
            self._prefill(group)
        self.joining = []
        if self.rows:
            lengths = [row.length for row in self.rows]
            self.arena.reserve(len(self.rows), max(lengths), used=len(self.rows))
            logits = self._forward(0, [[row.token_ids[-1]] for row in self.rows], lengths)
            self._draw(0, logits)

    def fail_all(self, error: Exception) -> None:
        """Deliver the error to every request that is waiting or in progress; empty the batch."""
        with self.lock:
            requests = [row.request for row in self.rows] + self.joining + self.waiting
            self.waiting = []
        self.rows, self.joining = [], []
        for request in {id(request): request for request in requests}.values():
            if len(request.done) < request.sampling.n:
                request.deliver(error)

    def _limit(self, request: Request) -> int:
        room = request.sampling.max_tokens
        return room if self.context is None else min(room, self.context - len(request.ids))

    def _admit(self) -> list[Request]:
        """Take from the queue, in order, the requests that there is room for."""
        rows = len(self.rows)
        columns = max((len(row.request.ids) + row.limit for row in self.rows), default=0)
        taken: list[Request] = []
        with self.lock:
            for request in self.waiting:
                rows += request.sampling.n
                columns = max(columns, len(request.ids) + self._limit(request))
                if (self.rows or taken) and (rows > self.max_rows or not self.arena.fits(rows, columns)):
                    break
                taken.append(request)
            del self.waiting[: len(taken)]
        return taken

    def _groups(self, requests: list[Request]) -> list[list[Request]]:
        """Requests in groups of similar lengths, each of at most `prefill_tokens` with padding."""
        groups: list[list[Request]] = []
        for request in sorted(requests, key=lambda one: len(one.ids)):
            if not groups or (len(groups[-1]) + 1) * len(request.ids) > self.prefill_tokens:
                groups.append([])
            groups[-1].append(request)
        return groups

    def _prefill(self, group: list[Request]) -> None:
        """Compute the prompts of a group, and draw the first token of every sample."""
        low, samples = len(self.rows), sum(request.sampling.n for request in group)
        width = max(len(request.ids) for request in group)
        self.arena.reserve(low + samples, max(width, *(row.length for row in self.rows), 0), used=low)
        logits = self._forward(low, [request.ids for request in group], [len(request.ids) for request in group])
        source = [place for place, request in enumerate(group) for _ in range(request.sampling.n)]
        if samples > len(group):
            self.arena.copy_rows([low + place for place in source], list(range(low, low + samples)), width)
        self.rows += [_Row(one, number, self._limit(one)) for one in group for number in range(one.sampling.n)]
        self._draw(low, logits[torch.tensor(source, device=self.device)])

    def _forward(self, low: int, new_ids: list[list[int]], lengths: list[int]) -> torch.Tensor:
        """Run the model on the newest tokens of some rows.

        Args:
            low: Place of the first row in the arena.
            new_ids: The new token ids of each row.
            lengths: Tokens of each row, new ones included.

        Returns:
            Logits of each row's last token, [rows, vocabulary].
        """
        new, width = max(map(len, new_ids)), max(lengths)
        ids, columns = np.zeros((2, len(new_ids), new), dtype=np.int64)
        columns[:] = self.arena.scratch
        positions = np.zeros_like(ids)  # padding sees column 0: a position that sees nothing could give NaN
        for row, (tokens, length) in enumerate(zip(new_ids, lengths, strict=True)):
            ids[row, new - len(tokens) :] = tokens
            places = np.arange(length - len(tokens), length)
            columns[row, new - len(tokens) :] = positions[row, new - len(tokens) :] = places
        to_device = (torch.from_numpy(one).to(self.device) for one in (ids, columns, positions))
        input_ids, to_columns, position_ids = to_device
        hidden = torch.arange(width, device=self.device) > position_ids[:, None, :, None]
        mask = torch.zeros(hidden.shape, dtype=self.model.dtype, device=self.device)
        mask.masked_fill_(hidden, torch.finfo(self.model.dtype).min)
        self.arena.look_at(low, low + len(new_ids), to_columns, width)
        output = self.model(
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=position_ids,
            past_key_values=self.arena,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]

    def _draw(self, low: int, logits: torch.Tensor) -> None:
        """Add a token to the rows from `low` on, from their logits [rows, vocabulary], and remove those that end."""
        rows = self.rows[low:]
        samplings = [row.request.sampling for row in rows]
        tokens, logps = sample_tokens(
            logits,
            self._floats([row.uniforms[len(row.token_ids)] for row in rows]),
            self._floats([sampling.temperature for sampling in samplings]),
            self._floats([sampling.top_p for sampling in samplings]) if any(s.top_p < 1 for s in samplings) else None,
        )
        leaving = []
        for place, (row, token, logp) in enumerate(zip(rows, tokens.tolist(), logps.tolist(), strict=True), low):
            row.token_ids.append(token)
            row.logprobs.append(logp)
            if token in self.eos_ids or len(row.token_ids) == row.limit:
                leaving.append(place)
        if leaving:
            self._remove(leaving)

    def _remove(self, leaving: list[int]) -> None:
        """Deliver the rows at these places, and move the last rows into the places."""
        ended = [self.rows[place] for place in leaving]
        left = len(self.rows) - len(leaving)
        gone = set(leaving)
        holes = [place for place in leaving if place < left]
        movers = [place for place in range(left, len(self.rows)) if place not in gone]
        if movers:
            self.arena.copy_rows(movers, holes, max(self.rows[place].length for place in movers))
            for hole, mover in zip(holes, movers, strict=True):
                self.rows[hole] = self.rows[mover]
        del self.rows[left:]
        for row in ended:
            self._finish(row)

    def _finish(self, row: _Row) -> None:
        request = row.request
        reason = "stop" if row.token_ids[-1] in self.eos_ids else "length"
        request.done[row.number] = Generated(row.token_ids, row.logprobs, reason)
        if len(request.done) == request.sampling.n:
            request.deliver([request.done[number] for number in range(request.sampling.n)])

    def _floats(self, values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)


def context_length(model: Any) -> int | None:
    """Return the number of positions that the model was made for, or None if its configuration does not tell.

    A sliding attention window counts as the end of the context.
    """
    config = model.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None)]
    sliding = "sliding_attention" in (getattr(config, "layer_types", None) or [])
    if sliding or (getattr(config, "layer_types", None) is None and getattr(config, "sliding_window", None)):
        limits.append(getattr(config, "sliding_window", None))
    known = [limit for limit in limits if limit]
    return min(known) if known else None


class KVArena(Cache):
    """Keys and values of a batch, one tensor [rows, heads, columns, size] per layer for each.

    The last column is scratch: padding is written there and never read.

    Args:
        model: A causal language model; one token is passed through it to find the shapes.
        budget_bytes: Memory for keys and values.

    Raises:
        UserError: The model has no plain key-value cache in each layer.
    """

    def __init__(self, model: Any, budget_bytes: int) -> None:
        super().__init__(layers=[])
        self.device = model.get_input_embeddings().weight.device
        probe = DynamicCache()
        with torch.inference_mode():
            model(torch.zeros(1, 1, dtype=torch.long, device=self.device), past_key_values=probe, use_cache=True)
        pairs: list[tuple[Any, Any]] = [
            (getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in probe.layers
        ]
        if not pairs or any(not torch.is_tensor(one) or one.dim() != 4 for pair in pairs for one in pair):
            raise UserError(
                f"{type(model).__name__} does not keep one plain key-value cache per layer (recurrent or mixed "
                "layers), which sampling in this process needs. Serve it instead (vllm serve, transformers serve) and "
                "give --hostname."
            )
        self._layers = [tuple(one[:0, :, :0] for one in pair) for pair in pairs]
        self.capacity = budget_bytes // sum(one.numel() * one.element_size() for pair in pairs for one in pair)
        self._window: tuple | None = None

    @property
    def scratch(self) -> int:
        """The column that padding is written to."""
        return self._layers[0][0].shape[2] - 1

    def fits(self, rows: int, columns: int) -> bool:
        """Return whether rows x columns stay within the memory budget."""
        return rows * (columns + 1 + _COLUMN_STEP) <= self.capacity

    def reserve(self, rows: int, columns: int, used: int) -> None:
        """Make room for `rows` rows of `columns` columns; the first `used` rows keep their content."""
        have_rows, have_columns = self._layers[0][0].shape[0], self.scratch + 1
        if rows <= have_rows and columns < have_columns:
            return
        needed = -(-(columns + 1) // _COLUMN_STEP) * _COLUMN_STEP
        shape = max(2 * have_rows if rows > have_rows else have_rows, rows), max(needed, have_columns)
        if shape[0] * shape[1] > self.capacity:
            shape = rows, needed
        kept = min(have_columns, shape[1]) - 1  # without the old scratch column
        for place, pair in enumerate(self._layers):
            grown = tuple(one.new_zeros(shape[0], one.shape[1], shape[1], one.shape[3]) for one in pair)
            for new, old in zip(grown, pair, strict=True):
                if used and kept > 0:
                    new[:used, :, :kept] = old[:used, :, :kept]
            self._layers[place] = grown

    def look_at(self, low: int, high: int, columns: torch.Tensor, width: int) -> None:
        """Set what the next forward pass writes and reads.

        Rows low..high-1 write their new tokens to `columns`, [rows, new tokens] int64, and read columns 0..width-1.
        """
        rows = torch.arange(low, high, device=self.device)[:, None].expand_as(columns)
        self._window = (low, high, rows, columns, width)

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003
        low, high, rows, columns, width = self._window
        keys, values = self._layers[layer_idx]
        keys[rows, :, columns] = key_states.transpose(1, 2)
        values[rows, :, columns] = value_states.transpose(1, 2)
        return keys[low:high, :, :width], values[low:high, :, :width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self._window is None else self._window[4]

    def copy_rows(self, source: list[int], target: list[int], width: int) -> None:
        """Copy columns 0..width-1 of the rows `source` onto the rows `target`."""
        to, of = (torch.tensor(rows, device=self.device) for rows in (target, source))
        for pair in self._layers:
            for one in pair:
                one[to, :, :width] = one[of, :, :width]


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample by inverting the cumulative distribution: the token at which it first exceeds the uniform number.

    The token of a row depends on its own logits and its own number only, not on the other rows of the batch.

    Args:
        logits: [rows, vocabulary], any float type.
        uniforms: [rows] in [0, 1), float32.
        temperature: [rows], 0 for greedy rows.
        top_p: [rows], or None if no row cuts its tail.

    Returns:
        tokens: [rows] int64.
        logps: [rows] float32, under the distribution that was sampled from (temperature and top_p applied,
            renormalised); under softmax(logits) in greedy rows.
    """
    logits = logits.float()
    greedy = temperature == 0
    any_greedy = bool(greedy.any())
    scale = torch.where(greedy, torch.ones_like(temperature), temperature)
    logps = torch.log_softmax(logits / scale[:, None], dim=-1)
    if top_p is not None:
        logps = _cut_tail(logps, torch.where(greedy, torch.ones_like(top_p), top_p))
    cumulative = logps.exp().cumsum(dim=-1)
    total = cumulative[:, -1:]
    # Strictly below the total, so that rounding never gives a token behind the last one of positive probability.
    point = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cumulative, point, right=True)
    if any_greedy:
        tokens = torch.where(greedy[:, None], logits.argmax(dim=-1, keepdim=True), tokens)
    return tokens[:, 0], logps.gather(1, tokens)[:, 0]


def _cut_tail(logps: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Return log-probs, [rows, vocabulary], of the smallest set of likeliest tokens that reaches top_p."""
    ordered, order = logps.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.exp()
    before = probabilities.cumsum(dim=-1) - probabilities
    dropped = (before >= top_p[:, None]) & (top_p[:, None] < 1)
    dropped[:, 0] = False
    kept = torch.empty_like(logps).scatter_(1, order, ordered.masked_fill(dropped, float("-inf")))
    return torch.log_softmax(kept, dim=-1)
