"""Compare graded runs on the same tasks: one table as text, Markdown, JSON and LaTeX.

    python scripts/compare_runs.py zero_shot.graded.jsonl sweet.graded.jsonl --baselines zero_shot

    python scripts/compare_runs.py --runs "zero-shot=a.jsonl,DPO=d1.jsonl+d2.jsonl,SWEET-RL=b1.jsonl+b2.jsonl" \
        --chains "SWEET-RL>DPO>zero-shot" --paper table2 --output_path results.json --markdown_path results.md

The files are outputs of evaluate_code.py or evaluate_html.py; files joined by + are seeds of one method.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sweet_rl.evaluation.compare import ComparisonSettings, compare_files
from sweet_rl.runs.cli import run


def main(comparison: ComparisonSettings) -> None:
    """Print each run's figures and the paired differences between runs."""
    compare_files(comparison)


def with_files_first(words: Sequence[str]) -> list[str]:
    """The command line in which files before the first flag are the value of --runs."""
    if any(word.partition("=")[0] == "--runs" for word in words):
        return list(words)
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return [*(["--runs", ",".join(words[:count])] if count else []), *words[count:]]


if __name__ == "__main__":
    run(main, with_files_first(sys.argv[1:]))
