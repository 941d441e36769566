"""What a run of dialogues amounts to, from its records on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def summarise(rows: Iterable[dict], seconds: float | None = None, before: int = 0) -> dict[str, Any]:
    """Endings, failures by side and kind, turns, tokens of both sides, leaks, of trajectory rows as on disk.

    `seconds` is what all rows but the first `before` took; speeds are theirs alone, rows of an earlier, interrupted
    process not counted. Reads the rows once and keeps none.
    """
    endings, failures, tokens, fresh = Counter(), Counter(), Counter(), Counter()
    dialogues = turns = leaks = told = 0
    for row in rows:
        dialogues += 1
        endings[row.get("ending") or "unknown"] += 1
        if row.get("failure"):
            failures[f"{row['failure'].get('side')}: {row['failure'].get('kind')}"] += 1
        said = sum(message["role"] == "assistant" for message in row["dialogue_history"])
        turns += said
        leaks += row.get("leaks", 0)
        told += row.get("leaks", 0) > 0
        made = {f"{side}_{name}": n for side, used in row.get("usage", {}).items() for name, n in used.items()}
        tokens.update(made)
        if dialogues > before:
            fresh.update({"dialogues": 1, "turns": said, **made})
    summary: dict[str, Any] = {
        "dialogues": dialogues,
        "endings": dict(sorted(endings.items())),
        "failures": dict(sorted(failures.items())),
        "turns": turns,
        "turns_per_dialogue": round(turns / dialogues, 2) if dialogues else 0.0,
        "simulator_leaks": leaks,
        "dialogues_with_leaks": told,
        "tokens": dict(sorted(tokens.items())),
    }
    if seconds and fresh:
        summary |= {
            "seconds": round(seconds, 1),
            "dialogues_per_second": round(fresh["dialogues"] / seconds, 2),
            "turns_per_second": round(fresh["turns"] / seconds, 2),
            "agent_tokens_per_second": round(fresh["agent_completion_tokens"] / seconds, 1),
            "human_tokens_per_second": round(fresh["human_completion_tokens"] / seconds, 1),
        }
    return summary
