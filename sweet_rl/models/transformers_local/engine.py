"""The running batch of one model: which requests are in it, and one more token for each row."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch

from sweet_rl.models.base import ModelError
from sweet_rl.models.transformers_local.kv_arena import KVArena
from sweet_rl.models.transformers_local.requests import Generated, Request, Row
from sweet_rl.models.transformers_local.sample_tokens import sample_tokens


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
        self.rows: list[Row] = []

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
        self.rows += [Row(one, number, self._limit(one)) for one in group for number in range(one.sampling.n)]
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

    def _finish(self, row: Row) -> None:
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
