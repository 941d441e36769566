"""Credit assignment on the mini tasks: how often ranked candidates agree with the oracle.

    python scripts/measure_mini_credit.py \
        --runs "critic=runs/mini/seed0/ranked.jsonl,without c=runs/mini/seed0/ranked_no_prompt.jsonl" \
        --output_path credit.json --markdown_path credit.md

    python scripts/measure_mini_credit.py --studies 0=study.jsonl,200=study_200.jsonl --markdown_path study.md

Each file is an output of rank_best_of_n.py, or of study_credit.py, on candidates of mini tasks; files joined by + are
seeds of one critic. Answers run in the sandbox: an answer is complete if it is right. Intervals are over seeds and
tasks together.
"""

from sweet_rl.cli import run
from sweet_rl.domains.backend.environment import CodeGrading, make_grader
from sweet_rl.errors import UserError
from sweet_rl.mini.credit_accuracy import credit_accuracy, judged, judged_by_rows, last_answers
from sweet_rl.mini.credit_report import named_files, show_credit
from sweet_rl.progress import progress_bar
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.runs.manifest import read_manifest


def main(
    runs: str = "",
    studies: str = "",
    output_path: str | None = None,
    markdown_path: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Measure ranked candidates by the oracle, which knows the rules of the mini tasks.

    Args:
        runs: Files of each critic as name=file[+file...], separated by commas.
        studies: Files of lab.critics.study_credit as dialogues=file[+file...], separated by commas: for each number of
            dialogues that its critics were trained on, 0 without training. The rows of a trained critic are named
            `row@dialogues`.
        output_path: JSON file of the figures.
        markdown_path: Markdown file of the tables.
        seed: Random seed of the bootstrap.
        overwrite: Replace the outputs.
    """
    ranked, studied = named_files("runs", runs), named_files("studies", studies)
    if not all(name.isdigit() for name in studied):
        raise UserError(f"--studies is {studies!r}; the name of a file is a number of dialogues: 0=study.jsonl")
    if not ranked and not studied:
        raise UserError("missing: --runs name=file, or --studies dialogues=file.")
    right: dict[tuple[str, str], bool] = {}
    results = {name: measured(paths, right, seed) for name, paths in ranked.items()}
    for dialogues, paths in studied.items():
        results |= measured_study(dialogues, paths, right, seed)
    show_credit(results, output_path, markdown_path, overwrite, kinds=list(ranked))


def read_judged(paths: list[str], right: dict[tuple[str, str], bool]) -> list[list[TurnCandidates]]:
    """The records of each file. `right` gets the verdicts on their answers that it does not have yet."""
    files = [list(read_records(path, TurnCandidates)) for path in paths]
    answers = {(task.id, text): (task, text) for rows in files for row in rows for task, text in last_answers(row)}
    if jobs := {key: job for key, job in answers.items() if key not in right}:
        with make_grader(CodeGrading()) as grader:
            grades = grader.grade_many(progress_bar(jobs.values(), desc="answers"))
            rewards = {key: grade.reward for key, grade in zip(jobs, grades, strict=True)}
        if None in rewards.values():
            raise UserError("an answer could not be graded on this machine: see evaluate_code.py.")
        right |= {key: reward == 1.0 for key, reward in rewards.items()}
    return files


def measured(paths: list[str], right: dict[tuple[str, str], bool], seed: int) -> dict:
    """The figures of one critic's files, and which these are; `right` as in `read_judged`."""
    seeds = [[judged(row, right) for row in rows] for rows in read_judged(paths, right)]
    return {"files": paths, **credit_accuracy(seeds, seed)}


def measured_study(dialogues: str, paths: list[str], right: dict[tuple[str, str], bool], seed: int) -> dict[str, dict]:
    """The figures of each row of a study's files, with the row's flags, which the manifest names."""
    seeds = [[judged_by_rows(row, right) for row in rows] for rows in read_judged(paths, right)]
    rows = [frozenset(turn) for turns in seeds for turn in turns]
    if len(set(rows)) > 1:
        raise UserError(f"{' and '.join(paths)} have different rows: they are not seeds of one study.")
    manifest = read_manifest(paths[0])
    named = manifest["settings"]["rows"] if manifest else {}
    results = {}
    for row in seeds[0][0]:
        found = {"files": paths, **credit_accuracy([[turn[row] for turn in turns] for turns in seeds], seed)}
        if row in named:
            words = (f"--{key}" if value is True else f"--{key} {value}" for key, value in named[row].items())
            found["flags"] = " ".join(words)
        results[row if dialogues == "0" else f"{row}@{dialogues}"] = found
    return results


if __name__ == "__main__":
    run(main)
