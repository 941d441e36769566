"""A model of `transformers` in this process, CPU or GPU, as a ChatModel: sampling with continuous batching.

`TransformersModel` puts each call into a queue and waits; a worker thread owns the model. `GenerationEngine.step`
admits the waiting requests that there is room for, computes each new prompt once for all its samples, and gives every
running row its next token, so that rows join and leave the batch at any step. `KVCache` holds keys and values, one row
per sample; a finished row is replaced by the last row. `PrefixCache` keeps those of finished replies, so that a
dialogue's next prompt, which begins with that text, computes only its new tokens.

The random numbers of a row come from its own seed, so its reply does not depend on the other rows of the batch, up to
rounding: matrix products of another batch shape differ in the last bits. The continuous batching of transformers 5
(`generate_batch`) is not used, because it has one seed for a whole batch, and because on a CPU it is much slower.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache

from sweet_rl.models.base import Completion, ModelError, Prompt, Sampling, prompt_ids
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import context_length, freeze, load_weights
from sweet_rl.runs.errors import UserError, first_line, read_by_library

TOLERANCE = 0.2  # of the largest logit: by which a row may differ in a batch and alone; a wrong mask gives more
COLUMN_STEP = 64
KeyValues = list[tuple[torch.Tensor, ...]]  # keys and values of one text, [heads, tokens, size] each, per layer


class TransformersModel:
    """Samples from a causal language model, whose weights must not change: the keys of texts are kept.

    The same prompt, sampling settings and seed give the same reply in any batch, up to rounding.
    """

    def __init__(self, model: Any, chat: ChatFormat) -> None:
        self.chat = chat
        self.engine = GenerationEngine(model.eval(), set(chat.eos_ids))
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()  # None: close
        self._closed = False
        self._worker: threading.Thread | None = None

    @classmethod
    def from_pretrained(
        cls, path: str | Path, device: str | None = None, dtype: str | None = None
    ) -> TransformersModel:
        """Load a checkpoint, by default onto the GPU if there is one.

        The default of `dtype` is that of the checkpoint, on a CPU float32, because most CPUs are slow in bfloat16.
        """
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        chat = ChatFormat.from_pretrained(path)
        model = load_weights(path, dtype or ("float32" if device == "cpu" else "auto"))
        return cls(freeze(model, device), chat)

    async def check(self) -> None:
        """Do nothing: the model is loaded."""

    async def complete(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        if self._closed:
            raise ModelError("engine", "this model has been closed.")
        request = Request(prompt_ids(self.chat, prompt), sampling)
        self.engine.check_prompt(request.ids)
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="transformers-model", daemon=True)
            self._worker.start()
        self._requests.put(request)
        rows = await asyncio.wrap_future(request.future)
        return [
            Completion.of_ids(self.chat, row.token_ids, row.logprobs, row.finish_reason, len(request.ids))
            for row in rows
        ]

    def _work(self) -> None:
        while True:
            try:
                while (request := self._requests.get(block=not self.engine.busy)) is not None:
                    self.engine.submit(request)
            except queue.Empty:
                pass
            else:
                self.engine.fail_all(ModelError("engine", "this model has been closed."))
                return
            try:
                self.engine.step()
            except Exception as error:  # of the model (memory, device): raised in the waiting calls
                self.engine.fail_all(ModelError("engine", f"{type(error).__name__}: {error}"))

    async def close(self) -> None:
        self._closed = True
        self._requests.put(None)
        if self._worker is not None:
            await asyncio.to_thread(self._worker.join)


@dataclass(eq=False)
class Request:
    """A prompt to be continued `sampling.n` times.

    Attributes:
        future: Gets the finished rows in order, or an error.
        ended: The number of rows that are finished.
        known: Number of the prompt's first tokens whose keys and values are in `key_values`.
    """

    ids: list[int]
    sampling: Sampling
    future: Future[list[Row]] = field(default_factory=Future)
    rows: list[Row] = field(default_factory=list)
    ended: int = 0
    known: int = 0
    key_values: KeyValues = field(default_factory=list)

    @property
    def new_ids(self) -> list[int]:
        """The prompt's tokens that have to be computed."""
        return self.ids[self.known :]


