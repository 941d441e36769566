"""Ranked files and the turn pairs from them, by tiny models with random weights."""

from __future__ import annotations

import json
import shutil
from functools import cache

import numpy as np
import pytest
import torch

from sweet_rl.method.candidate_texts import encoded_candidates, prompt_parts
from sweet_rl.method.critics import ChosenCritic, CriticFlags
from sweet_rl.method.privileged_information import with_hint
from sweet_rl.method.ranking import placed, rank_file
from sweet_rl.method.turn_pairs import PairSettings, pair_file
from sweet_rl.models.weights import load_frozen
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, TurnCandidates, read_records
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import ROOT, count_rows, write_rows
from tests.support.tiny_models import EOS, save_tiny_chat_model

TASK = {"problem_description": "fee", "ground_truth": "def fee(x): return 2 * x", "test_cases": {}}


def rank(input_path, output_path, limit=None, shard=None, **flags):
    step = StepSettings(limit, shard)
    return rank_file(CriticFlags(**flags).chosen, str(input_path), str(output_path), step)


@pytest.fixture(scope="module")
def world(tiny_chat_model, tiny_critic, tiny_chat, tmp_path_factory):
    """A seed model, a critic of other weights, and candidates of three turns; the last is of released strings."""
    chat, draw, rows = tiny_chat, np.random.default_rng(0), []
    for turn in range(2):
        prompt = chat.prompt([{"role": "user", "content": "a function please " + "x" * turn}])
        ids = [draw.integers(64, 90, size).tolist() for size in (5, 3, 9, 1, 4)]
        reasons = ["stop", "length", "stop", "length", "stop"]
        ids = [i + [chat.eos_ids[0]] * (reason == "stop") for i, reason in zip(ids, reasons, strict=True)]
        rows.append({
            "id": f"t-{turn}", "task": TASK, "turn": turn, "input": prompt, "older_output": "old",
            "additional_outputs": [chat.decode(i) for i in ids], "additional_token_ids": ids,
            "additional_finish_reasons": reasons, "tokenizer": chat.fingerprint,
            "additional_reference_logprobs": [draw.normal(-2, 1, len(i)).tolist() for i in ids],
        })  # fmt: skip
    rows.append({
        "task": TASK, "input": "<|bos|><|user|>help<|end|><|assistant|>", "older_output": "old",
        "additional_outputs": ["yes", "no", "what?"], "additional_reference_logprobs": [-1.0, -2.0, -3.0],
        "ours": "travels along",
    })  # fmt: skip
    path = write_rows(tmp_path_factory.mktemp("world") / "candidates.jsonl", rows)
    return {"seed": tiny_chat_model, "critic": tiny_critic, "chat": chat, "path": str(path)}


frozen = cache(lambda path: load_frozen(path, device="cpu"))


def plain(model_path: str, text) -> np.ndarray:
    model = frozen(model_path)
    ids = torch.from_numpy(text.ids)
    with torch.no_grad():
        logps = model(input_ids=ids[None]).logits[0].log_softmax(-1)
    return logps[torch.from_numpy(text.targets - 1), ids[text.targets]].numpy()


@pytest.mark.parametrize("reference", ["seed", "sampled"])
@pytest.mark.parametrize("no_prompt", [False, True])
def test_scores_are_the_advantages_of_one_plain_pass_per_candidate(world, tmp_path, reference, no_prompt):
    out = tmp_path / "ranked.jsonl"
    given = {"reference_model_id": world["seed"]} if reference == "seed" else {}
    flags = {"model_id": world["critic"], "input_path": world["path"], "output_path": str(out), **given}
    rank(**flags, reference=reference, no_prompt=no_prompt)
    ranked = read_records(out, TurnCandidates)
    assert len(ranked) == 3 and ranked[2].extra["ours"] == "travels along"
    for record, before in zip(ranked, read_records(world["path"], TurnCandidates), strict=True):
        expected = []
        texts = encoded_candidates(before, world["chat"], hint=not no_prompt)
        for i, text in enumerate(texts):
            other = (
                plain(world["seed"], text)
                if reference == "seed"
                else np.asarray(before.additional_reference_logprobs[i])
            )
            expected.append(plain(world["critic"], text).mean() - other.mean())
        np.testing.assert_allclose(record.judge_scores, expected, atol=1e-5)
        assert record.judge_result == sorted(range(len(expected)), key=lambda i: -record.judge_scores[i])
        assert record.id == before.id


