"""Continuous batching: prompts join the running batch as they come, rows leave it as they end.

One call to `step` admits what waits (a prompt is computed once for all its samples) and gives every running
row one token. Nothing about a row depends on its companions but rounding: matrix products of another batch
shape differ in the last bits, and a sampled token changes if its uniform number falls into that gap. Measured
with the tiny agent at 9 and at 256 dialogues at once: none to one of 300 dialogues (27,000 tokens) differs.
Attention is full and causal; a sliding window bounds the context instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy
import torch

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.kv_arena import KVArena, PrefixStore
from sweet_rl.models.token_sampling import sample_tokens


@dataclass(frozen=True)
class Generated:
    """One sampled continuation: ids (with the end-of-text token where produced), their log-probs, why it
    ended."""

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str


@dataclass
class Request:
    """A prompt to be continued `sampling.n` times. `reusable` is the length of the prompt's beginning that
    an earlier request of this dialogue ended with (0 if none); `deliver` gets the list of Generated, or an
    exception."""

    ids: list[int]
    sampling: Sampling
    deliver: Callable[[list[Generated] | Exception], None]
    reusable: int = 0
    keep: bool = True
    missing: int = 0
    done: list[Generated | None] = field(default_factory=list)
    waited: int = 0


class GenerationEngine:
    """The running batch of one causal language model of `transformers`.

    Args:
        model: in eval mode, on its device.
        eos_ids: token ids that end a reply.
        max_rows: rows that run at once; a request for more samples than this runs alone.
        prefill_tokens: new prompt tokens, padding included, of one forward pass.
        cache_bytes: memory for the running rows' keys and values.
        prefix_bytes: memory for those of finished replies whose dialogue may go on.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        eos_ids: set[int],
        max_rows: int = 256,
        prefill_tokens: int = 8192,
        cache_bytes: int = 4 << 30,
        prefix_bytes: int = 1 << 30,
    ) -> None:
        self.model = model
        self.eos_ids = set(eos_ids)
        self.max_rows = max_rows
        self.prefill_tokens = prefill_tokens
        self.arena = KVArena(model, cache_bytes, max_rows)
        self.prefixes = PrefixStore(prefix_bytes)
        self.device = self.arena.device
        self.context = context_length(model)
        self.waiting: list[Request] = []
        self.joining: list[Request] = []
        self.lock = threading.Lock()
        self.rows: list[tuple[Request, int]] = []
        self.generated_tokens = 0
        self.prefilled_tokens = 0
        self._is_eos: torch.Tensor | None = None
        self._some_cut = False  # whether a running row has top_p below 1; others are spared the sorting
        self._allocate(0, 0)

    def submit(self, request: Request) -> None:
        """Queues a request; any thread. Raises ModelError (kind context) if no token fits behind the
        prompt."""
        if not request.ids:
            raise ModelError("context", "the prompt is empty: there is nothing to continue.")
        if self.context is not None and len(request.ids) >= self.context:
            raise ModelError(
                "context",
                f"the prompt has {len(request.ids)} tokens and the model's context is {self.context}.",
            )
        request.missing = request.sampling.n
        request.done = [None] * request.sampling.n
        with self.lock:
            self.waiting.append(request)

    @property
    def busy(self) -> bool:
        return bool(self.rows or self.waiting)

    @torch.inference_mode()
    def step(self) -> None:
        """Admits what waits and fits, then gives each running row its next token. Delivers what has ended."""
        self.joining = self._admissible()
        for group in self._groups(self.joining):
            self._prefill(group)
        self.joining = []
        if self.rows:
            self._decode()

    def fail_all(self, error: Exception) -> None:
        """Delivers the error to every request, running or waiting, and empties the batch."""
        with self.lock:
            requests = {id(request): request for request, _ in self.rows}
            requests.update((id(request), request) for request in [*self.joining, *self.waiting])
            self.waiting = []
        self.rows, self.joining = [], []
        for request in requests.values():
            if request.missing:
                request.deliver(error)

    def _limit(self, request: Request) -> int:
        room = request.sampling.max_tokens
        return room if self.context is None else min(room, self.context - len(request.ids))

    def _admissible(self) -> list[Request]:
        """Takes from the queue, in order, what fits. A few prompts wait some steps for company, which saves
        passes."""
        with self.lock:
            if not self.waiting:
                return []
            self.waiting[0].waited += 1
            free = self.max_rows - len(self.rows)
            if self.rows and len(self.waiting) < min(free, len(self.rows) // 6) and self.waiting[0].waited < 6:
                return []
            rows = len(self.rows)
            columns = max((len(request.ids) + self._limit(request) for request, _ in self.rows), default=0)
            taken = []
            for request in self.waiting:
                more, wide = rows + request.sampling.n, max(columns, len(request.ids) + self._limit(request))
                if rows and (more > self.max_rows or not self.arena.fits(more, wide)):
                    break
                rows, columns = more, wide
                taken.append(request)
            del self.waiting[: len(taken)]
            return taken

    def _groups(self, requests: list[Request]) -> list[list[tuple[Request, tuple | None]]]:
        """Requests with their stored prefixes, in groups of similar length whose padded size is bounded."""
        found = []
        for request in requests:
            entry = self.prefixes.pop(tuple(request.ids[: request.reusable])) if request.reusable else None
            found.append((request, entry))
        found.sort(key=lambda pair: len(pair[0].ids) - _width(pair[1]))
        groups: list[list] = []
        for request, entry in found:
            new = len(request.ids) - _width(entry)
            if not groups or (len(groups[-1]) + 1) * new > self.prefill_tokens:
                groups.append([])
            groups[-1].append((request, entry))
        return groups

    def _prefill(self, group: list[tuple[Request, tuple | None]]) -> None:
        """Computes the new prompt tokens of a group, left-padded, and draws the first token of every
        sample."""
        low, count = len(self.rows), len(group)
        samples = [(request, number) for request, _ in group for number in range(request.sampling.n)]
        width = max(len(request.ids) for request, _ in group)
        high = low + len(samples)
        self._allocate(high, max(self._limit(request) for request, _ in group))
        longest = max(width, int(self.length[:low].max()) if low else 0)
        self.arena.reserve(high, longest + 1, used=low)

        starts = [_width(entry) for _, entry in group]
        new = max(len(request.ids) - start for (request, _), start in zip(group, starts, strict=True))
        ids = numpy.zeros((count, new), dtype=numpy.int64)
        columns = numpy.full((count, new), self.arena.scratch, dtype=numpy.int64)
        last_seen = numpy.zeros((count, new), dtype=numpy.int64)  # padding sees column 0: never nothing at all
        for row, ((request, entry), start) in enumerate(zip(group, starts, strict=True)):
            size = len(request.ids) - start
            ids[row, new - size :] = request.ids[start:]
            columns[row, new - size :] = last_seen[row, new - size :] = numpy.arange(start, len(request.ids))
            if entry is not None:
                self.arena.put_in(low + row, entry)
        logits = self._forward(
            low, low + count, self._tensor(ids), self._tensor(columns), self._tensor(last_seen), width
        )
        self.prefilled_tokens += sum(
            len(request.ids) - start for (request, _), start in zip(group, starts, strict=True)
        )

        if len(samples) > count:
            order = [row for row, (request, _) in enumerate(group) for _ in range(request.sampling.n)]
            source, target = (
                self._tensor([low + row for row in order]),
                torch.arange(low, high, device=self.device),
            )
            self.arena.copy_rows(source, target, width)
            logits = logits[self._tensor(order)]
        self._seat(low, samples)
        self.rows.extend(samples)
        self._draw(low, high, logits)

    def _seat(self, low: int, samples: list[tuple[Request, int]]) -> None:
        """Writes the new rows' lengths, limits and random numbers."""
        high = low + len(samples)
        self.length[low:high] = self._tensor([len(request.ids) for request, _ in samples])
        self.limit[low:high] = self._tensor([self._limit(request) for request, _ in samples])
        self.made[low:high] = 0
        self.temperature[low:high] = self._tensor(
            [request.sampling.temperature for request, _ in samples], torch.float32
        )
        self.top_p[low:high] = self._tensor([request.sampling.top_p for request, _ in samples], torch.float32)
        self._some_cut |= any(request.sampling.top_p < 1 for request, _ in samples)
        uniforms = numpy.zeros((len(samples), self.uniforms.shape[1]), dtype=numpy.float32)
        for row, (request, number) in enumerate(samples):
            limit = self._limit(request)
            if request.sampling.temperature > 0:
                stream = numpy.random.Generator(numpy.random.PCG64(request.sampling.seed + number))
                uniforms[row, :limit] = stream.random(limit, dtype=numpy.float32)
        self.uniforms[low:high] = self._tensor(uniforms, torch.float32)

    def _decode(self) -> None:
        rows = len(self.rows)
        columns = self.length[:rows, None]
        width = int(columns.max()) + 1
        self.arena.reserve(rows, width, used=rows)
        logits = self._forward(0, rows, self.last[:rows, None], columns, columns, width)
        self.length[:rows] += 1
        self._draw(0, rows, logits)

    def _forward(
        self,
        low: int,
        high: int,
        ids: torch.Tensor,
        columns: torch.Tensor,
        last_seen: torch.Tensor,
        width: int,
    ) -> torch.Tensor:
        """Logits [rows, vocabulary] at each row's last new token; ids, columns and last_seen are [rows, new
        tokens]."""
        hidden = torch.arange(width, device=self.device) > last_seen[:, None, :, None]
        mask = torch.zeros(hidden.shape, dtype=self.model.dtype, device=self.device)
        mask.masked_fill_(hidden, torch.finfo(self.model.dtype).min)
        self.arena.look_at(low, high, columns, width)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=last_seen,
            past_key_values=self.arena,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]

    def _draw(self, low: int, high: int, logits: torch.Tensor) -> None:
        """Draws a token for rows low..high-1 and lets those that have ended leave."""
        made = self.made[low:high]
        step = made[:, None]
        top_p = self.top_p[low:high]
        tokens, logps = sample_tokens(
            logits,
            self.uniforms[low:high].gather(1, step)[:, 0],
            self.temperature[low:high],
            top_p if self._some_cut else None,
        )
        self.tokens[low:high].scatter_(1, step, tokens[:, None])
        self.logps[low:high].scatter_(1, step, logps[:, None])
        self.last[low:high] = tokens
        made += 1
        if self._is_eos is None:
            self._is_eos = torch.zeros(logits.shape[-1], dtype=torch.bool, device=self.device)
            self._is_eos[self._tensor([token for token in self.eos_ids if token < logits.shape[-1]])] = True
        ended = self._is_eos[tokens] | (made >= self.limit[low:high])
        self.generated_tokens += high - low
        leaving = ended.nonzero()[:, 0].tolist()
        if leaving:
            self._leave([low + row for row in leaving])

    def _leave(self, leaving: list[int]) -> None:
        """Delivers ended rows and moves the last rows into their places."""
        index = self._tensor(leaving)
        made, lengths = self.made[index].tolist(), self.length[index].tolist()
        tokens, logps = self.tokens[index].tolist(), self.logps[index].tolist()
        complete = []
        for place, row in enumerate(leaving):
            request, number = self.rows[row]
            ids = tokens[place][: made[place]]
            reason = "stop" if ids[-1] in self.eos_ids else "length"
            request.done[number] = Generated(ids, logps[place][: made[place]], reason)
            request.missing -= 1
            if request.keep and request.sampling.n == 1:
                self.prefixes.put((*request.ids, *ids), self.arena.take_out(row, lengths[place]))
            if request.missing == 0:
                complete.append(request)
        gone, rows = set(leaving), len(self.rows)
        left = rows - len(gone)
        holes = [row for row in leaving if row < left]
        movers = [row for row in range(left, rows) if row not in gone]
        if holes:
            source, target = self._tensor(movers), self._tensor(holes)
            self.arena.copy_rows(source, target, int(self.length[source].max()))
            for state in self._states():
                state[target] = state[source]
            for hole, mover in zip(holes, movers, strict=True):
                self.rows[hole] = self.rows[mover]
        del self.rows[left:]
        self._some_cut &= bool(self.rows)
        for request in complete:
            request.deliver(request.done)

    def _states(self) -> list[torch.Tensor]:
        return [getattr(self, name) for name in _STATE_NAMES]

    def _allocate(self, rows: int, tokens: int) -> None:
        """Makes the rows' state at least [rows] and [rows, tokens]; what is there stays."""
        if hasattr(self, "length"):
            have_rows, have_tokens = self.tokens.shape
            if rows <= have_rows and tokens <= have_tokens:
                return
            rows, tokens = max(rows, have_rows), max(tokens, have_tokens)
        for name, (dtype, wide) in _STATE_NAMES.items():
            state = torch.zeros((rows, tokens) if wide else (rows,), dtype=dtype, device=self.device)
            old = getattr(self, name, None)
            if old is not None:
                state[tuple(slice(size) for size in old.shape)] = old
            setattr(self, name, state)

    def _tensor(self, values: object, dtype: torch.dtype = torch.long) -> torch.Tensor:
        return torch.as_tensor(values, dtype=dtype).to(self.device)


_STATE_NAMES = {
    "length": (torch.long, False),
    "last": (torch.long, False),
    "made": (torch.long, False),
    "limit": (torch.long, False),
    "temperature": (torch.float32, False),
    "top_p": (torch.float32, False),
    "uniforms": (torch.float32, True),
    "tokens": (torch.long, True),
    "logps": (torch.float32, True),
}


def _width(entry: tuple[torch.Tensor, torch.Tensor] | None) -> int:
    return 0 if entry is None else entry[0].shape[2]


def context_length(model: torch.nn.Module) -> int | None:
    """Positions that the model was made for; a sliding attention window counts as its end. None if it does
    not say."""
    config = model.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None)]
    sliding = "sliding_attention" in (getattr(config, "layer_types", None) or [])
    if sliding or (getattr(config, "layer_types", None) is None and getattr(config, "sliding_window", None)):
        limits.append(getattr(config, "sliding_window", None))
    known = [limit for limit in limits if limit]
    return min(known) if known else None
