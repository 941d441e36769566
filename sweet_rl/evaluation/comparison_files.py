"""Compare graded files, print the table, and write it as JSON, Markdown and LaTeX."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sweet_rl.evaluation.comparison import compare
from sweet_rl.evaluation.comparison_table import as_latex, as_markdown, as_text
from sweet_rl.evaluation.escaped import in_markdown
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.paper import check_paper, differences_from_paper, paper_results
from sweet_rl.evaluation.seeds import check_seeds, parse_runs
from sweet_rl.runs.cli.configs import packaged_config
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.texts import write_texts

PAPER = packaged_config("paper/results.yaml")


@dataclass(frozen=True)
class ComparisonSettings:
    """Which runs are compared, and where the table is written.

    Attributes:
        runs: Files of each run as name=file[+file...], separated by commas. A file without a name is named after
            itself. In a config file also {name: file or files}. Files may also stand before the flags.
        baselines: Names of runs that every run is compared with, task by task.
        chains: Names joined by >, each compared with the next, for example "SWEET-RL>DPO>zero-shot".
        paper: Table of the paper (table2, table3 or table4) whose figures are shown beside the runs of the same name,
            with lines that name what is not as there.
        output_path: Output for the figures as JSON.
        markdown_path: Output for the tables in Markdown.
        latex_path: Output for the tables in LaTeX (booktabs).
        mix_humans: Compare also runs that were played with different simulated humans.
        settings: Note of the settings that the runs were trained with, for example a log of tries.
        seed: Random seed of the bootstrap.
        overwrite: Replace outputs that exist with other content.
    """

    runs: dict | str
    baselines: tuple[str, ...] = ()
    chains: tuple[str, ...] = ()
    paper: str | None = None
    output_path: str | None = None
    markdown_path: str | None = None
    latex_path: str | None = None
    mix_humans: bool = False
    settings: str | None = None
    seed: int = 0
    overwrite: bool = False


def compare_files(wanted: ComparisonSettings) -> None:
    """Print each run's figures and the paired differences between runs, and write them.

    Raises:
        UserError: Files that cannot be compared (with each other, with the paper), or another output that exists.
    """
    paths = parse_runs(wanted.runs)
    inputs = [path for files in paths.values() for path in files]
    check_paths([wanted.output_path, wanted.markdown_path, wanted.latex_path], inputs)
    figures = paper_results(PAPER, wanted.paper).get("rows") if wanted.paper else None
    graded = {name: [read_graded(path) for path in files] for name, files in paths.items()}
    check_seeds(graded)
    chains = [_parse_chain(chain) for chain in wanted.chains]
    comparison = compare(graded, list(wanted.baselines), chains, wanted.seed, wanted.mix_humans)
    content = comparison.to_dict()
    if figures:
        check_paper(content)
        content |= {"differences_from_paper": differences_from_paper(content)}
    content |= {"paper": figures, "files": paths, "seed": wanted.seed}
    text, markdown = as_text(comparison, figures), as_markdown(comparison, figures)
    if wanted.settings is not None:
        content |= {"settings": wanted.settings}
        text += f"\nSettings: {wanted.settings}."
        markdown += f"\nSettings: {in_markdown(wanted.settings)}.\n"
    texts = {
        wanted.output_path: json.dumps(content, indent=2, ensure_ascii=False) + "\n",
        wanted.markdown_path: markdown,
        wanted.latex_path: as_latex(comparison, figures),
    }
    write_texts({path: text for path, text in texts.items() if path is not None}, wanted.overwrite)
    print(text)


def _parse_chain(chain: str) -> list[str]:
    """Names joined by >. Raises UserError for fewer than two."""
    names = [name.strip() for name in chain.split(">")]
    if len(names) < 2 or not all(names):
        raise UserError(f"--chains: expected names of runs joined by >, found {chain!r}.")
    return names
