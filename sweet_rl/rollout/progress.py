"""The line that shows how far a run of dialogues is: done, failed, turns and tokens a second, time left."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from typing import Any

from tqdm import tqdm

WINDOW = 60.0  # seconds that speeds are taken over
IN_A_TERMINAL, IN_A_FILE = 1.0, 30.0  # seconds between two lines


class Progress:
    """Use as a context manager. `heard` and `ended` are told what happens; speeds are of the last minute."""

    def __init__(self, total: int, before: int = 0, file: Any = None) -> None:
        file = file or sys.stderr
        self._interval = IN_A_TERMINAL if file.isatty() else IN_A_FILE
        self._bar = tqdm(
            total=total, initial=before, desc="dialogues", unit="dialogue", smoothing=0, file=file,
            mininterval=self._interval, dynamic_ncols=True,
        )  # fmt: skip
        self._counts: Counter[str] = Counter()
        self._history: deque[tuple[float, Counter[str]]] = deque([(time.monotonic(), Counter())])
        self._shown = time.monotonic()

    def heard(self, side: str, tokens: int) -> None:
        """A message of the agent (a turn) or of the human, with its tokens."""
        self._counts[side] += tokens
        self._counts["turns"] += side == "agent"
        if time.monotonic() - self._shown >= self._interval:
            self._show()

    def ended(self, failed: bool) -> None:
        """A dialogue has been written."""
        self._counts["failed"] += failed
        self._bar.update()

    def speeds(self) -> dict[str, float]:
        """Turns, agent tokens and human tokens a second."""
        then, before = self._history[0]
        seconds = max(time.monotonic() - then, 1e-9)
        return {name: (self._counts[name] - before[name]) / seconds for name in ("turns", "agent", "human")}

    def _show(self) -> None:
        now = self._shown = time.monotonic()
        speeds = self.speeds()
        self._bar.set_postfix_str(
            f"failed {self._counts['failed']}, {speeds['turns']:.1f} turns/s, "
            f"tokens/s agent {speeds['agent']:.0f} human {speeds['human']:.0f}"
        )
        self._history.append((now, self._counts.copy()))
        while len(self._history) > 1 and now - self._history[0][0] > WINDOW:
            self._history.popleft()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._show()
        self._bar.close()
