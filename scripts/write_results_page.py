"""Write a page of results: tables and figures with their commands, seeds, versions and CPU time.

    python scripts/write_results_page.py --results runs/quick/results

`doit page` calls it. No part of the page is written by hand.
"""

from pathlib import Path

from sweet_rl.evaluation.results_page import results_page
from sweet_rl.runs.cli import run
from sweet_rl.runs.texts import write_texts


def main(results: str, command: str = "bash scripts/reproduce.sh {target}", overwrite: bool = False) -> None:
    """Write README.md beside the tables and figures.

    Args:
        results: Folder of the results of dodo.py.
        command: Command that made them, with {target} in the place of table2, figure3a, ...
        overwrite: Replace an existing page.
    """
    page = Path(results) / "README.md"
    write_texts({page: results_page(results, command)}, overwrite)
    print(page)


if __name__ == "__main__":
    run(main)
