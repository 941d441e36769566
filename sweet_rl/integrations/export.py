"""Tasks, dialogues, candidates and pairs as rows for the trainers of others: TRL, ShareGPT, parquet and verl."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from sweet_rl.integrations.benchmark import Benchmark
from sweet_rl.method.privileged_information import BEFORE
from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.texts.markup import family_of, messages_in
from sweet_rl.models.texts.parts import TextMarkup, text_markup
from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import NothingMade, UserError, extras_named
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.records import Message, Part, PreferencePair, Task, Trajectory, TurnCandidates, kind_of, scan_records
from sweet_rl.runs.records.schema import Role
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, run_step
from sweet_rl.runs.texts import check_writable, open_anew

To = Literal["trl", "sft", "sharegpt", "parquet", "verl"]
Row = dict[str, Any]
Messages = list[Message]
SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt"}
"""Names of the roles in ShareGPT."""
HELD = "\ue0f0"  # one for each character in which no markup is looked for
SIDES = ("chosen", "rejected")
NOT_PLAYED = "dialogues that failed, or in which the agent says nothing, left out"
MASK_LOST = "pairs of several turns: TRL trains on the human's replies in them too (it has no mask for them)"
EXACT = "pairs that the chat template writes exactly as they were sampled"
LINE_BREAK = "pairs that it writes so, with a line break after the last turn, on which TRL trains too"
OTHERWISE = "pairs that it writes otherwise (a reply without its end, without its reasoning, or trimmed)"


def export_file(
    to: To,
    input_path: str,
    output_path: str,
    step: StepSettings,
    tokenizer: str | None = None,
    task_type: str | None = None,
) -> Counter[str]:
    """Write the records of a file as rows of another tool.

    Args:
        to: The tool: trl, sft, sharegpt (JSONL), parquet or verl (parquet).
        input_path: Tasks, trajectories, candidates or pairs.
        output_path: The rows.
        step: Number of records that are read, and whether an older output is replaced.
        tokenizer: Model whose chat template is compared with the texts of pairs; None compares nothing.
        task_type: Domain whose opening messages are the prompts of tasks; None takes their bare descriptions.

    Returns:
        The summary: rows, and what was lost.

    Raises:
        UserError: The tool has no rows for such records, or the messages of a text are not known.
    """
    kind, counts = kind_of(input_path), Counter[str]()
    domain = None if task_type is None else Benchmark(task_type, scripted_human=None)
    rows_of = _rows_of(kind, to, input_path, counts, tokenizer, domain)
    records = enumerate(record for _, record in scan_records(input_path, cast(Any, kind), step.limit))
    rows = [row for number, record in records for row in rows_of(record, number)]  # all, before anything is written
    if to in ("parquet", "verl"):
        check_paths([output_path], [input_path])
        counts["rows"] = write_parquet(rows, output_path, step.overwrite)
        _show(output_path, counts)
        return counts

    def write(run: Run) -> dict:
        run.write_missing(rows)
        return {"rows": len(run.done), **counts}

    settings = to_settings(step, to=to, tokenizer=tokenizer, task_type=task_type)
    source = None if domain is None else domain.domain.source
    inputs = [input_path, source, tokenizer and model_input(tokenizer)]
    output = open_run(output_path, settings, inputs, step.overwrite)
    return Counter(run_step(output, write, lambda summary: _show(output_path, summary)))


def write_parquet(rows: Sequence[Row], output_path: str, overwrite: bool) -> int:
    """Write rows with equal keys as a parquet file, and return their number; a column of None alone is left out.

    Raises:
        UserError: The file exists (without `overwrite`), or cannot be written.
        NothingMade: There are no rows.
    """
    with extras_named():
        import pyarrow
        from pyarrow import parquet
    path = Path(output_path)
    check_writable(path)
    if path.exists() and not overwrite:
        raise UserError(f"{path} exists. Choose another path, or give --overwrite.")
    if not rows:
        raise NothingMade(f"{path}: not a single row came out: no dialogue was played to its end.")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        known = {name: values for name, values in columns.items() if any(value is not None for value in values)}
        with open_anew(partial) as file:
            parquet.write_table(pyarrow.table(known), file)
        os.replace(partial, path)
    except UnicodeEncodeError as error:
        raise UserError(
            f"{path}: a text has {error.object[error.start]!r}, half of a surrogate pair, which is no character and "
            "has no place in parquet. Replace it in the input, or export to another format."
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return len(rows)


def _show(path: str, summary: dict[str, Any]) -> None:
    print(f"{path}: {summary['rows']} rows")
    for what, count in summary.items():
        if what != "rows":
            print(f"{count} {what}")


def _rows_of(
    kind: type, to: To, path: str, counts: Counter[str], tokenizer: str | None, domain: Benchmark | None
) -> Callable[[Any, int], Iterator[Row]]:
    """The function from a record and its number to its rows. Raises UserError if this kind of record has none."""
    if kind is Trajectory:
        return lambda trajectory, number: _trajectory_rows(trajectory, to, number, counts)
    if kind is PreferencePair and to != "verl":
        chat = ChatFormat.from_pretrained(tokenizer) if tokenizer else None
        return lambda pair, _: _pair_rows(pair, to, counts, chat)
    if kind is TurnCandidates and to in ("trl", "parquet"):
        return lambda record, _: _candidate_rows(record, to)
    if kind is Task and to in ("trl", "parquet", "verl"):
        opening = _description if domain is None else domain.opening
        return lambda task, number: _task_rows(task, to, number, opening(task))
    remedy = {
        Task: "Play dialogues about them with simulate_interactions.py, and export those.",
        TurnCandidates: "Draw pairs of them with generate_random_pairs_from_ranks.py, and export those.",
        PreferencePair: "Export the tasks or the trajectories.",
    }[kind]
    raise UserError(f"{path} holds {kind.__name__} records, of which --to {to} makes no rows. {remedy}")


def _description(task: Task) -> Messages:
    return [{"role": "user", "content": task.problem_description}]


def _task_rows(task: Task, to: To, number: int, opening: Messages) -> Iterator[Row]:
    prompt = list(map(_plain, opening))
    if to == "verl":
        yield _verl_row(task, task.id, number, prompt)
    else:
        yield {"id": task.id, "prompt": prompt, **_content(task)}


def _content(task: Task) -> Row:
    tests = json.dumps(task.test_cases) if task.test_cases else None
    return {
        "problem_description": task.problem_description,
        "ground_truth": task.ground_truth,
        "test_cases": tests,
    }


def _verl_row(task: Task, record_id: str, number: int, prompt: Messages) -> Row:
    """A row as verl's RLHFDataset reads it."""
    return {
        "data_source": "sweet_rl",
        "prompt": prompt,
        "ability": "collaboration",
        "reward_model": {"style": "rule", "ground_truth": task.ground_truth},
        "agent_name": "sweet_rl_colbench",
        "extra_info": {
            "index": number,
            "id": record_id,
            "task_id": task.id,
            "task": json.dumps(task.to_dict()),  # whole, for the agent loop
            **_content(task),
        },
    }


