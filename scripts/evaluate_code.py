"""Step 2 for Backend Programming: grade answers with hidden unit tests, and write trajectory pairs.

    python scripts/evaluate_code.py --input_path trajectories.jsonl --output_path graded.jsonl \
        --preference_path pairs.jsonl --ground_truth_preference_path hinted_pairs.jsonl

    python scripts/evaluate_code.py --input_path tasks.jsonl --output_path references.jsonl --grade_references

The input is not changed (but with --in_place) and every answer is graded anew, whatever reward the file holds; the
same command continues a run that was stopped.
"""

import os
from pathlib import Path

from tqdm import tqdm

from sweet_rl.analysis.report import summarise, summary_text
from sweet_rl.analysis.statistics import check_k
from sweet_rl.cli import one_of, run
from sweet_rl.credit.trajectory_pairs import check_apart, check_texts, write_pairs
from sweet_rl.errors import UserError
from sweet_rl.records import Task, Trajectory, read_records
from sweet_rl.rewards.code import CodeGrader
from sweet_rl.rewards.evaluate import first_tasks, grade_trajectories, reference_answers
from sweet_rl.rewards.paper import PaperGrader
from sweet_rl.runs.run import check_output, open_run


def main(
    output_path: str | None = None,
    input_path: str | None = None,
    data_path: str | None = None,
    k: int = 1,
    preference_path: str | None = None,
    ground_truth_preference_path: str | None = None,
    num_tasks: int | None = None,
    tokenizer: str | None = None,
    agent_model: str | None = None,
    response_template: str | None = None,
    eos_text: str | None = None,
    bos_text: str | None = None,
    grade_references: bool = False,
    timeout: float = 1.0,
    memory_mb: int = 256,
    workers: int | None = None,
    sandbox: str = "auto",
    paper_grader: bool = False,
    in_place: bool = False,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Grade trajectories (or, with --grade_references, the reference solutions of a tasks file).

    Args:
        output_path: graded trajectories, one a line: reward (share of tests passed) and per-test evidence. Required,
            unless --in_place is given.
        input_path: trajectories of simulate_interactions.py, or the released offline file.
        data_path: another name for input_path.
        k: also print best of k; it must divide the number of dialogues of every task.
        preference_path: write trajectory pairs here, without the reference solution (multi-turn DPO).
        ground_truth_preference_path: write them with the reference solution after the BOS (the critic).
        num_tasks: grade only the first so many tasks.
        tokenizer: the agent's model or tokenizer; needed for pairs of trajectories that carry no parts.
        agent_model: another name for tokenizer.
        response_template: what stands before each turn of the agent in released texts.
        eos_text: what ends a turn in released texts (default: the tokenizer's).
        bos_text: what begins a dialogue in released texts (default: the tokenizer's).
        grade_references: the input is a tasks file; its reference solutions are graded as answers.
        timeout: CPU seconds a test may use; three times as long by the clock.
        memory_mb: memory an answer may use.
        workers: answers graded at once; default two a core.
        sandbox: auto, strict, seccomp or limits (see sweet_rl/sandbox/sandbox.py).
        paper_grader: score by the release's rules (sweet_rl/rewards/paper.py), for comparison with its figures only.
        in_place: grade into INPUT.grading, and replace the input by it once all of it is graded.
        seed: of the bootstrap.
        overwrite: replace the outputs.
    """
    source = one_of(input_path=input_path, data_path=data_path)
    if source is None:
        raise UserError("missing: --input_path (the trajectories to grade). See --help.")
    output_path, final_path = _outputs(source, output_path, in_place, num_tasks, grade_references)
    check_apart(source, output_path, preference_path, ground_truth_preference_path)
    for path in (preference_path, ground_truth_preference_path):
        if path is not None:
            check_output(path, overwrite)
    if grade_references:
        trajectories = reference_answers(read_records(source, Task))
    else:
        trajectories = read_records(source, Trajectory)
    trajectories = first_tasks(trajectories, num_tasks)
    if not any(trajectory.task.test_cases for trajectory in trajectories):
        raise UserError(f"{source}: no task has test_cases. Frontend trajectories are graded by evaluate_html.py.")
    samples: dict[str, int] = {}
    for trajectory in trajectories:
        samples[trajectory.task.id] = samples.get(trajectory.task.id, 0) + 1
    check_k(samples, k)
    chat = _chat(one_of(tokenizer=tokenizer, agent_model=agent_model))
    texts = {"chat": chat, "response_template": response_template, "eos_text": eos_text, "bos_text": bos_text}
    if preference_path is not None or ground_truth_preference_path is not None:
        check_texts(trajectories, texts)

    settings = {
        "num_tasks": num_tasks,
        "timeout": timeout,
        "memory_mb": memory_mb,
        "sandbox": sandbox,
        "grade_references": grade_references,
    }
    if paper_grader:
        settings["paper_grader"] = True
    with open_run(output_path, settings, [source], overwrite) as output:
        if output.complete:
            print(f"{output_path}: already complete")
        else:
            left = [trajectory for trajectory in trajectories if trajectory.id not in output.done]
            with (PaperGrader if paper_grader else CodeGrader)(timeout, memory_mb, workers, sandbox) as grader:
                print(grader.describe())
                bar = tqdm(total=len(trajectories), initial=len(trajectories) - len(left), unit=" answers")
                for graded in grade_trajectories(left, grader):
                    output.write(graded.to_dict())
                    bar.update()
                bar.close()
        graded = [Trajectory.from_dict(row, output_path) for row in output.records()]
        summary = summarise(graded, k, seed)
        if paper_grader:
            summary["rules"] = "those of the release, for comparison only"
        if not output.complete:
            output.finish(summary)
    if in_place:
        os.replace(output_path, final_path)
        Path(f"{output_path}.manifest.json").unlink()
    print(summary_text(summary))
    for path, hint in ((preference_path, False), (ground_truth_preference_path, True)):
        if path is not None:
            write_pairs(path, final_path, graded, hint, texts, overwrite)


def _outputs(source: str, output_path: str | None, in_place: bool, num_tasks, grade_references) -> tuple[str, str]:
    """(where to write, where the result is in the end)."""
    if not in_place:
        if output_path is None:
            raise UserError("missing: --output_path (or --in_place, which replaces the input). See --help.")
        return output_path, output_path
    for flag, given in (("output_path", output_path), ("num_tasks", num_tasks), ("grade_references", grade_references)):
        if given:
            raise UserError(f"--in_place replaces the input by the same dialogues graded: leave out --{flag}.")
    return f"{source}.grading", source


def _chat(model: str | None):
    if model is None:
        return None
    from sweet_rl.chat import ChatFormat

    return ChatFormat.from_pretrained(model)


if __name__ == "__main__":
    run(main)
