"""Rewarded trajectories -> trajectory pairs (PAPER step 1): what the critic and multi-turn DPO are trained on."""

from collections.abc import Iterable, Iterator

from sweet_rl.chat import ChatFormat, parts_from_text, parts_text, with_hint
from sweet_rl.errors import UserError
from sweet_rl.grading.report import is_graded
from sweet_rl.records import Part, PreferencePair, Trajectory


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


def sibling_pairs(
    trajectories: Iterable[Trajectory], min_gap: float | None = None
) -> Iterator[tuple[Trajectory, Trajectory]]:
    """(chosen, rejected) of one task: reward 1 over less, or with `min_gap` rewards at least so far apart. Failed
    dialogues, ungradable tasks and dialogues without an agent's turn are left out."""
    siblings: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if is_graded(trajectory) and any(m["role"] == "assistant" for m in trajectory.dialogue_history):
            siblings.setdefault(trajectory.task.id, []).append(trajectory)
    for group in siblings.values():
        yield from ((a, b) for a in group for b in group if _preferred(a.reward, b.reward, min_gap))


def _preferred(reward: float, other: float, min_gap: float | None) -> bool:
    if min_gap is None:
        return reward == 1.0 > other
    return reward > other and reward - other >= min_gap - 1e-9  # 0.9 - 0.8 is a little less than 0.1


def trajectory_parts(
    trajectory: Trajectory,
    chat: ChatFormat | None = None,
    response_template: str | None = None,
    eos_text: str | None = None,
    bos_text: str | None = None,
) -> list[Part]:
    """A dialogue up to the agent's last turn as parts: its own, or read from released text, or rendered by `chat`."""
    if trajectory.parts:
        return trajectory.parts
    history = trajectory.dialogue_history
    last = max(i for i, message in enumerate(history) if message["role"] == "assistant")
    row = history[last]
    if response_template is not None and isinstance(row.get("input"), str) and row.get("output") is not None:
        eos = eos_text or (chat.eos_text if chat else None)
        if not eos:
            raise UserError(
                "With --response_template the text that ends a turn must be known: give --eos_text, "
                "or --tokenizer with a model that has it."
            )
        bos = bos_text if bos_text is not None else (chat.bos_text if chat else None)
        return parts_from_text(row["input"] + row["output"], response_template, eos, bos or "")
    if chat is not None:
        return chat.dialogue(history[: last + 1], trajectory.tokenizer)
    raise UserError(
        f"The trajectory {trajectory.id} carries no parts, so what the agent's own text is must be told: give "
        "--tokenizer (the agent's model), or for released files --response_template and --eos_text."
    )


def _pair(chosen: Trajectory, rejected: Trajectory, parts: dict[str, list[Part]], hint: bool) -> PreferencePair:
    texts = [parts[chosen.id], parts[rejected.id]]
    if hint:
        texts = [with_hint(text, chosen.task.ground_truth) for text in texts]
    return PreferencePair(
        chosen=texts[0],
        rejected=texts[1],
        id=f"{chosen.id}>{rejected.id}",
        tokenizer=chosen.tokenizer if chosen.tokenizer == rejected.tokenizer else None,
        extra={
            "task_id": chosen.task.id,
            "chosen_id": chosen.id,
            "rejected_id": rejected.id,
            "chosen_reward": chosen.reward,
            "rejected_reward": rejected.reward,
        },
    )
