"""Compare graded runs on the same tasks: one table as text, Markdown and JSON.

    python scripts/compare_runs.py --runs "zero-shot=a.jsonl,SWEET-RL=b1.jsonl+b2.jsonl" --baselines zero-shot \
        --output_path results.json --markdown_path results.md

The files are outputs of evaluate_code.py; files joined by + are seeds of one method.
"""

import json

from sweet_rl.cli import run
from sweet_rl.errors import UserError
from sweet_rl.grading.report import compare
from sweet_rl.records import Trajectory, read_records
from sweet_rl.runs import write_texts


def main(
    runs: dict | str,
    baselines: list[str] = (),
    output_path: str | None = None,
    markdown_path: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Print tests passed, success, its 95 % interval, turns and the paired difference of success to the baselines.

    Args:
        runs: name=file[+file...] for each run, separated by commas; in a config file also {name: file or files}.
        baselines: names of runs that every run is compared with, task by task.
        output_path: write the figures here as JSON.
        markdown_path: write the table here as Markdown.
        seed: of the bootstrap.
        overwrite: replace outputs that exist with other content.
    """
    paths = parse_runs(runs)
    graded = {name: [read_records(path, Trajectory) for path in files] for name, files in paths.items()}
    comparison = compare(graded, list(baselines), seed)
    if output_path is not None and output_path == markdown_path:
        raise UserError(f"--output_path and --markdown_path are both {output_path}: choose two files.")
    outputs = {
        output_path: json.dumps({**comparison.to_dict(), "files": paths, "seed": seed}, indent=2) + "\n",
        markdown_path: comparison.markdown(),
    }
    write_texts({path: text for path, text in outputs.items() if path is not None}, overwrite)
    print(comparison.text())


def parse_runs(runs: dict | str) -> dict[str, list[str]]:
    """Files by run name. Raises UserError for a name without files and one given twice."""
    if isinstance(runs, str):
        pairs = [item.partition("=") for item in runs.split(",") if item.strip()]
        entries = [(name.strip(), files.split("+")) for name, _, files in pairs]
    else:
        entries = [(str(name), [files] if isinstance(files, str) else list(files)) for name, files in runs.items()]
    parsed: dict[str, list[str]] = {}
    for name, files in entries:
        files = [file.strip() for file in files if file.strip()]
        if not name or not files or name in parsed:
            raise UserError(f"--runs: expected name=file[+file...] with each name once, found {name!r}: {files}.")
        parsed[name] = files
    if not parsed:
        raise UserError("--runs is empty; expected name=file[+file...], separated by commas.")
    return parsed


if __name__ == "__main__":
    run(main)