class Row:
    """One continuation of a request; `uniforms` holds one random number per token."""

    def __init__(self, request: Request, number: int, limit: int) -> None:
        self.request, self.limit = request, limit
        self.uniforms = np.random.Generator(np.random.PCG64(request.sampling.seed + number)).random(limit, np.float32)
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason = "length"

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
        cache_bytes: Memory for keys and values: a quarter of dialogues between their turns, the rest of all rows in
            progress at their full length. One request always runs, even if it needs more.

    Raises:
        UserError: The model has no plain key-value cache in each layer that rows of different lengths can share.
    """

    def __init__(
        self,
        model: Any,
        eos_ids: set[int],
        max_rows: int = 256,
        prefill_tokens: int = 8192,
        cache_bytes: int = 4 << 30,
    ) -> None:
        self.model, self.eos_ids = model, set(eos_ids)
        self.max_rows, self.prefill_tokens = max_rows, prefill_tokens
        self.cache = KVCache(model, cache_bytes)
        self.prefixes = PrefixCache(self.cache.capacity // 4, self.eos_ids)
        self.cache.capacity -= self.prefixes.capacity
        self.device = self.cache.device
        self.context = context_length(model.config)
        self.windows = _layer_windows(model)
        self.waiting: list[Request] = []
        self.rows: list[Row] = []
        self._check()

    @torch.inference_mode()
    def _check(self) -> None:
        """Raise UserError if rows of different lengths do not give the logits that each gives by itself."""
        prompts, more = [[0, 1, 2, 3, 4], [3, 0]], [[1], [4]]
        with read_by_library(partial(cannot_sample, self.model)):  # a model may want other masks, positions or caches
            self.cache.reserve(2, 6, used=0)
            batched = [self._forward(0, prompts, [5, 2]), self._forward(0, more, [6, 3])]
            texts = [*prompts, *(first + then for first, then in zip(prompts, more, strict=True))]
            plain = [self.model(torch.tensor([ids], device=self.device)).logits[0, -1] for ids in texts]
        expected = torch.stack(plain).float()
        if (torch.cat(batched).float() - expected).abs().max() > TOLERANCE * expected.abs().max():
            raise cannot_sample(self.model)

    def check_prompt(self, ids: Sequence[int]) -> None:
        """Raise ModelError (kind `context`) for a prompt that is empty or fills the context."""
        if not ids:
            raise ModelError("context", "the prompt is empty: there is nothing to continue.")
        if self.context is not None and len(ids) >= self.context:
            text = f"the prompt has {len(ids)} tokens and the model's context is {self.context}."
            raise ModelError("context", text)

    def submit(self, request: Request) -> None:
        """Add a request to those that wait, unless its caller has given up."""
        if request.future.set_running_or_notify_cancel():
            self.waiting.append(request)

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or in progress."""
        return bool(self.rows or self.waiting)

    @torch.inference_mode()
    def step(self) -> None:
        """Admit the requests that there is room for, and give each running row its next token."""
        joining = self._admit()
        for group in self._groups(joining):
            self._prefill(group)
            self.waiting = [request for request in self.waiting if request not in group]
        if self.rows:
            lengths = [row.length for row in self.rows]
            self.cache.reserve(len(self.rows), max(lengths), used=len(self.rows))
            self._draw(0, self._forward(0, [row.token_ids[-1:] for row in self.rows], lengths))

    def fail_all(self, error: Exception) -> None:
        """Give the error to every request that is waiting or in progress; empty the batch."""
        for request in {*self.waiting, *(row.request for row in self.rows)}:
            if not request.future.done():
                request.future.set_exception(error)
        self.waiting, self.rows = [], []

    def _limit(self, request: Request) -> int:
        room = request.sampling.max_tokens
        return room if self.context is None else min(room, self.context - len(request.ids))

    def _admit(self) -> list[Request]:
        """The first of the waiting requests, as many as there is room for, with what is kept of their prompts."""
        rows = len(self.rows)
        columns = max((len(row.request.ids) + row.limit for row in self.rows), default=0)
        joining: list[Request] = []
        for request in self.waiting:
            rows += request.sampling.n
            columns = max(columns, len(request.ids) + self._limit(request))
            needed = rows * (columns + 1 + COLUMN_STEP)
            if (self.rows or joining) and (rows > self.max_rows or needed > self.cache.capacity):
                break
            request.known, request.key_values = self.prefixes.take(request.ids)
            joining.append(request)
        return joining

    def _groups(self, requests: list[Request]) -> list[list[Request]]:
        """Requests in groups with similar numbers of new tokens, each of at most `prefill_tokens` with padding."""
        groups: list[list[Request]] = []
        for request in sorted(requests, key=lambda one: len(one.new_ids)):
            if not groups or (len(groups[-1]) + 1) * len(request.new_ids) > self.prefill_tokens:
                groups.append([])
            groups[-1].append(request)
        return groups

    def _prefill(self, group: list[Request]) -> None:
        """Compute the prompts of a group, and draw the first token of every sample."""
        low, samples = len(self.rows), sum(request.sampling.n for request in group)
        width = max(len(request.ids) for request in group)
        self.cache.reserve(low + samples, max(width, *(row.length for row in self.rows), 0), used=low)
        for place, request in enumerate(group, low):
            if request.known:
                self.cache.write_row(place, request.key_values)
                request.key_values = []
        logits = self._forward(low, [request.new_ids for request in group], [len(request.ids) for request in group])
        source = [place for place, request in enumerate(group) for _ in range(request.sampling.n)]
        if samples > len(group):
            self.cache.copy_rows([low + place for place in source], list(range(low, low + samples)), width)
        for request in group:
            request.rows = [Row(request, number, self._limit(request)) for number in range(request.sampling.n)]
            self.rows += request.rows
        self._draw(low, logits[torch.tensor(source, device=self.device)])

    def _forward(self, low: int, new_ids: list[list[int]], lengths: list[int]) -> torch.Tensor:
        """The logits of the last token of each row from `low` on, [rows, vocabulary].

        `new_ids` are the row's tokens that are not in the cache yet, `lengths` the tokens of each row with them.
        """
        new, width = max(map(len, new_ids)), max(lengths)
        ids, columns = np.zeros((2, len(new_ids), new), dtype=np.int64)
        columns[:] = self.cache.scratch
        positions = np.zeros_like(ids)  # padding sees column 0: a position that sees nothing could give NaN
        for row, (tokens, length) in enumerate(zip(new_ids, lengths, strict=True)):
            ids[row, new - len(tokens) :] = tokens
            places = np.arange(length - len(tokens), length)
            columns[row, new - len(tokens) :] = positions[row, new - len(tokens) :] = places
        to_device = (torch.from_numpy(array).to(self.device) for array in (ids, columns, positions))
        input_ids, to_columns, position_ids = to_device
        masks = {kind: self._mask(position_ids, width, window) for kind, window in self.windows.items()}
        self.cache.set_positions(low, to_columns, width)
        output = self.model(
            input_ids=input_ids,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            position_ids=position_ids,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]

    def _mask(self, positions: torch.Tensor, width: int, window: int | None) -> torch.Tensor:
        """What the tokens at `positions` [rows, new tokens] may see of columns 0..width-1, to be added to scores.

        `window` is the number of tokens that a token sees, itself included; None for all.
        """
        columns, rows = torch.arange(width, device=self.device), positions[:, None, :, None]
        hidden = columns > rows
        if window is not None:
            hidden |= rows - columns >= window
        mask = torch.zeros(hidden.shape, dtype=self.model.dtype, device=self.device)
        return mask.masked_fill_(hidden, torch.finfo(self.model.dtype).min)

    def _draw(self, low: int, logits: torch.Tensor) -> None:
        """Add a token to the rows from `low` on, from their logits [rows, vocabulary], and remove those that end."""
        rows = self.rows[low:]
        tokens, logps = sample_tokens(
            logits,
            self._floats([row.uniforms[len(row.token_ids)] for row in rows]),
            self._floats([row.request.sampling.temperature for row in rows]),
        )
        leaving = []
        for place, (row, token, logp) in enumerate(zip(rows, tokens.tolist(), logps.tolist(), strict=True), low):
            row.token_ids.append(token)
            row.logprobs.append(logp)
            if token in self.eos_ids:
                row.finish_reason = "stop"
            if token in self.eos_ids or len(row.token_ids) == row.limit:
                leaving.append(place)
        if leaving:
            self._remove(leaving)

    def _remove(self, leaving: list[int]) -> None:
        """Move the last rows into the places of those that end, and deliver the requests of which all rows ended."""
        ended = [self.rows[place] for place in leaving]
        for place, row in zip(leaving, ended, strict=True):
            if row.request.sampling.n == 1:
                text = [*row.request.ids, *row.token_ids[:-1]]  # the keys of the last token are not computed
                self.prefixes.keep(text, self.cache.read_row(place, len(text)))
        left = len(self.rows) - len(leaving)
        gone = set(leaving)
        holes = [place for place in leaving if place < left]
        movers = [place for place in range(left, len(self.rows)) if place not in gone]
        if movers:
            self.cache.copy_rows(movers, holes, max(self.rows[place].length for place in movers))
            for hole, mover in zip(holes, movers, strict=True):
                self.rows[hole] = self.rows[mover]
        del self.rows[left:]
        for row in ended:
            row.request.ended += 1
            if row.request.ended == len(row.request.rows):
                row.request.future.set_result(row.request.rows)

    def _floats(self, values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)


