"""The same test tasks side by side by several agents, with the critic's credit of each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.runs.errors import UserError, extras_named
from sweet_rl.runs.records import Trajectory, read_records
from sweet_rl.viewer.report_folder import METHODS, RunFolder
from sweet_rl.viewer.views import trajectory_view

SHOWN = tuple(METHODS.values())
TASKS, TASKS_OF_A_GROUP = 8, 2
LARGEST_CRITIC = 1e9  # bytes of weights that are loaded without being asked for
NOT_SHOWN = ("fields", "prompt")


def side_by_side(folder: RunFolder, table: Mapping, critic: str | None = "auto") -> dict | None:
    """The dialogues of a few test tasks as the page draws them; None if no run's dialogues are in the folder.

    Args:
        folder: The run folder.
        table: Comparison whose runs are shown; of several seeds the first one's dialogues.
        critic: Folder of the critic whose credit is shown; "auto" for that of the run folder if it is small, None for
            no credit.

    Returns:
        {names, groups: [{label, tasks, shown}], tasks: [a view per run], how, credit}. `tasks` of a group counts its
        tasks, `shown` are places in the list of tasks; `how` says how they were chosen, `credit` whose credit it is.
    """
    files = {name: paths[0] for name, paths in table["files"].items() if paths}
    names = [name for name in SHOWN if name in files] or list(files)[: len(SHOWN)]
    if not names:
        return None
    runs = [by_task(read_records(files[name], Trajectory)) for name in names]
    groups = grouped(names, runs, table["measure"])
    chosen = choose(groups)
    dialogues = [run[task] for tasks in chosen.values() for task in tasks for run in runs]
    credit, words = credit_of(dialogues, folder, critic)
    views = [without_prompts(trajectory_view(*pair)) for pair in zip(dialogues, credit, strict=True)]
    by_number = [views[start : start + len(runs)] for start in range(0, len(views), len(runs))]
    numbers = iter(range(len(by_number)))
    shown = [
        {"label": label, "tasks": len(tasks), "shown": [next(numbers) for _ in chosen[label]]}
        for label, tasks in groups.items()
    ]
    how = f"{sum(map(len, groups.values()))} test tasks that every agent here played, grouped by how they ended. "
    how += "Shown are the first ones of each group in the order of the test file"
    smaller = sum(not chosen[label] for label in groups)
    how += f"; {smaller} smaller groups are not shown." if smaller else "."
    return {"names": names, "groups": shown, "tasks": by_number, "how": how, "credit": words}


def by_task(trajectories: Sequence[Trajectory]) -> dict[str, Trajectory]:
    """The first graded dialogue of each task, in the order of the file."""
    found: dict[str, Trajectory] = {}
    for trajectory in trajectories:
        if trajectory.is_graded:
            found.setdefault(trajectory.task.id, trajectory)
    return found


def grouped(names: Sequence[str], runs: Sequence[Mapping[str, Trajectory]], measure: str) -> dict[str, list[str]]:
    """The tasks of all runs by who solved them (of other measures than success: by whose reward is the highest).

    First the groups in which the agents differ: those of the last one alone, then with others, then without it.
    """
    winners: dict[tuple[str, ...], list[str]] = {}
    for task in runs[-1]:
        if all(task in run for run in runs):
            rewards = [run[task].reward for run in runs]
            best = 1.0 if measure == "success" else max(reward or 0.0 for reward in rewards)
            won = tuple(name for name, reward in zip(names, rewards, strict=True) if reward == best)
            winners.setdefault(won, []).append(task)
    alike = (0, len(names))
    order = sorted(winners, key=lambda won: (len(won) in alike, names[-1] not in won, len(won)))
    verb = "Solved by" if measure == "success" else "Best:"
    return {f"{verb} {_list(won, names)}": winners[won] for won in order}


def choose(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The first task of each group, of the largest one first, then the second one, until there are enough."""
    chosen: dict[str, list[str]] = {label: [] for label in groups}
    for number in range(TASKS_OF_A_GROUP):
        for label, tasks in sorted(groups.items(), key=lambda group: -len(group[1])):
            if number < len(tasks) and sum(map(len, chosen.values())) < TASKS:
                chosen[label].append(tasks[number])
    return chosen