def _trajectory_rows(trajectory: Trajectory, to: To, number: int, counts: Counter[str]) -> Iterator[Row]:
    if trajectory.ending == "failed" or not trajectory.turns:
        counts[NOT_PLAYED] += 1
        return
    task, credit, reward = trajectory.task, trajectory.turn_credit, trajectory.reward
    turns = list(_dialogues(trajectory))
    if credit is not None and len(credit) != len(turns):
        raise UserError(
            f"trajectory {trajectory.id!r}: turn_credit has {len(credit)} numbers for {len(turns)} turns of the agent. "
            "Run score_turns.py again."
        )
    facts = {"task_id": task.id, "reward": reward, "turn_credit": credit}
    if to == "trl":
        for turn, (prompt, completion) in enumerate(turns):
            row = {"id": f"{trajectory.id}-{turn}", "prompt": prompt, "completion": [completion]}
            yield row | facts | {"turn_credit": None if credit is None else credit[turn]}
        return
    messages = [*turns[-1][0], turns[-1][1]]
    if to == "sft":
        yield {"id": trajectory.id, "messages": messages, **facts}
    elif to == "sharegpt":
        yield {"id": trajectory.id, "conversations": _spoken(messages), **facts}
    elif to == "verl":
        row = _verl_row(task, trajectory.id, number, turns[0][0])
        yield row | {"messages": messages, "reward": reward, "turn_credit": credit}
    else:
        end = {"answer": trajectory.answer, "ending": trajectory.ending}
        yield {"id": trajectory.id, "messages": messages, **facts, **_content(task), **end}


