"""Compare graded runs on the same tasks: one table as text, Markdown, JSON and LaTeX.

    python scripts/compare_runs.py zero_shot.graded.jsonl sweet.graded.jsonl --baselines zero_shot

    python scripts/compare_runs.py --runs "zero-shot=a.jsonl,DPO=d1.jsonl+d2.jsonl,SWEET-RL=b1.jsonl+b2.jsonl" \
        --chains "SWEET-RL>DPO>zero-shot" --paper table2 --output_path results.json --markdown_path results.md

The files are outputs of evaluate_code.py or evaluate_html.py; files joined by + are seeds of one method.
"""

import json
import sys
from collections.abc import Sequence

from sweet_rl.cli import run
from sweet_rl.cli.configs import packaged_config
from sweet_rl.errors import UserError
from sweet_rl.evaluation.comparison import compare
from sweet_rl.evaluation.comparison_table import as_latex, as_markdown, as_text, paper_results
from sweet_rl.evaluation.graded_file import parse_runs, read_graded
from sweet_rl.runs.texts import write_texts

PAPER = packaged_config("paper/results.yaml")


def main(
    runs: dict | str,
    baselines: list[str] = (),
    chains: list[str] = (),
    paper: str | None = None,
    output_path: str | None = None,
    markdown_path: str | None = None,
    latex_path: str | None = None,
    mix_humans: bool = False,
    settings: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Print each run's figures and the paired differences between runs.

    Args:
        runs: Files of each run as name=file[+file...], separated by commas. A file without a name is named after
            itself. In a config file also {name: file or files}. Files may also stand before the flags.
        baselines: Names of runs that every run is compared with, task by task.
        chains: Names joined by >, each compared with the next, for example "SWEET-RL>DPO>zero-shot".
        paper: Table of the paper whose figures are shown beside the runs of the same name: table2, table3 or table4.
        output_path: JSON file of the figures.
        markdown_path: Markdown file of the tables.
        latex_path: LaTeX file of the tables (booktabs).
        mix_humans: Compare also runs that were played with different simulated humans.
        settings: Note, kept with the outputs, on the settings that the runs were trained with.
        seed: Random seed of the bootstrap.
        overwrite: Replace outputs that exist with other content.
    """
    paths = parse_runs(runs)
    outputs = [path for path in (output_path, markdown_path, latex_path) if path is not None]
    if len(set(outputs)) < len(outputs):
        raise UserError(f"two outputs are written to one of {', '.join(outputs)}: choose different files.")
    figures = paper_results(PAPER, paper).get("rows") if paper else None
    graded = {name: [read_graded(path) for path in files] for name, files in paths.items()}
    comparison = compare(graded, list(baselines), [parse_chain(chain) for chain in chains], seed, mix_humans)
    content = comparison.to_dict() | {"paper": figures, "files": paths, "seed": seed}
    markdown = as_markdown(comparison, figures)
    if settings is not None:
        content |= {"settings": settings}
        markdown += f"\nSettings: {settings}.\n"
    texts = {
        output_path: json.dumps(content, indent=2, ensure_ascii=False) + "\n",
        markdown_path: markdown,
        latex_path: as_latex(comparison, figures),
    }
    write_texts({path: text for path, text in texts.items() if path is not None}, overwrite)
    print(as_text(comparison, figures))


def parse_chain(chain: str) -> list[str]:
    """Names joined by >. Raises UserError for fewer than two."""
    names = [name.strip() for name in chain.split(">")]
    if len(names) < 2 or not all(names):
        raise UserError(f"--chains: expected names of runs joined by >, found {chain!r}.")
    return names


def with_files_first(words: Sequence[str]) -> list[str]:
    """The command line in which files before the first flag are the value of --runs."""
    if any(word.partition("=")[0] == "--runs" for word in words):
        return list(words)
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return [*(["--runs", ",".join(words[:count])] if count else []), *words[count:]]


if __name__ == "__main__":
    run(main, with_files_first(sys.argv[1:]))