def test_the_reference_solution_stands_after_the_one_bos(world):
    for record in read_records(world["path"], TurnCandidates):
        text = encoded_candidates(record, world["chat"], hint=True)[0]
        chat = world["chat"]
        bos = chat.tokenizer.bos_token_id
        assert text.ids[0] == bos and (text.ids == bos).sum() == 1
        prompt = with_hint(prompt_parts(record, chat.bos_text), TASK["ground_truth"])
        assert chat.decode(text.ids[1 : text.prompt_length]).startswith("In light that the final answer is: def")
        assert len(chat.encode(prompt)[0]) == text.prompt_length


def test_a_killed_ranking_is_continued_and_a_finished_one_left_alone(world, tmp_path, capsys):
    flags = {"model_id": world["critic"], "input_path": world["path"], "reference": "sampled"}
    rank(**flags, output_path=str(tmp_path / "whole.jsonl"))
    rank(**flags, output_path=str(tmp_path / "cut.jsonl"))
    lines = (tmp_path / "cut.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text(lines[0] + lines[1][:40])
    manifest = tmp_path / "cut.jsonl.manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"status": "running"}))
    rank(**flags, output_path=str(tmp_path / "cut.jsonl"))
    assert (tmp_path / "cut.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    rank(**flags, output_path=str(tmp_path / "cut.jsonl"))
    assert "already complete" in capsys.readouterr().out
    with pytest.raises(UserError, match="no_prompt"):
        rank(**flags, output_path=str(tmp_path / "cut.jsonl"), no_prompt=True)


def test_shards_one_after_the_other_are_the_ranking_of_one_process(world, tmp_path):
    flags = {"model_id": world["critic"], "input_path": world["path"], "reference": "sampled"}
    rank(**flags, output_path=tmp_path / "whole.jsonl")
    parts = [tmp_path / f"{number}.jsonl" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        rank(**flags, output_path=part, shard=f"{number}/2")
    assert "".join(part.read_text() for part in parts) == (tmp_path / "whole.jsonl").read_text()


@pytest.mark.parametrize("changes, named", [
    ({"reference": "seed"}, "--reference_model_id"),
    ({"model_id": "/nowhere"}, "/nowhere"),
    ({"input_path": "/nowhere.jsonl"}, "/nowhere.jsonl"),
])  # fmt: skip
def test_what_cannot_work_is_one_message_and_no_record_is_written(world, tmp_path, changes, named):
    flags = {"model_id": world["critic"], "input_path": world["path"], "reference": "sampled", **changes}
    with pytest.raises(UserError, match=named):
        rank(**flags, output_path=str(tmp_path / "out.jsonl"))
    assert not count_rows(tmp_path / "out.jsonl")


def test_ranked_candidates_become_turn_pairs_that_can_be_trained_on(world, tmp_path):
    flags = {"model_id": world["critic"], "input_path": world["path"], "reference": "sampled"}
    rank(**flags, output_path=str(tmp_path / "ranked.jsonl"))
    paths = str(tmp_path / "ranked.jsonl"), str(tmp_path / "pairs.jsonl")
    pair_file(PairSettings(num_pairs=2), *paths, StepSettings())
    with pytest.raises(UserError, match="get_sft"):  # pairs to imitate are another run
        pair_file(PairSettings(num_pairs=2, get_sft=True), *paths, StepSettings())
    pairs = read_records(tmp_path / "pairs.jsonl", PreferencePair)
    assert [pair.id for pair in pairs[:4]] == ["t-0-0", "t-0-1", "t-1-0", "t-1-1"] and len(pairs) == 5
    record = read_records(world["path"], TurnCandidates)[0]
    for pair in pairs[:2]:
        ids, train = world["chat"].encode(pair.chosen, pair.tokenizer)
        assert [i for i, t in zip(ids, train, strict=True) if t] in record.additional_token_ids
        assert "final answer" not in "".join(part["text"] for part in pair.chosen)
    assert pairs[4].chosen[-1]["text"].endswith(EOS)


def test_right_answers_stand_above_questions_and_others_below_in_the_order_of_the_critic():
    texts = ["ask", "right", "wrong", "ask more", "right", "nearly", "unknown"]
    record = TurnCandidates("...", "old", texts, answer_rewards=[None, 1.0, 0.0, None, 1.0, 0.9, None])
    found = placed(record, [0.5, -9.0, 3.0, 0.1, -8.0, 2.0, 0.2])
    assert sorted(range(7), key=lambda place: -found[place]) == [4, 1, 0, 6, 3, 2, 5]
    equal = placed(TurnCandidates("...", "old", ["ask", "wrong"], answer_rewards=[None, 0.0]), [1.0, 1.0])
    assert equal[1] < equal[0]


def test_answers_are_placed_by_the_rewards_in_the_file(tmp_path):
    critic = ChosenCritic(str(ROOT / "docs/examples/short_turns.py"), {"words": 1})
    rows = [
        {"id": f"t-{turn}", "input": "o", "older_output": "", "additional_outputs": ["a", "a b", "a b c", "a b c d"],
         "answer_rewards": [0.5, None, 1.0, None]}
        for turn in range(4)
    ]  # fmt: skip
    source, out = str(write_rows(tmp_path / "graded.jsonl", rows)), str(tmp_path / "ranked.jsonl")
    rank_file(critic, source, out, place_answers=True)
    assert [record.judge_result for record in read_records(out, TurnCandidates)] == [[2, 1, 3, 0]] * 4
    with pytest.raises(UserError, match="place_answers"):
        rank_file(critic, source, out)
    plain = str(write_rows(tmp_path / "plain.jsonl", [{**rows[0], "answer_rewards": None}]))
    with pytest.raises(UserError, match="t-0.*grade_candidates.py"):
        rank_file(critic, plain, str(tmp_path / "none.jsonl"), place_answers=True)


def test_candidates_that_were_cut_before_their_first_token_are_left_out_and_counted(world, tmp_path):
    whole = [json.loads(line) for line in open(world["path"])][:2]
    rows = json.loads(json.dumps(whole))
    for row in rows:
        row["additional_outputs"].insert(1, "")
        row["additional_token_ids"].insert(1, [])
        row["additional_reference_logprobs"].insert(1, [])
        row["additional_finish_reasons"].insert(1, "length")
        row["answer_rewards"] = [None, 0.0, None, None, None, None]
    rows[1]["additional_finish_reasons"][1] = "stop"  # of a server that gives the end-of-turn token no id
    none = {name: value[1:2] if name.startswith("additional_") else value for name, value in rows[0].items()}
    none |= {"id": "none", "answer_rewards": [None]}
    given = write_rows(tmp_path / "given.jsonl", [*rows, none])
    flags = {"model_id": world["critic"], "reference_model_id": world["seed"]}
    for reference in ("seed", "sampled"):
        out, plain = tmp_path / f"{reference}.jsonl", tmp_path / f"{reference}-plain.jsonl"
        own = flags if reference == "seed" else {"model_id": world["critic"], "reference": "sampled"}
        summary = rank(given, out, **own)
        rank(write_rows(tmp_path / "whole.jsonl", whole), plain, **own)
        assert summary == {"turns": 2, "candidates": 10, "empty_candidates_left_out": 3, "turns_left_out": 1}
        for found, expected in zip(read_records(out, TurnCandidates), read_records(plain, TurnCandidates), strict=True):
            assert found.additional_outputs == expected.additional_outputs and found.answer_rewards == [None] * 5
            np.testing.assert_allclose(found.judge_scores, expected.judge_scores, atol=1e-4)
    with pytest.raises(UserError, match="no candidate has a single token"):
        rank(write_rows(tmp_path / "none.jsonl", [none]), tmp_path / "no.jsonl", **flags)


def test_a_candidate_beyond_the_context_of_the_critic_is_refused_with_its_line(world, tmp_path):
    small = save_tiny_chat_model(tmp_path / "small", max_position_embeddings=90)
    with pytest.raises(
        UserError, match=r"candidates.jsonl, line 1, candidates 't-0', candidate 2: 93 tokens, .* has 90"
    ):
        rank(world["path"], tmp_path / "out.jsonl", model_id=small, reference="sampled")


def test_a_reference_of_another_vocabulary_is_refused(world, tmp_path):
    other = shutil.copytree(world["seed"], tmp_path / "other")
    words = json.loads((other / "tokenizer.json").read_text())
    words["model"]["vocab"]["a"], words["model"]["vocab"]["b"] = (words["model"]["vocab"][w] for w in "ba")
    (other / "tokenizer.json").write_text(json.dumps(words))
    with pytest.raises(UserError, match="--reference_model_id .* another vocabulary"):
        rank(world["path"], tmp_path / "out.jsonl", model_id=world["critic"], reference_model_id=str(other))


def test_log_probs_of_another_temperature_are_no_reference(world, tmp_path):
    path = tmp_path / "cold.jsonl"
    shutil.copy(world["path"], path)
    manifest = {"status": "finished", "settings": {"sampling": {"temperature": 0.3}}, "inputs": {}}
    (tmp_path / "cold.jsonl.manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="temperature 0.3.*seed_without_c"):
        rank(path, tmp_path / "out.jsonl", model_id=world["critic"])
