"""Rewarded trajectories -> trajectory pairs (PAPER step 1): what the critic and multi-turn DPO are trained on."""

from collections.abc import Iterable, Iterator

from sweet_rl.chat import ChatFormat, parts_text, with_hint
from sweet_rl.records import Part, PreferencePair, Trajectory
from sweet_rl.rewards.evaluate import sibling_pairs
from sweet_rl.scoring.trajectory_parts import trajectory_parts


def trajectory_pairs(
    trajectories: Iterable[Trajectory],
    hint: bool,
    chat: ChatFormat | None = None,
    response_template: str | None = None,
    eos_text: str | None = None,
    bos_text: str | None = None,
    min_gap: float | None = None,
) -> Iterator[PreferencePair]:
    """Every pair of siblings of which the chosen has reward 1 and the rejected less; with `min_gap` (Frontend Design),
    every pair whose rewards are at least so far apart.

    hint: whether the reference solution is put after the BOS, for the critic (`In light that the final answer
    is: ...`). Failed dialogues, ungradable tasks and dialogues without an agent's turn are left out; so are pairs of
    identical texts. Each pair carries task_id, chosen_id, rejected_id, chosen_reward
    and rejected_reward.
    chat: renders trajectories that carry no parts; response_template, eos_text and bos_text: read the texts of
    released files instead. Raises UserError, naming the trajectory, where its text cannot be had.
    """
    by_task: dict[str, list[tuple[Trajectory, Trajectory]]] = {}
    for chosen, rejected in sibling_pairs(trajectories, min_gap):
        by_task.setdefault(chosen.task.id, []).append((chosen, rejected))
    for pairs in by_task.values():
        named = {trajectory.id: trajectory for pair in pairs for trajectory in pair}
        parts = {key: trajectory_parts(t, chat, response_template, eos_text, bos_text) for key, t in named.items()}
        for chosen, rejected in pairs:
            if parts_text(parts[chosen.id]) != parts_text(parts[rejected.id]):
                yield _pair(chosen, rejected, parts, hint)


def _pair(chosen: Trajectory, rejected: Trajectory, parts: dict[str, list[Part]], hint: bool) -> PreferencePair:
    texts = [parts[chosen.id], parts[rejected.id]]
    if hint:
        texts = [with_hint(text, chosen.task.ground_truth) for text in texts]
    return PreferencePair(
        chosen=texts[0],
        rejected=texts[1],
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