def _dialogues(trajectory: Trajectory) -> Iterator[tuple[Messages, Message]]:
    """For each turn of the agent the messages before it, as the agent saw them, and the turn, as sampled."""
    released = text_markup(trajectory, TextMarkup()) is not None
    for place, message in enumerate(trajectory.dialogue_history):
        if message["role"] != "assistant":
            continue
        text = message.get("input")
        if released and text:  # which has the instructions, that the history lacks
            yield text_messages(text, f"trajectory {trajectory.id!r}"), _plain(message)
        else:
            yield list(map(_plain, trajectory.seen(place))), _plain(message)


def _candidate_rows(record: TurnCandidates, to: To) -> Iterator[Row]:
    where = f"candidates {record.id!r}"
    text = record.input
    if record.dialogue is None or (isinstance(text, str) and family_of(text)):  # a released text has the instructions
        prompt = text_messages(text, where)
    else:
        prompt = list(map(_plain, record.dialogue))
    facts = {"task_id": record.task and record.task.id, "turn": record.turn}
    texts, scores, rewards = record.additional_outputs, record.judge_scores, record.answer_rewards
    if to == "parquet":
        judged = {"scores": scores, "order": record.judge_result, "answer_rewards": rewards}
        yield {"id": record.id, "prompt": prompt, "completions": texts} | judged | facts
        return
    for number, text in enumerate(texts):
        row: Row = {"id": f"{record.id}-{number}", "prompt": prompt, "completion": [_reply(text)]}
        yield row | {"score": scores and scores[number], "answer_reward": rewards and rewards[number]} | facts


def _pair_rows(pair: PreferencePair, to: To, counts: Counter[str], chat: ChatFormat | None) -> Iterator[Row]:
    where = f"pair {pair.id!r}"
    chosen, rejected = (text_messages(text, where) for text in (pair.chosen, pair.rejected))
    start = shared_messages(chosen, rejected)
    if chat is not None:
        found = {chat_match(chat, *both, start) for both in ((chosen, pair.chosen), (rejected, pair.rejected))}
        bare = chosen[1:], rejected[1:]
        if OTHERWISE in found and start and chosen[0]["role"] == "system":  # perhaps the template's own
            again = {
                chat_match(chat, *both, start - 1) for both in zip(bare, (pair.chosen, pair.rejected), strict=True)
            }
            if OTHERWISE not in again:
                (chosen, rejected), start, found = bare, start - 1, again
        counts[max(found, key=(EXACT, LINE_BREAK, OTHERWISE).index)] += 1
    several = max(len(chosen), len(rejected)) > start + 1
    facts = {"task_id": pair.task_id} | {f"{side}_reward": pair.extra.get(f"{side}_reward") for side in SIDES}
    if to == "sft":
        yield {"id": pair.id, "messages": chosen, **facts}
    elif to != "sharegpt":
        counts.update([MASK_LOST] if several and to == "trl" else [])
        yield {"id": pair.id, "prompt": chosen[:start], "chosen": chosen[start:], "rejected": rejected[start:], **facts}
    elif several:
        raise UserError(
            f"{where}: its texts differ in several turns; those of a ShareGPT pair differ in the last one only. Export "
            "turn pairs (generate_random_pairs_from_ranks.py), or give --to trl."
        )
    else:
        (better,), (worse,) = _spoken(chosen[start:]), _spoken(rejected[start:])
        yield {"id": pair.id, "conversations": _spoken(chosen[:start]), "chosen": better, "rejected": worse, **facts}