def _layer_windows(model: Any) -> dict[str, int | None]:
    """The sliding window of each type of layer that the model has, by the name under which it takes their mask."""
    text = model.config.get_text_config()
    window = getattr(text, "sliding_window", None)
    kinds = set(getattr(text, "layer_types", None) or [f"{'sliding' if window else 'full'}_attention"])
    known = {"full_attention": None, "sliding_attention": window}
    if not kinds <= known.keys() or "local" in getattr(text, "attention_layers", ()):  # the second: GPT-Neo
        raise cannot_sample(model)
    return {kind: known[kind] for kind in sorted(kinds)}


def cannot_sample(model: Any, error: Exception | None = None) -> UserError:
    """The error for a model that cannot be sampled from in this process; `error` is that of its trial pass."""
    trial = f" (a trial pass failed: {first_line(error)})" if error else ""
    return UserError(
        f"{type(model).__name__} cannot be sampled from in this process{trial}, which needs one plain key-value cache "
        "per layer that rows of different lengths can share. Serve it instead (vllm serve, transformers serve) and "
        "give --hostname."
    )


class KVCache(Cache):
    """Keys and values of a batch, one tensor [rows, heads, columns, size] per layer for each.

    The last column is scratch: padding is written there and never read. The shapes are found by one token. Raises
    UserError if the model has no plain key-value cache in each layer.
    """

    def __init__(self, model: Any, budget_bytes: int) -> None:
        super().__init__(layers=[])
        self.device = model.get_input_embeddings().weight.device
        probe = DynamicCache()
        with read_by_library(partial(cannot_sample, model)), torch.inference_mode():
            model(torch.zeros(1, 1, dtype=torch.long, device=self.device), past_key_values=probe, use_cache=True)
        pairs: list[tuple[Any, Any]] = [
            (getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in probe.layers
        ]
        if not pairs or any(not torch.is_tensor(one) or one.dim() != 4 for pair in pairs for one in pair):
            raise cannot_sample(model)
        self._layers = [tuple(one[:0, :, :0] for one in pair) for pair in pairs]
        self.capacity = budget_bytes // sum(one.numel() * one.element_size() for pair in pairs for one in pair)
        self._window: tuple = ()

    @property
    def scratch(self) -> int:
        """The column that padding is written to."""
        return self._layers[-1][0].shape[2] - 1

    def reserve(self, rows: int, columns: int, used: int) -> None:
        """Make room for `rows` rows of `columns` columns; the first `used` rows keep their content."""
        # The last layer's, which grows last: if memory runs out, only the first layers have grown.
        have_rows, have_columns = self._layers[-1][0].shape[0], self.scratch + 1
        if rows <= have_rows and columns < have_columns:
            return
        needed = -(-(columns + 1) // COLUMN_STEP) * COLUMN_STEP
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

    def set_positions(self, low: int, columns: torch.Tensor, width: int) -> None:
        """Let the next forward pass write its new tokens to `columns`, int64 [rows, new tokens], of the rows from `low`
        on, and read the first `width` columns."""
        rows = slice(low, low + len(columns))
        places = torch.arange(rows.start, rows.stop, device=self.device)
        self._window = (rows, places[:, None].expand_as(columns), columns, width)

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003
        rows, places, columns, width = self._window
        keys, values = self._layers[layer_idx]
        keys[places, :, columns] = key_states.transpose(1, 2)
        values[places, :, columns] = value_states.transpose(1, 2)
        return keys[rows, :, :width], values[rows, :, :width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._window[-1] if self._window else 0

    def read_row(self, row: int, columns: int) -> KeyValues:
        """Copies of the keys and values of columns 0..columns-1 of a row, [heads, columns, size] each, per layer."""
        return [tuple(one[row, :, :columns].clone() for one in pair) for pair in self._layers]

    def write_row(self, row: int, key_values: KeyValues) -> None:
        """Write what `read_row` returned into the first columns of a row."""
        for pair, kept in zip(self._layers, key_values, strict=True):
            for one, old in zip(pair, kept, strict=True):
                one[row, :, : old.shape[1]] = old

    def copy_rows(self, source: list[int], target: list[int], width: int) -> None:
        """Copy columns 0..width-1 of the rows `source` onto the rows `target`."""
        to, of = (torch.tensor(rows, device=self.device) for rows in (target, source))
        for pair in self._layers:
            for one in pair:
                one[to, :, :width] = one[of, :, :width]


class PrefixCache:
    """The texts of finished replies with their keys and values, the newest ones of at most `capacity` tokens."""

    def __init__(self, capacity: int, eos_ids: Collection[int]) -> None:
        self.capacity, self.eos_ids, self.tokens = capacity, eos_ids, 0
        self._kept: OrderedDict[tuple[int, ...], KeyValues] = OrderedDict()

    def keep(self, ids: Sequence[int], key_values: KeyValues) -> None:
        """Keep a text without the token that ended it, and drop the oldest texts for which there is no memory."""
        self._drop(tuple(ids))
        self._kept[tuple(ids)] = key_values
        self.tokens += len(ids)
        while self.tokens > self.capacity:
            self._drop(next(iter(self._kept)))

    def take(self, ids: Sequence[int]) -> tuple[int, KeyValues]:
        """Remove the longest text that `ids` continue; return its number of tokens (0: none), its keys and values."""
        for end in range(len(ids) - 1, 0, -1):
            if ids[end] in self.eos_ids and (key_values := self._drop(tuple(ids[:end]))) is not None:
                return end, key_values
        return 0, []

    def _drop(self, ids: tuple[int, ...]) -> KeyValues | None:
        key_values = self._kept.pop(ids, None)
        if key_values is not None:
            self.tokens -= len(ids)
        return key_values


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample by inverting the cumulative distribution: the token at which it first exceeds the uniform number.

    The token of a row depends on its own logits and its own number only, not on the other rows of the batch.

    Args:
        logits: [rows, vocabulary], any float type; computed in float32.
        uniforms: [rows] in [0, 1), float32.
        temperature: [rows], 0 for greedy rows.

    Returns:
        Tokens [rows] int64, and their log-probs [rows] float32 under the distribution that was sampled from, in greedy
        rows under softmax(logits).

    Raises:
        ValueError: A logit is NaN or plus infinity.
    """
    greedy = temperature == 0
    scale = torch.where(greedy, 1.0, temperature)
    logps = torch.log_softmax(logits.float() / scale[:, None], dim=-1)
    cumulative = logps.exp().cumsum(dim=-1)
    total = cumulative[:, -1:]
    if total.isnan().any():  # a greedy row would go on, and be graded
        raise ValueError("the log-probs of a token are not finite: the weights are damaged, or their training failed")
    # Strictly below the total, so that rounding never gives a token behind the last one of positive probability.
    point = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cumulative, point, right=True)
    if greedy.any():
        tokens = torch.where(greedy[:, None], logits.argmax(dim=-1, keepdim=True), tokens)
    return tokens[:, 0], logps.gather(1, tokens)[:, 0]
