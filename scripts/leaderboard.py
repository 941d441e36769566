"""A leaderboard of run cards, as Markdown and HTML.

    sweet-rl leaderboard colbench/first_1000/results.json other/results.json --output leaderboard.html

Cards are the files results.json of `sweet-rl colbench`. Those that compare stand in one table. Each other table says
what differs: protocol, prompts, human, grader, tasks or sampling.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.evaluation.leaderboard import as_markdown, as_text, grouped
from sweet_rl.evaluation.run_card import read_card
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.texts import write_texts
from sweet_rl.viewer.cards import leaderboard_page


def main(cards: tuple[str, ...], output: str = "leaderboard.html", overwrite: bool = False) -> None:
    """Group run cards by what they were measured with.

    Args:
        cards: Run cards. Files may also stand before the flags.
        output: HTML file; the same in Markdown is written beside it, with the ending .md.
        overwrite: Replace outputs that hold something else.
    """
    page, markdown = Path(output), Path(output).with_suffix(".md")
    if page == markdown:
        raise UserError(f"--output {output}: the Markdown file has this name; choose one that ends with .html.")
    if not cards:
        raise UserError("no run card was given: sweet-rl leaderboard CARD CARD ...")
    check_paths([page, markdown], cards)
    groups = grouped({card: read_card(card) for card in cards})
    write_texts({page: leaderboard_page(groups), markdown: as_markdown(groups)}, overwrite)
    print(as_text(groups))
    print(f"{page} and {markdown}: {len(groups)} tables of {len(cards)} cards")


def with_files_first(words: Sequence[str]) -> list[str]:
    """The command line in which files before the first flag are the value of --cards."""
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return [*(["--cards", ",".join(words[:count])] if count else []), *words[count:]]


if __name__ == "__main__":
    run(main, with_files_first(sys.argv[1:]))
