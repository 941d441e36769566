"""A critic behind a server: a stand-in that computes `prompt_logprobs` by the model of this process."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from sweet_rl.method.critics import ChosenCritic, CriticFlags
from sweet_rl.method.ranking import rank_file
from sweet_rl.method.turn_credit import TurnScorer, score_turns_file
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen, model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory, TurnCandidates, read_records
from tests.support.api_server import ApiServer, Reply, refusal
from tests.support.command_line import count_rows, read_rows, write_rows
from tests.support.dialogues import graded

BROKEN = "a text that has no log-probs"


def scoring(path: str, broken: bool = False) -> Callable[[dict], Reply]:
    """Answers of a vLLM server; if `broken`, texts that say BROKEN have no log-probs."""
    model, chat = load_frozen(path, torch.float32, "cpu"), ChatFormat.from_pretrained(path)

    def answer(body: dict) -> Reply:
        ids = body["prompt"]
        if body["prompt_logprobs"] != 0 or body["max_tokens"] != 1:
            return refusal(400, "unexpected fields")
        with torch.no_grad():
            logps = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        values = [logps[place, token].item() for place, token in enumerate(ids[1:])]
        found = [None, *({str(token): {"logprob": value}} for token, value in zip(ids[1:], values, strict=True))]
        if broken and BROKEN in chat.tokenizer.decode(ids):
            found = [None] * len(found)
        return Reply({"choices": [{"index": 0, "text": "", "prompt_logprobs": found}]})

    return answer


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ApiServer(scoring(model_path("mini"))) as one:
        one.models = ["mini"]
        yield one.url


def candidates(count: int = 3) -> list[TurnCandidates]:
    """Turns with three candidates each: a question, a question that was cut, and an answer."""
    chat, rows = ChatFormat.from_pretrained("mini"), []
    for number, one in enumerate(graded()[:count]):
        messages = one.dialogue_history[: 1 + 2 * (number % 2)]
        texts = ["Is there a maximum?", "How soon should I", f"I WANT TO ANSWER:\n{one.task.ground_truth}"]
        rows.append(TurnCandidates(
            chat.prompt(messages), "", texts, id=f"turn-{number}", task=one.task, turn=number, dialogue=messages,
            additional_finish_reasons=["stop", "length", "stop"], tokenizer=chat.fingerprint,
        ))  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("pmi", {"normalize": "none"}),
        ("log_ratio", {"reference": "seed_without_c", "reference_model_id": "mini", "normalize": "none"}),
    ],
)
def test_candidates_have_the_scores_of_the_local_critic(kind, settings, server, tmp_path):
    source, found = write_rows(tmp_path / "in.jsonl", candidates()), {}
    for name, where in (("local", {"bf16": False}), ("served", {"hostname": server})):
        output = tmp_path / f"{name}.jsonl"
        rank_file(ChosenCritic(kind, {"model_id": "mini", **settings, **where}), str(source), str(output))
        found[name] = {row["id"]: row["judge_scores"] for row in read_rows(output)}
    assert list(found["served"]) == list(found["local"])  # whichever was done first
    for key, scores in found["local"].items():
        np.testing.assert_allclose(found["served"][key], scores, atol=1e-4)
        assert len(set(np.round(scores, 3))) == 3


def test_the_turns_of_a_dialogue_have_the_credit_and_the_tokens_of_the_local_critic(server):
    async def rows(**where) -> list:
        scorer = TurnScorer(CriticFlags(model_id="mini", critic_type="pmi", **where).chosen)
        try:
            return await scorer.rows(graded()[:2])
        finally:
            await scorer.critic.close()

    local, served = asyncio.run(rows()), asyncio.run(rows(hostname=server))
    for one, other in zip(local, served, strict=True):
        for turn, same in zip(one, other, strict=True):
            assert turn["tokens"] == same["tokens"] and turn["advantage"] == pytest.approx(same["advantage"], abs=2e-4)
            np.testing.assert_allclose(turn["critic"], same["critic"], atol=2e-3)


def test_log_probs_that_are_none_cost_their_own_dialogue_alone_and_it_is_done_again(tmp_path):
    good = copy.deepcopy(graded()[:3])
    good[1].dialogue_history[1]["content"] = BROKEN
    good[1].dialogue_history[1].pop("output", None)
    source, output = write_rows(tmp_path / "in.jsonl", good), tmp_path / "out.jsonl"
    answer = scoring(model_path("mini"), broken=True)
    with ApiServer(answer) as one:
        one.models = ["mini"]
        critic = ChosenCritic("pmi", {"model_id": "mini", "hostname": one.url})
        with pytest.raises(UserError, match=r"1 of the dialogues failed \(1 logprobs"):
            score_turns_file(critic, str(source), str(output))
        assert {row["id"] for row in read_rows(output)} == {good[0].id, good[2].id}
        one.answer = scoring(model_path("mini"))
        score_turns_file(critic, str(source), str(output))
    assert [row.id for row in read_records(output, Trajectory)] == [row.id for row in good]


@pytest.mark.parametrize(
    ("models", "answer", "message"),
    [
        (["other"], None, "other models than 'mini'.*other"),
        (["mini"], Reply({"choices": [{"text": "x"}]}), "no prompt_logprobs. Only vLLM"),
        (["mini"], refusal(400, "prompt_logprobs is not known"), "prompt_logprobs is not known"),
    ],
)
def test_a_server_that_cannot_score_is_one_error_before_a_record_is_written(models, answer, message, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", candidates(1))
    with ApiServer(lambda body: answer) as one:
        one.listing = Reply({"data": [{"id": name, "owned_by": "vllm"} for name in models]})
        critic = ChosenCritic("pmi", {"model_id": "mini", "hostname": one.url})
        with pytest.raises(UserError, match=message):
            rank_file(critic, str(source), str(tmp_path / "out.jsonl"))
    assert not count_rows(tmp_path / "out.jsonl")
