"""The running batch of one model: which requests are in it, and one more token for each row."""

from __future__ import annotations

import copy
import threading
from functools import cached_property
from typing import Any

import numpy as np
import torch

from sweet_rl.models.base import ModelError
from sweet_rl.models.context import context_length, forget_lengths, rope_group
from sweet_rl.models.log_probs.rows import group_indices
from sweet_rl.models.threads import TINY
from sweet_rl.models.transformers_local.kept_texts import KeptTexts
from sweet_rl.models.transformers_local.kv_arena import KVArena, cannot_sample
from sweet_rl.models.transformers_local.requests import Generated, Request, Row
from sweet_rl.models.transformers_local.sample_tokens import sample_tokens

TOLERANCE = 0.2  # of the largest logit, between a row of a batch and itself alone; a wrong mask is off by far more
SMALL_VOCABULARY = 4096  # tokens; with more, an untrained model is near an edge at every token
NEAR = 1e-4  # probability; batches of `mini` in float32 and its rows alone in float64 differ by up to 3e-6


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
        self.model = model
        self.eos_ids = set(eos_ids)
        self.max_rows = max_rows
        self.prefill_tokens = prefill_tokens
        self.arena = KVArena(model, cache_bytes)
        self.kept = KeptTexts(self.arena.capacity // 4, self.eos_ids)
        self.arena.capacity -= self.kept.capacity
        self.device = self.arena.device
        self.context = _sampled_context(model)
        self.masks = _layer_masks(model)
        self.fixed_rope = not rope_group(model.config, 0)
        small = model.config.get_text_config().vocab_size <= SMALL_VOCABULARY
        self.tiny = small and model.dtype == torch.float32 and sum(one.numel() for one in model.parameters()) <= TINY
        self.waiting: list[Request] = []
        self.joining: list[Request] = []
        self.lock = threading.Lock()
        self.rows: list[Row] = []
        self._check()

    @torch.inference_mode()
    def _check(self) -> None:
        """Raise UserError if rows of different lengths do not give the logits that each gives by itself."""
        prompts, more = [[0, 1, 2, 3, 4], [3, 0]], [[1], [4]]
        try:
            self.arena.reserve(2, 6, used=0)
            places = slice(0, 2)
            found = [self._forward(places, prompts, [5, 2]), self._forward(places, more, [6, 3])]
            texts = [*prompts, *(first + then for first, then in zip(prompts, more, strict=True))]
            plain = [self.model(torch.tensor([ids], device=self.device)).logits[0, -1] for ids in texts]
        except Exception as error:  # of a model that wants other masks, positions or caches
            raise cannot_sample(self.model, error) from error
        expected = torch.stack(plain).float()
        if (torch.cat(found).float() - expected).abs().max() > TOLERANCE * expected.abs().max():
            raise cannot_sample(self.model)

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
        for request in self.joining:
            request.known, request.pairs = self.kept.take(request.ids)
        for group in self._groups(self.joining):
            self._prefill(group)
        self.joining = []
        if self.rows:
            self.arena.reserve(len(self.rows), max(row.length for row in self.rows), used=len(self.rows))
            self._draw(0, self._next_logits())

    def _next_logits(self) -> torch.Tensor:
        """Logits of the last token of every row, [rows, vocabulary].

        Rows that may not share a forward pass have passes of their own. A row whose length moves it into another group
        is computed again as a whole, because its keys were rotated as the old group's.
        """
        kinds = []
        for row in self.rows:
            group = self._rope_group(row.length)
            kinds.append((group, group != row.group))
            row.group = group
        groups = group_indices(kinds)
        parts = []
        for places in groups:
            rows = [self.rows[place] for place in places]
            again = kinds[places[0]][1]
            new = [[*row.request.ids, *row.token_ids] if again else row.token_ids[-1:] for row in rows]
            chosen = slice(0, len(rows)) if len(groups) == 1 else torch.tensor(places, device=self.device)
            parts.append(self._forward(chosen, new, [row.length for row in rows]))
        order = torch.tensor([place for places in groups for place in places], device=self.device)
        return torch.cat(parts)[order.argsort()] if len(groups) > 1 else parts[0]

    def fail_all(self, error: Exception) -> None:
        """Deliver the error to every request that is waiting or in progress; empty the batch."""
        with self.lock:
            requests = [row.request for row in self.rows] + self.joining + self.waiting
            self.waiting = []
        self.rows, self.joining = [], []
        for request in {id(request): request for request in requests}.values():
            if len(request.done) < request.sampling.n:
                request.deliver(error)

    def _rope_group(self, tokens: int) -> tuple[int, ...]:
        return () if self.fixed_rope else rope_group(self.model.config, tokens)

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
        """Requests in groups with similar numbers of new tokens, each of at most `prefill_tokens` with padding."""
        groups: list[list[Request]] = []
        last = None
        for request in sorted(requests, key=lambda one: len(one.new_ids)):
            rope = self._rope_group(len(request.ids))
            if not groups or rope != last or (len(groups[-1]) + 1) * len(request.new_ids) > self.prefill_tokens:
                groups.append([])
            groups[-1].append(request)
            last = rope
        return groups

    def _prefill(self, group: list[Request]) -> None:
        """Compute the prompts of a group, and draw the first token of every sample."""
        low, samples = len(self.rows), sum(request.sampling.n for request in group)
        width = max(len(request.ids) for request in group)
        self.arena.reserve(low + samples, max(width, *(row.length for row in self.rows), 0), used=low)
        places = slice(low, low + len(group))
        for place, request in enumerate(group, low):
            if request.known:
                self.arena.write_row(place, request.pairs)
                request.pairs = []
        logits = self._forward(places, [request.new_ids for request in group], [len(request.ids) for request in group])
        source = [place for place, request in enumerate(group) for _ in range(request.sampling.n)]
        if samples > len(group):
            self.arena.copy_rows([low + place for place in source], list(range(low, low + samples)), width)
        rows = [Row(one, number, self._limit(one)) for one in group for number in range(one.sampling.n)]
        for row in rows:
            row.group = self._rope_group(row.length)
        self.rows += rows
        self._draw(low, logits[torch.tensor(source, device=self.device)])

    def _forward(self, places: slice | torch.Tensor, new_ids: list[list[int]], lengths: list[int]) -> torch.Tensor:
        """Run the model on the newest tokens of some rows.

        Args:
            places: Places of the rows in the arena.
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
            own = np.arange(length - len(tokens), length)
            columns[row, new - len(tokens) :] = positions[row, new - len(tokens) :] = own
        to_device = (torch.from_numpy(one).to(self.device) for one in (ids, columns, positions))
        input_ids, to_columns, position_ids = to_device
        masks = {kind: self._mask(position_ids, width, *limits) for kind, limits in self.masks.items()}
        self.arena.look_at(places, to_columns, width)
        forget_lengths(self.model)
        output = self.model(
            input_ids=input_ids,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            position_ids=position_ids,
            past_key_values=self.arena,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]

    def _mask(self, positions: torch.Tensor, width: int, window: int | None, chunk: int | None) -> torch.Tensor:
        """What the tokens at `positions` [rows, new tokens] may see of columns 0..width-1, to be added to scores.

        Args:
            positions: Positions of the new tokens: int64 [rows, new tokens].
            width: Number of columns.
            window: Number of tokens that a token sees, itself included; None for all.
            chunk: Length of the chunks whose tokens see only their own chunk; None for no chunks.
        """
        at, own = torch.arange(width, device=self.device), positions[:, None, :, None]
        hidden = at > own
        if window is not None:
            hidden |= own - at >= window
        if chunk is not None:
            hidden |= own // chunk != at // chunk
        mask = torch.zeros(hidden.shape, dtype=self.model.dtype, device=self.device)
        return mask.masked_fill_(hidden, torch.finfo(self.model.dtype).min)

    def _draw(self, low: int, logits: torch.Tensor) -> None:
        """Add a token to the rows from `low` on, from their logits [rows, vocabulary], and remove those that end."""
        rows = self.rows[low:]
        tokens, logps, margins = self._sample(rows, logits)
        if self.tiny:
            for place in (margins < NEAR).nonzero()[:, 0].tolist():
                token, logp, _ = self._sample([rows[place]], self._logits_alone(rows[place]))
                tokens[place], logps[place] = token[0], logp[0]
        leaving = []
        for place, (row, token, logp) in enumerate(zip(rows, tokens.tolist(), logps.tolist(), strict=True), low):
            row.token_ids.append(token)
            row.logprobs.append(logp)
            if token in self.eos_ids or len(row.token_ids) == row.limit:
                leaving.append(place)
        if leaving:
            self._remove(leaving)

    def _sample(self, rows: list[Row], logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Tokens, log-probs and margins of `sample_tokens`, [rows] each, from logits [rows, vocabulary]."""
        samplings = [row.request.sampling for row in rows]
        return sample_tokens(
            logits,
            self._floats([row.uniforms[len(row.token_ids)] for row in rows]),
            self._floats([sampling.temperature for sampling in samplings]),
            self._floats([sampling.top_p for sampling in samplings]) if any(s.top_p < 1 for s in samplings) else None,
        )

    def _logits_alone(self, row: Row) -> torch.Tensor:
        """Logits of the row's last token, [1, vocabulary] float64, from a forward pass over the row alone."""
        ids = torch.tensor([[*row.request.ids, *row.token_ids]], device=self.device)
        forget_lengths(self._in_float64)
        return self._in_float64(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]

    @cached_property
    def _in_float64(self) -> Any:
        return copy.deepcopy(self.model).double()

    def _remove(self, leaving: list[int]) -> None:
        """Deliver the rows at these places, and move the last rows into the places."""
        ended = [self.rows[place] for place in leaving]
        for place, row in zip(leaving, ended, strict=True):
            if self.fixed_rope and row.request.sampling.n == 1:
                text = [*row.request.ids, *row.token_ids[:-1]]  # the keys of the last token are not computed
                self.kept.keep(text, self.arena.read_row(place, len(text)))
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

    def _finish(self, row: Row) -> None:
        request = row.request
        reason = "stop" if row.token_ids[-1] in self.eos_ids else "length"
        request.done[row.number] = Generated(row.token_ids, row.logprobs, reason)
        if len(request.done) == request.sampling.n:
            request.deliver([request.done[number] for number in range(request.sampling.n)])

    def _floats(self, values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)


def _layer_masks(model: Any) -> dict[str, tuple[int | None, int | None]]:
    """Window and chunk of each type of layer that the model has, by the name under which it takes their mask."""
    text = model.config.get_text_config()
    window, chunk = getattr(text, "sliding_window", None), getattr(text, "attention_chunk_size", None)
    known = {"full_attention": (None, None), "sliding_attention": (window, None), "chunked_attention": (None, chunk)}
    kinds = set(getattr(text, "layer_types", None) or ())
    if not kinds:  # all layers are of one type
        kinds = {"sliding_attention" if window else "chunked_attention" if chunk else "full_attention"}
    if not kinds <= known.keys():
        raise cannot_sample(model)
    return {kind: known[kind] for kind in sorted(kinds)}


def _sampled_context(model: Any) -> int | None:
    """The number of tokens that a text may have; GPT-Neo finds its local windows by the place in the cache."""
    text = model.config.get_text_config()
    local = text.window_size if "local" in getattr(text, "attention_layers", ()) else None
    limits = [limit for limit in (context_length(model.config), local) if limit is not None]
    return min(limits, default=None)
