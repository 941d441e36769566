"""What a check found: a line `ok: ...`, `warning: ...` or `FAILED: ...`, which names the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweet_rl.redaction import redacted


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        state: Whether a run can start: yes, yes but not as it should, or no.
        text: What was found and, unless it is ok, the remedy.
    """

    state: Literal["ok", "warning", "FAILED"]
    text: str

    def __str__(self) -> str:
        return redacted(f"{self.state}: {' '.join(self.text.split())}")


def ok(text: str) -> Finding:
    return Finding("ok", text)


def warning(text: str) -> Finding:
    return Finding("warning", text)


def failed(text: str) -> Finding:
    return Finding("FAILED", text)