def credit_of(dialogues: Sequence[Trajectory], folder: RunFolder, critic: str | None) -> tuple[list[dict], str]:
    """The credit of each dialogue by turn, and whose it is or why there is none."""
    nothing: list[dict] = [{} for _ in dialogues]
    trained = folder.own.get("critic")
    if critic == "auto" and (trained is None or not trained.finished):
        return nothing, "No credit: there is no trained critic in the folder."
    if critic is None or not dialogues:
        return nothing, "No credit was asked for."
    path = str(trained.path) if trained is not None and critic == "auto" else critic
    size = sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))
    if critic == "auto" and size > LARGEST_CRITIC:
        return nothing, f"No credit: the critic has {size / 1e9:.0f} GB of weights. --critic {path} scores with it."
    ranked = folder.own.get("ranked.jsonl")
    settings = settings_of_credit(path, ranked.manifest["settings"] if ranked else {})
    try:
        with extras_named():
            rows = asyncio.run(_scored(settings, dialogues))
    except UserError as error:
        return nothing, f"No credit: {error}"
    credit = [{row["turn"]: {key: row[key] for key in row if key != "turn"} for row in own} for own in rows]
    return credit, f"Credit by the model {Path(path).name}: {words_of(settings)}."


def settings_of_credit(critic: str, ranking: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a critic for the turns of any agent, from those that candidates were ranked with.

    The reference `sampled` is the untrained agent, which does not see the reference solution. Another agent's turns
    have log-probs of their own from sampling, so the untrained agent's are computed (`seed_without_c`).
    """
    kept = ("critic_type", "normalize", "no_prompt", "reference", "reference_model_id")
    settings = {key: ranking[key] for key in kept if ranking.get(key) is not None}
    if settings.get("reference") == "sampled":
        settings["reference"] = "seed" if settings.get("no_prompt") else "seed_without_c"
    return settings | {"model_id": critic}


def words_of(settings: Mapping[str, Any]) -> str:
    """What the figure of a turn is."""
    if settings.get("critic_type", "log_ratio") != "log_ratio":
        return f"the score of a turn (critic type {settings['critic_type']})"
    without = settings.get("reference") == "seed_without_c"
    agent = "the untrained agent, which does not see the reference solution" if without else "the untrained agent"
    return f"the advantage of a turn (equation 3), its tokens' mean log-ratio of critic over {agent}"


async def _scored(settings: Mapping[str, Any], dialogues: Sequence[Trajectory]) -> list[list[dict]]:
    from sweet_rl.method.critics import ChosenCritic
    from sweet_rl.method.turn_credit import TurnScorer

    given = {key: value for key, value in settings.items() if key != "critic_type"}
    scorer = TurnScorer(ChosenCritic(settings.get("critic_type", "log_ratio"), given))
    try:
        return await scorer.rows(dialogues)
    finally:
        await scorer.critic.close()


def without_prompts(view: dict) -> dict:
    """A view without what the page does not show."""
    messages = [{key: row[key] for key in row if key != "prompt"} for row in view["messages"]]
    return {"kind": "dialogue"} | {key: view[key] for key in view if key not in NOT_SHOWN} | {"messages": messages}


def _list(won: Sequence[str], names: Sequence[str]) -> str:
    if len(won) in (0, len(names)):
        return "all" if won else "none"
    if len(won) == 1:
        return f"{won[0]} only"
    if len(won) == len(names) - 1 > 2:
        return f"all but {next(name for name in names if name not in won)}"
    return f"{', '.join(won[:-1])} and {won[-1]}"