def shared_messages(chosen: Messages, rejected: Messages) -> int:
    """The number of messages before the first turn of the agent that the two do not share."""
    most = min(len(chosen), len(rejected)) - 1
    equal = next((place for place in range(most) if chosen[place] != rejected[place]), most)
    while equal and not chosen[equal]["role"] == rejected[equal]["role"] == "assistant":
        equal -= 1
    return equal


def chat_match(chat: ChatFormat, messages: Messages, text: str | Sequence[Part], start: int) -> str:
    """EXACT, LINE_BREAK or OTHERWISE: how the chat template writes messages, beside the text of a pair.

    Args:
        chat: The chat format.
        messages: Messages of the text.
        text: The text with its markup.
        start: Number of messages of the prompt, after which the template opens a reply.
    """
    from jinja2 import TemplateError

    whole = text if isinstance(text, str) else parts_text(text)
    try:
        prompt, written = (
            chat.tokenizer.apply_chat_template(some, tokenize=False, add_generation_prompt=some is not messages)
            for some in (messages[:start], messages)
        )
    except TemplateError:
        return OTHERWISE
    if not (whole.startswith(prompt) and written.startswith(whole)):
        return OTHERWISE
    more = written.removeprefix(whole)
    return OTHERWISE if more.strip() else LINE_BREAK if more else EXACT


def _plain(message: Message) -> Message:
    """A message {role, content}; a turn of the agent as sampled."""
    sampled = message.get("output") if message["role"] == "assistant" else None
    return {"role": message["role"], "content": message["content"] if sampled is None else sampled}


def _reply(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _spoken(messages: Messages) -> list[dict[str, str]]:
    return [{"from": SPEAKERS.get(one["role"], one["role"]), "value": one["content"]} for one in messages]


def text_messages(text: str | Sequence[Part], where: str) -> Messages:
    """The messages {role, content} of a text, without its chat markup and without a header that opens a reply.

    Args:
        text: Parts, or a released text. A turn of the agent has what its part holds, without the EOS.
        where: Name of the text, for errors.

    Raises:
        UserError: The markup is of no known family, or the reference solution stands before the dialogue.
    """
    parts: Sequence[Part] = [{"text": text, "train": False}] if isinstance(text, str) else text
    family = family_of("".join(part["text"] for part in parts if not (_is_turn(part) or part.get("plain"))))
    if family is None:
        raise UserError(
            f"{where}: the markup of its text is of no known chat template, so its messages are not known "
            "(sweet_rl/models/texts/markup.py has those that are)."
        )
    whole = skeleton = ""  # of equal length; no markup is looked for where the skeleton has HELD
    turns: list[range] = []
    for part in parts:
        held = part["text"]
        if _is_turn(part):
            ends = [match.start() for match in family.closing.finditer(held) if match.end() == len(held)]
            held = held[: ends[0]] if ends else held
            turns.append(range(len(whole), len(whole) + len(held)))
        elif not part.get("plain"):
            held = ""
        whole += part["text"]
        skeleton += HELD * len(held) + part["text"][len(held) :]
    spans = list(messages_in(skeleton, family))
    if BEFORE in whole[: spans[0].start]:
        raise UserError(
            f"{where}: the reference solution stands before its dialogue, for a critic, and no chat template writes it "
            "there. Export the pairs without it."
        )
    messages: Messages = []
    for span in spans:
        turn = next((own for own in turns if span.content <= own.start <= span.end), None)
        if turn is not None:
            messages.append(_reply(whole[turn.start : turn.stop]))
            continue
        *_, last = None, *family.closing.finditer(skeleton, span.content, span.end)
        closed = last is not None and not skeleton[last.end() : span.end].strip()
        content = whole[span.content : last.start() if last and closed else span.end]
        if closed or content or span.role != "assistant":
            messages.append({"role": cast(Role, span.role), "content": content})
    return messages


def _is_turn(part: Part) -> bool:
    return bool(part["train"] or part.get("turn") or part.get("token_ids"))
