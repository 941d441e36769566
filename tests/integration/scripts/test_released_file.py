"""The released offline file, unchanged, for two chat families: the exact tokens and masks that training sees of it, and
of the candidates and turn pairs that are made from it. The trainings themselves: test_released_commands.py."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import torch

from sweet_rl.method.candidate_texts import encoded_candidates
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import PreferencePair, TurnCandidates, read_records
from sweet_rl.training.examples import encode_text
from tests.support.chat_families import small_tokenizer
from tests.support.command_line import call, read_rows, write_rows
from tests.support.released_files import CHATML, LLAMA, Markup, trajectories
from tests.support.tiny_models import tiny_model


@dataclass
class Walk:
    """The folder in which the pipeline ran, and its tokenizer."""

    folder: Path
    markup: Markup
    model: Path

    @cached_property
    def chat(self) -> ChatFormat:
        return ChatFormat.from_pretrained(self.model)

    def ids(self, text: str) -> list[int]:
        return self.chat.tokenizer.encode(text, add_special_tokens=False)

    def step(self, script: str, **flags) -> str:
        result = call(script, **flags)
        assert result.code == 0, result.err
        return result.out

    def graded(self, name: str, **flags) -> None:
        self.step(
            "evaluate_code.py", input_path=self.folder / "released.jsonl", output_path=self.folder / "graded.jsonl",
            preference_path=self.folder / f"{name}.jsonl", k=3, sandbox="none",
            ground_truth_preference_path=self.folder / f"{name}_with_c.jsonl", **flags,
        )  # fmt: skip


@pytest.fixture(scope="module", params=[LLAMA, CHATML], ids=lambda markup: markup.family)
def walk(request, tmp_path_factory) -> Walk:
    """Steps 2 and 4 to 6 on the released rows; another random model stands for the critic."""
    markup, folder = request.param, tmp_path_factory.mktemp(request.param.family)
    model = folder / "model"
    tokenizer = small_tokenizer(markup.family)
    for seed, path in enumerate((model, folder / "critic")):
        tokenizer.save_pretrained(path)
        made = tiny_model("llama", torch.float32, seed, vocab_size=len(tokenizer), max_position_embeddings=2048)
        made.save_pretrained(path)
    write_rows(folder / "released.jsonl", trajectories(markup))
    walk = Walk(folder, markup, model)
    released = (folder / "released.jsonl").read_bytes()

    walk.graded("pairs", tokenizer=model, response_template=markup.agent)
    walk.step(
        "sample_best_of_n.py", model_id=model, data_path=folder / "graded.jsonl",
        save_path=folder / "candidates.jsonl", best_of_n=4, max_tokens=6,
    )  # fmt: skip
    walk.step(
        "rank_best_of_n.py", model_id=folder / "critic", reference_model_id=model,
        input_path=folder / "candidates.jsonl", output_path=folder / "ranked.jsonl",
    )  # fmt: skip
    walk.step(
        "generate_random_pairs_from_ranks.py", input_path=folder / "ranked.jsonl",
        output_path=folder / "turn_pairs.jsonl",
    )  # fmt: skip
    assert (folder / "released.jsonl").read_bytes() == released
    return walk


def test_answers_are_graded_anew_and_what_the_file_says_travels_along(walk):
    released, graded = read_rows(walk.folder / "released.jsonl"), read_rows(walk.folder / "graded.jsonl")
    assert [row["reward"] == 1.0 for row in graded] == [True, False, False] * 2
    assert len({row["id"] for row in graded}) == 6
    for before, after in zip(released, graded, strict=True):
        assert after["dialogue_history"] == before["dialogue_history"]
        assert {name: after["task"][name] for name in before["task"]} == before["task"]


def expected_tokens(walk: Walk, row: dict, hint: bool) -> tuple[list[int], list[bool]]:
    """What training must see of a released dialogue, piece by piece from its markup."""
    markup, task = walk.markup, row["task"]
    said = [message["output"] for message in row["dialogue_history"] if message["role"] == "assistant"]
    opening = markup.system + markup.asks(task["problem_description"]) + markup.agent
    pieces = [
        (markup.bos, False),
        (hint_text(task["ground_truth"]) if hint else "", False),
        (opening, False),
        (said[0] + markup.end, True),
        (markup.between + markup.asks("I don't know.") + markup.agent, False),
        (said[1], True),
    ]
    ids: list[int] = []
    train: list[bool] = []
    for text, trained in pieces:
        ids += walk.ids(text)
        train += [trained] * (len(ids) - len(train))
    return ids, train


@pytest.mark.parametrize("hint", [False, True], ids=["without c", "with c"])
def test_training_sees_one_bos_the_agents_tokens_and_eos_only_where_the_file_has_one(walk, hint):
    rows = {row["id"]: row for row in read_rows(walk.folder / "graded.jsonl")}
    pairs = read_records(walk.folder / ("pairs_with_c.jsonl" if hint else "pairs.jsonl"), PreferencePair)
    for pair in pairs:
        for side in ("chosen", "rejected"):
            encoded = encode_text(getattr(pair, side), "a pair", walk.chat, pair.tokenizer)
            ids, train = expected_tokens(walk, rows[pair.extra[f"{side}_id"]], hint)
            assert encoded.ids.tolist() == ids
            assert encoded.train.tolist() == train
            check_special_tokens(walk, ids, train, said=rows[pair.extra[f"{side}_id"]])


def check_special_tokens(walk: Walk, ids: list[int], train: list[bool], said: dict) -> None:
    """One BOS, first and untrained; a trained EOS for each turn that has one in the file."""
    bos, eos = walk.chat.tokenizer.bos_token_id, walk.chat.eos_ids[0]
    places = [i for i, token in enumerate(ids) if token == bos]
    assert places == ([0] if walk.markup.bos else [])
    trained = [i for i, token in enumerate(ids) if token == eos and train[i]]
    ended = said["dialogue_history"][-1]["output"].endswith(walk.markup.end)
    assert len(trained) == 1 + ended and (trained[-1] == len(ids) - 1) == ended


@pytest.mark.parametrize("given", [False, True], ids=["recognised", "given"])
def test_pairs_are_the_same_with_the_markup_given_or_recognised_and_no_model(walk, tmp_path, given):
    by_hand = Walk(tmp_path, walk.markup, walk.model)
    write_rows(tmp_path / "released.jsonl", trajectories(walk.markup))
    by_hand.graded("pairs", **({"response_template": walk.markup.agent} if given else {}))
    for name in ("pairs.jsonl", "pairs_with_c.jsonl"):
        assert read_rows(tmp_path / name) == read_rows(walk.folder / name)


def test_candidates_continue_the_prompt_of_the_file_and_are_ranked_with_the_solution_before_it(walk):
    ranked = read_records(walk.folder / "ranked.jsonl", TurnCandidates)
    assert len(ranked) == 6 * 2
    inputs = {
        message["input"]
        for row in read_rows(walk.folder / "released.jsonl")
        for message in row["dialogue_history"]
        if message["role"] == "assistant"
    }
    chat, bos = walk.chat, walk.markup.bos
    for record in ranked:
        assert record.input in inputs and record.task.ground_truth not in record.input
        assert sorted(record.judge_result) == [0, 1, 2, 3]
        scores = [record.judge_scores[i] for i in record.judge_result]
        assert scores == sorted(scores, reverse=True)
        for i, text in enumerate(encoded_candidates(record, chat, hint=True)):
            sampled = record.additional_token_ids[i]
            hinted = hint_text(record.task.ground_truth)
            prompt = walk.ids(bos) + walk.ids(hinted) + walk.ids(record.input.removeprefix(bos))
            assert text.ids.tolist() == prompt + sampled
            assert text.train.tolist() == [False] * len(prompt) + [True] * len(sampled)
            assert (sampled[-1] in chat.eos_ids) == (record.additional_finish_reasons[i] == "stop")


def test_the_actor_is_trained_on_the_sampled_tokens_after_the_prompt_of_the_file(walk):
    ranked = {record.id: record for record in read_records(walk.folder / "ranked.jsonl", TurnCandidates)}
    pairs = read_records(walk.folder / "turn_pairs.jsonl", PreferencePair)
    assert pairs
    for pair in pairs:
        record = ranked[pair.id.rpartition("-")[0]]
        prompt = walk.ids(record.input)
        for text, half in ((pair.chosen, record.judge_result[:2]), (pair.rejected, record.judge_result[2:])):
            encoded = encode_text(text, "a pair", walk.chat, pair.tokenizer)
            assert encoded.ids[: len(prompt)].tolist() == prompt
            assert encoded.train.tolist() == [False] * len(prompt) + [True] * (len(encoded) - len(prompt))
            assert encoded.ids[len(prompt) :].tolist() in [record.additional_token_ids[i] for i in half]
