"""Trajectory pairs from graded trajectories (step 2): the critic and multi-turn DPO are trained on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sweet_rl.dialogues.sibling_pairs import sibling_pairs
from sweet_rl.method.privileged_information import with_hint
from sweet_rl.models.texts.chat import parts_text
from sweet_rl.models.texts.released_texts import TextMarkup, text_markup, trajectory_parts
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.records import Part, PreferencePair, Trajectory
from sweet_rl.runs.run import open_run


def trajectory_pairs(
    trajectories: Iterable[Trajectory], hint: bool, texts: TextMarkup, min_gap: float | None = None
) -> Iterator[PreferencePair]:
    """Every pair of trajectories of one task of which the chosen has reward 1 and the rejected less.

    Failed dialogues, ungradable tasks, dialogues without a turn of the agent, and pairs of identical texts are left
    out. Each pair has the fields task_id, chosen_id, rejected_id, chosen_reward and rejected_reward.

    Args:
        trajectories: Graded trajectories, of one task or of several.
        hint: Whether the texts begin with the reference solution, for the critic.
        texts: Markup of trajectories without parts.
        min_gap: Smallest difference of rewards that makes a pair (Frontend Design). None: as above.

    Raises:
        UserError: The text of a trajectory, which the message names, is not known.
    """
    parts: dict[str, list[Part]] = {}
    for chosen, rejected in sibling_pairs(trajectories, min_gap):
        for trajectory in (chosen, rejected):
            if trajectory.id not in parts:
                parts[trajectory.id] = trajectory_parts(trajectory, texts)
        both = [parts[chosen.id], parts[rejected.id]]
        if parts_text(both[0]) == parts_text(both[1]):
            continue
        if hint:
            both = [with_hint(text, chosen.task.ground_truth) for text in both]
        yield PreferencePair(
            chosen=both[0],
            rejected=both[1],
            id=f"{chosen.id}>{rejected.id}",
            tokenizer=chosen.tokenizer if chosen.tokenizer == rejected.tokenizer else None,
            task_id=chosen.task.id,
            extra={
                "chosen_id": chosen.id,
                "rejected_id": rejected.id,
                "chosen_reward": chosen.reward,
                "rejected_reward": rejected.reward,
            },
        )


def write_pairs(
    path: str,
    graded_path: str,
    trajectories: Sequence[Trajectory],
    hint: bool,
    texts: TextMarkup,
    min_gap: float | None = None,
    overwrite: bool = False,
) -> None:
    """Write the trajectory pairs of a graded file to `path`. A killed run continues with the same call.

    `trajectories` are those of the file; other arguments as in `trajectory_pairs`.
    """

    def show(summary: dict) -> None:
        kind = "with the reference solution" if hint else "without the reference solution"
        print(f"{path}: {summary['pairs']} trajectory pairs {kind}")
        if not summary["pairs"]:
            print(PreferencePair.why_none)

    settings = to_settings(texts, hint=hint, min_gap=min_gap) | {"chat": texts.chat and texts.chat.fingerprint}
    with open_run(path, settings, [graded_path], overwrite) as run:
        if run.finished:
            run.show(show)
            return
        run.write_missing(pair.to_dict() for pair in trajectory_pairs(trajectories, hint, texts, min_gap))
        run.finish({"pairs": len(run.done)}, show, may_be_empty=True)


def check_texts(trajectories: Iterable[Trajectory], texts: TextMarkup) -> None:
    """Check the first dialogue's text before grading starts, and print its markup. UserError if it is unknown."""
    for trajectory in trajectories:
        if trajectory.turns:
            trajectory_parts(trajectory, texts)
            markup = text_markup(trajectory, texts)
            if markup is not None:
                print(f"the agent's turns are what stands between {markup.header!r} and {markup.eos!r}")
            return
