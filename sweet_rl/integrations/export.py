"""Preference pairs and dialogues as rows for TRL and other trainers (docs/files.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Message, Part, PreferencePair, Trajectory, kind_of, read_records
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings

NOT_PLAYED = "dialogues that failed, or in which the agent says nothing, left out"
MASK_LOST = "pairs of several turns: TRL trains on the human's replies in them too (it has no mask for them)"
OTHER_TOKENS = "pairs that TRL tokenises differently, mostly at the end of a turn or around its white space"
SIDES = ("chosen", "rejected")
Row = dict[str, Any]


def export_file(input_path: str, output_path: str, step: StepSettings, tokenizer: str | None = None) -> Counter[str]:
    """Write the pairs or trajectories of a file as rows for TRL.

    Args:
        input_path: Preference pairs, or trajectories.
        output_path: The rows, JSONL.
        step: Number of records that are read, and whether an older output is replaced.
        tokenizer: Model whose tokens in TRL are compared with those of the pairs; None compares nothing.

    Returns:
        The number of rows, and of what was lost.

    Raises:
        UserError: Other records, or texts that no row can hold.
    """
    kind, counts, rows = kind_of(input_path), Counter[str](), []
    if kind is PreferencePair:
        chat = ChatFormat.from_pretrained(tokenizer) if tokenizer else None
        for pair in read_records(input_path, PreferencePair, step.limit):
            rows.append(pair_row(pair, counts, chat))
    elif kind is Trajectory:
        for trajectory in read_records(input_path, Trajectory, step.limit):
            if trajectory.ending == "failed" or not trajectory.turns:
                counts[NOT_PLAYED] += 1
            else:
                rows.append(dialogue_row(trajectory))
    else:
        raise UserError(
            f"{input_path} holds {kind.__name__} records; pairs and trajectories are exported. Play tasks with "
            "simulate_interactions.py; draw pairs of candidates with generate_random_pairs_from_ranks.py."
        )

    def show(summary: dict) -> None:
        print(f"{output_path}: {summary['rows']} rows")
        for what, count in summary.items():
            if what != "rows":
                print(f"{count} {what}")

    inputs = [input_path, tokenizer and model_input(tokenizer)]
    with open_run(output_path, to_settings(step, tokenizer=tokenizer), inputs, step.overwrite) as run:
        if run.finished:
            return Counter(run.show(show))
        run.write_missing(rows)
        return Counter(run.finish({"rows": len(run.done), **counts}, show))


def pair_row(pair: PreferencePair, counts: Counter[str], chat: ChatFormat | None = None) -> Row:
    """Return the texts of a pair as {prompt, chosen, rejected}.

    The prompt ends before the first turn of the agent in which the two differ.

    Args:
        pair: Pair whose texts are parts.
        counts: MASK_LOST and OTHER_TOKENS are added to it.
        chat: Chat format of the model that is trained. The prompt then has no BOS that its tokenizer adds itself.

    Raises:
        UserError: The texts are plain strings.
    """
    chosen, rejected = pair.chosen, pair.rejected
    if isinstance(chosen, str) or isinstance(rejected, str):
        raise UserError(
            f"pair {pair.id!r}: its texts are plain strings, as in the release's files. TRL reads 'chosen' and "
            "'rejected' of such a file as they are, without an export."
        )
    start = 0
    while start < min(len(chosen), len(rejected)) - 1 and chosen[start]["text"] == rejected[start]["text"]:
        start += 1
    while start and not (_is_turn(chosen[start]) and _is_turn(rejected[start])):
        start -= 1
    if any(sum(map(_is_turn, text[start:])) > 1 for text in (chosen, rejected)):
        counts[MASK_LOST] += 1
    row: Row = {
        "id": pair.id,
        "prompt": parts_text(chosen[:start]),
        "chosen": parts_text(chosen[start:]),
        "rejected": parts_text(rejected[start:]),
        "task_id": pair.task_id,
        "chosen_reward": pair.extra.get("chosen_reward"),
        "rejected_reward": pair.extra.get("rejected_reward"),
    }
    if chat is not None:
        if chat.bos_text and chat.tokenizer("")["input_ids"] == [chat.tokenizer.bos_token_id]:
            row["prompt"] = row["prompt"].removeprefix(chat.bos_text)
        if any(_ids_in_trl(row, side, chat) != chat.encode(getattr(pair, side), pair.tokenizer)[0] for side in SIDES):
            counts[OTHER_TOKENS] += 1
    return row


def _ids_in_trl(row: Row, side: str, chat: ChatFormat) -> list[int]:
    """The ids that TRL makes of a row. It ends a text that has none with an EOS."""
    text, eos = row["prompt"] + row[side], chat.tokenizer.eos_token
    return chat.tokenizer(text if text.endswith(eos) else text + eos)["input_ids"]


def _is_turn(part: Part) -> bool:
    return part["train"] or bool(part.get("turn"))


def dialogue_row(trajectory: Trajectory) -> Row:
    """Return the messages of a dialogue up to the agent's last turn, each turn as sampled, with reward and turn credit.

    Raises:
        UserError: A dialogue of the release, whose messages lack its instructions; or a credit of another number of
            turns.
    """
    history, credit = trajectory.dialogue_history, trajectory.turn_credit
    last = max(place for place, message in enumerate(history) if message["role"] == "assistant")
    if trajectory.parts is None and history[last].get("input") and not history[last].get("finish_reason"):
        raise UserError(
            f"trajectory {trajectory.id!r}: only the texts of this dialogue, not its messages, have the instructions "
            "of the agent, as in the release's files. train_sft.py trains on it."
        )
    if credit is not None and len(credit) != trajectory.turns:
        raise UserError(
            f"trajectory {trajectory.id!r}: turn_credit has {len(credit)} numbers for {trajectory.turns} turns of the "
            "agent. Run score_turns.py again."
        )
    return {
        "id": trajectory.id,
        "messages": [_plain(message) for message in trajectory.seen(last + 1)],
        "task_id": trajectory.task.id,
        "reward": trajectory.reward,
        "turn_credit": credit,
    }


def _plain(message: Message) -> Message:
    sampled = message.get("output") if message["role"] == "assistant" else None
    return {"role": message["role"], "content": message["content"] if sampled is None else sampled}
