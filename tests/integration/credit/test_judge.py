"""An LLM as a judge, behind a real server: matches in both orders, a knockout, a ranking that can be continued."""

import asyncio
import json
import re

import pytest

from sweet_rl.credit.judge import JudgeCritic, conversation, judge_prompt, read_verdict
from sweet_rl.credit.ranking import ranked
from sweet_rl.errors import UserError
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.records import Task, TurnCandidates, read_records
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal
from tests.support.command_line import call, write_rows

TASK = Task("a fee", "def fee(x): return 2 * x")
DIALOGUE = [{"role": "user", "content": "I need a fee."}]


def record(texts, key="t-0"):
    return TurnCandidates("<|user|>I need a fee.<|end|>", "old", list(texts), id=key, task=TASK,
                          extra={"dialogue": DIALOGUE})  # fmt: skip


def shown(body: dict) -> tuple[str, str]:
    text = body["messages"][0]["content"]
    return tuple(re.search(rf"<message_{n}>\n(.*?)\n</message_{n}>", text, re.DOTALL)[1] for n in (1, 2))


def longer_wins(body: dict):
    first, second = shown(body)
    return chat_reply(f"The first is better: hm.\n**Better: {1 if len(first) > len(second) else 2}**")


def judge(answer, texts, **settings):
    """(scores of the candidates, the requests, the judge)."""

    async def work(url):
        critic = JudgeCritic(OpenAIServer(MODEL, [url]), judge_prompt("judge.txt"), **settings)
        try:
            return (await critic.scores([record(texts)]))[0], critic
        finally:
            await critic.close()

    with ApiServer(answer) as server:
        scores, critic = asyncio.run(work(server.url))
        return scores, [body for _, body in server.requests], critic


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16])
def test_a_consistent_judge_crowns_the_best_with_one_match_for_each_loser(n):
    texts = ["x" * (i + 1) for i in range(n)]
    scores, requests, critic = judge(longer_wins, texts)
    assert scores.index(max(scores)) == n - 1 and scores.count(max(scores)) == 1
    assert len(requests) == 2 * (n - 1)  # each match in both orders
    assert critic.tally["decided"] == n - 1 and sum(critic.tally.values()) == n - 1
    assert max(scores) == (n - 1).bit_length()  # rounds


def test_every_match_is_seen_in_both_orders():
    _, requests, _ = judge(longer_wins, ["a", "bb", "ccc", "dddd"])
    seen = [shown(body) for body in requests]
    assert sorted(seen) == sorted((b, a) for a, b in seen) and len(set(seen)) == len(seen)


def test_a_judge_who_always_prefers_the_first_place_decides_nothing():
    wins = 0
    for seed in range(40):
        scores, _, critic = judge(lambda _: chat_reply("Better: 1"), ["short", "a longer text"], seed=seed)
        assert critic.tally == {"contradicted": 1}
        wins += scores[0] > scores[1]
    assert 8 <= wins <= 32  # by lot: within 3.8 standard deviations of 20


def test_the_same_seed_gives_the_same_lots_whatever_the_order_of_the_candidates():
    texts = ["a", "b", "c", "d", "e"]
    one, *_ = judge(lambda _: chat_reply("no idea"), texts, seed=3)
    other, _, critic = judge(lambda _: chat_reply("no idea"), texts[::-1], seed=3)
    assert other[::-1] == one and critic.tally["unreadable"] == 4


def test_equal_texts_enter_once_and_share_their_score():
    scores, requests, _ = judge(longer_wins, ["aa", "b", "aa"])
    assert scores == [1.0, 0.0, 1.0] and len(requests) == 2


def test_the_solution_is_shown_unless_it_is_withheld():
    _, (body, _), _ = judge(longer_wins, ["a", "bb"])
    text = body["messages"][0]["content"]
    assert TASK.ground_truth in text and "Colleague: I need a fee." in text and body["temperature"] == 0
    _, requests, _ = judge(longer_wins, ["a", "bb"], hint=False)
    assert all(TASK.ground_truth not in request["messages"][0]["content"] for request in requests)


@pytest.mark.parametrize(
    "reply, verdict",
    [("Better: 1", 1), ("better: 2.", 2), ("Better: 1\nOn reflection\nBetter: **2**", 2), ("Both are fine", None),
     ("Better: 3", None), ("", None), ("Better: 12", None)],
)  # fmt: skip
def test_the_last_readable_verdict_counts(reply, verdict):
    assert read_verdict(reply) == verdict


def test_a_file_without_messages_shows_its_prompt_without_markup():
    assert conversation(TurnCandidates("<|bos|><|user|>help<|end|><|assistant|>", "", ["a"])) == "help"


def test_ranking_by_a_judge_is_continued_where_its_server_gave_out(tmp_path):
    rows = [record(["a", "bb", "ccc"], f"t-{i}").to_dict() for i in range(3)]
    source = write_rows(tmp_path / "candidates.jsonl", rows)
    flags = {"critic_type": "judge", "model_id": MODEL, "input_path": source, "output_path": tmp_path / "judged.jsonl"}
    down = []

    def answer(body):
        down.append(1)
        return refusal(400, "no") if len(down) == 6 else longer_wins(body)

    with ApiServer(answer) as server:
        first = call("rank_best_of_n.py", hostname=server.url, concurrency=1, **flags)
        assert first.code == 2 and "could not be ranked" in first.err
        before = (tmp_path / "judged.jsonl").read_text()
        assert len(before.splitlines()) == 2
        again = call("rank_best_of_n.py", hostname=server.url, concurrency=1, **flags)
    assert again.code == 0, again.err
    assert (tmp_path / "judged.jsonl").read_text().startswith(before)
    records = read_records(tmp_path / "judged.jsonl", TurnCandidates)
    assert [r.judge_result[0] for r in records] == [2, 2, 2]
    assert json.loads((tmp_path / "judged.jsonl.manifest.json").read_text())["status"] == "finished"


def test_what_cannot_work_is_one_message(tmp_path):
    source = write_rows(tmp_path / "candidates.jsonl", [record(["a", "b"]).to_dict()])
    flags = {"model_id": MODEL, "input_path": source, "output_path": tmp_path / "out.jsonl"}
    assert "--critic_type" in call("rank_best_of_n.py", critic_type="oracle", **flags).err
    assert "--hostname" in call("rank_best_of_n.py", hostname="localhost", **flags).err
    bad = write_rows(tmp_path / "prompt.txt", [])
    judging = {"critic_type": "judge", "judge_prompt_path": bad, "hostname": "localhost:9"}
    assert "{dialogue}" in call("rank_best_of_n.py", **judging, **flags).err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_ranked_record_keeps_the_eos_that_sampling_noted():
    kept = ranked(TurnCandidates("p", "", ["a", "b"], extra={"eos_text": "<|x|>"}), [0.0, 1.0], None)
    assert (kept.judge_result, kept.extra["eos_text"]) == ([1, 0], "<|x|>")
    with pytest.raises(UserError, match="empty"):
        judge(longer_wins, [])
