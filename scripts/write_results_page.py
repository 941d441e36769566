"""Write a page of results from the outputs of reproduce.sh: tables and figures with commands, seeds, versions, times.

    python scripts/write_results_page.py --input_dir runs/reproduce-mini/results --output_dir results/mini

reproduce.sh calls it with --page DIR. No part of the page is written by hand.
"""

import shutil
from pathlib import Path

from sweet_rl.cli import run
from sweet_rl.evaluation.results_page import results_page
from sweet_rl.runs.texts import write_texts


def main(
    input_dir: str,
    output_dir: str,
    command: str = "bash scripts/reproduce.sh {target} --mini --seeds {seeds}",
    overwrite: bool = False,
) -> None:
    """Write output_dir/README.md, and beside it the tables and figures that it shows.

    Args:
        input_dir: folder with the results of reproduce.sh.
        output_dir: folder of the page.
        command: command that made them; {target} stands for table2, figure3a, ..., {seeds} for the number of seeds.
        overwrite: replace an existing page.
    """
    page, files = results_page(input_dir, command)
    target = Path(output_dir) / "README.md"
    write_texts({target: page}, overwrite)
    if target.parent.resolve() != Path(input_dir).resolve():
        for file in files:
            shutil.copyfile(file, target.with_name(file.name))
    print(f"{target}: {len(files)} files beside it")


if __name__ == "__main__":
    run(main)
