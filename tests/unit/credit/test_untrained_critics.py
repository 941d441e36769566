"""Critics that compare one model with and without c, against one plain forward pass per text; and the study of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from lab.critics.asked_human import AskedHuman, AskedSettings
from lab.critics.belief_gain import BeliefGainCritic, PmiBeliefCritic
from lab.critics.study import RememberingScorers, StudySettings, flags, study_file
from sweet_rl.chat import ChatFormat
from sweet_rl.credit.best_of_n import BestCandidate
from sweet_rl.credit.critics import CriticSettings, load_critic
from sweet_rl.credit.ranking import rank_file
from sweet_rl.credit.sweet_critic import load_scorer
from sweet_rl.domains import ANSWER_MARKER, HumanReply
from sweet_rl.errors import UserError
from sweet_rl.log_probs.privileged_information import hint_text
from sweet_rl.mini.human import MiniHuman
from sweet_rl.model_loading import load_frozen
from sweet_rl.models.base import Completion
from sweet_rl.records import Task, TurnCandidates, read_records, seed_for
from sweet_rl.task_types import load_domain
from tests.support.command_line import write_rows
from tests.support.tiny_models import save_tiny_chat_model

MINI = {"family": "parking_fee", "rules": [["allowance", 0, 2, 5], ["rate", 0, 4, 5], ["cap", 0, 30, 5]]}
SOLUTION = "def fee(h):\n    return 4 * h"
TASK = Task("a fee: def fee(h)", SOLUTION, {"test1": "fee(1)"}, "t", {"mini": MINI})
TEXTS = ["Is there a maximum?", "Is it urgent?", f"{ANSWER_MARKER}\ndef fee(h): return h", "Is it urgent?"]
REASONS = ["stop", "length", "stop", "length"]
START = "<|bos|><|user|>a fee: def fee(h)<|end|><|assistant|>"
HUMAN = AskedHuman(load_domain, AskedSettings("mini", "mini"))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A seed model, a critic of other weights, and two turns of one dialogue with candidates as sampled."""
    folder = tmp_path_factory.mktemp("world")
    seed, critic = (save_tiny_chat_model(folder / name, seed=n) for n, name in enumerate(("seed", "critic")))
    chat = ChatFormat.from_pretrained(seed)
    dialogue = [{"role": "user", "content": TASK.problem_description}]
    second = [*dialogue, {"role": "assistant", "content": "Why?"}, {"role": "user", "content": "No idea."}]
    draw, rows = np.random.default_rng(0), []
    for turn, messages in enumerate((dialogue, second)):
        ids = [chat.tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
        ids = [i + [chat.eos_ids[0]] * (reason == "stop") for i, reason in zip(ids, REASONS, strict=True)]
        rows.append(TurnCandidates(
            id=f"t-0-{turn}", task=TASK, turn=turn, input=chat.prompt(messages), older_output="", dialogue=messages,
            additional_outputs=TEXTS, additional_token_ids=ids, additional_finish_reasons=REASONS,
            additional_reference_logprobs=[draw.normal(-2, 1, len(i)).tolist() for i in ids],
            tokenizer=chat.fingerprint,
        ))  # fmt: skip
    path = write_rows(folder / "candidates.jsonl", rows)
    models = {name: load_frozen(name, device="cpu") for name in (seed, critic)}

    def plain(prompt: str, text: str, model: str = seed) -> np.ndarray:
        """Log-probs of the tokens of `text` after `prompt`, both with markup: one pass, no sharing."""
        first, then = (chat.tokenizer.encode(part, add_special_tokens=False) for part in (prompt, text))
        with torch.no_grad():
            logps = models[model](input_ids=torch.tensor([first + then])).logits[0].log_softmax(-1)
        return np.array([logps[len(first) + n - 1, token].item() for n, token in enumerate(then)])

    return {"seed": seed, "critic": critic, "path": str(path), "rows": rows, "plain": plain, "folder": folder}


def scores(world, name="seed", human=None, **settings):
    critic = load_critic(CriticSettings(world[name], **settings), human)
    return asyncio.run(critic.scores(world["rows"]))


def informed(start: str) -> str:
    return start.replace("<|bos|>", "<|bos|>" + hint_text(SOLUTION), 1)


def prompts() -> list[str]:
    return [START, START + "Why?<|end|><|user|>No idea.<|end|><|assistant|>"]


def completion(index: int) -> str:
    return TEXTS[index] + "<|end|>" * (REASONS[index] == "stop")


def test_a_seed_reference_without_c_sees_the_dialogue_alone(world):
    found = scores(world, "critic", reference="seed_without_c", reference_model_id=world["seed"])
    for own, start in zip(found, prompts(), strict=True):
        expected = [
            world["plain"](informed(start), completion(i), world["critic"]).mean()
            - world["plain"](start, completion(i)).mean()
            for i in range(4)
        ]
        np.testing.assert_allclose(own, expected, atol=1e-5)


@pytest.mark.parametrize("weight", [None, 0.5, 2.0])
def test_pointwise_information_and_what_is_left_without_what_c_predicts_alone(world, weight):
    plain = world["plain"]
    kind = {"critic_type": "pmi"} if weight is None else {"critic_type": "purified", "purification": weight}
    found = scores(world, **kind, normalize="none")
    alone = "<|bos|><|user|><|end|><|assistant|>"
    for own, start in zip(found, prompts(), strict=True):
        expected = []
        for i in range(4):
            text = completion(i)
            prior = plain(informed(alone), text).sum() - plain(alone, text).sum()
            expected.append(plain(informed(start), text).sum() - plain(start, text).sum() - (weight or 0) * prior)
        np.testing.assert_allclose(own, expected, atol=1e-4)


def test_each_token_is_purified_before_the_tokens_are_aggregated(world):
    plain, start, alone, text = world["plain"], START, "<|bos|><|user|><|end|><|assistant|>", completion(0)
    ratios = plain(informed(start), text) - plain(start, text) - (plain(informed(alone), text) - plain(alone, text))
    size = float(np.median(np.abs(ratios)))
    found = scores(world, critic_type="purified", clip=size)[0][0]
    assert found == pytest.approx(ratios.clip(-size, size).mean(), abs=1e-5) != pytest.approx(ratios.mean(), abs=1e-5)
    found = scores(world, critic_type="purified", normalize="top", top_tokens=3)[0][0]
    assert found == pytest.approx(ratios[np.argsort(-np.abs(ratios))[:3]].mean(), abs=1e-4)


@pytest.mark.parametrize("asked", [False, True])
def test_belief_gain_is_the_likelihood_of_the_solution_after_the_turn_less_that_before(world, asked):
    plain = world["plain"]
    found = scores(world, human=MiniHuman(), critic_type="belief_gain", reply=asked)
    for record, own, start in zip(world["rows"], found, prompts(), strict=True):
        before = plain(start + f"{ANSWER_MARKER}\n", SOLUTION).mean()
        for i in (0, 1, 3):
            reply = ""
            if asked:
                seed = seed_for(0, record.id, TEXTS[i])
                message = {"role": "assistant", "content": TEXTS[i]}
                reply = asyncio.run(MiniHuman().reply(TASK, [*record.dialogue, message], seed)).text
            heard = f"{start}{TEXTS[i]}<|end|><|user|>{reply}<|end|><|assistant|>{ANSWER_MARKER}\n"
            assert own[i] == pytest.approx(plain(heard, SOLUTION).mean() - before, abs=1e-5)
        assert own[1] == own[3]
        answered = plain(informed(start), completion(2)).mean() - plain(start, completion(2)).mean()
        assert own[2] == pytest.approx(answered, abs=1e-5)  # an answer has its pointwise information


@pytest.mark.parametrize("asked", [False, True])
def test_a_reply_that_is_known_is_taken_and_nobody_is_asked(world, asked):
    """Of turns that were taken; `plain` is one pass per text."""
    record = replace(world["rows"][1], additional_replies=["Not over 30.", "No idea.", "", "I can't say."])
    critic = load_critic(CriticSettings(world["seed"], critic_type="belief_gain", reply=asked), MiniHuman())
    (found,) = asyncio.run(critic.scores([record]))
    start, plain = prompts()[1], world["plain"]
    before = plain(start + f"{ANSWER_MARKER}\n", SOLUTION).mean()
    for i in (0, 1, 3):
        reply = record.additional_replies[i]
        heard = f"{start}{TEXTS[i]}<|end|><|user|>{reply}<|end|><|assistant|>{ANSWER_MARKER}\n"
        assert found[i] == pytest.approx(plain(heard, SOLUTION).mean() - before, abs=1e-5)
    assert found[1] != found[3]


@pytest.mark.parametrize("normalize", ["turn", "none"])
def test_pmi_belief_is_the_mean_of_both_and_an_answers_pointwise_information(world, normalize):
    own = {"human": MiniHuman(), "normalize": normalize}
    both = scores(world, critic_type="pmi_belief", reply=True, **own)
    gains = scores(world, critic_type="belief_gain", reply=True, **own)
    informations = scores(world, critic_type="pmi", **own)
    np.testing.assert_allclose(both, (np.array(gains) + np.array(informations)) / 2, atol=1e-5)
    assert [row[2] for row in both] == pytest.approx([row[2] for row in informations], abs=1e-5)


def test_pmi_belief_scores_in_one_call_in_which_an_answers_two_texts_are_equal(world):
    """Equal texts of a call are computed once; the answer is candidate 2 of 4."""
    calls = []

    def score(texts):
        calls.append([text.key for text in texts])
        return [np.zeros(len(text.targets)) for text in texts]

    asyncio.run(PmiBeliefCritic(ChatFormat.from_pretrained(world["seed"]), score).scores(world["rows"][:1]))
    (keys,) = calls
    assert len(keys) == 4 * 4 and keys[4:6] == keys[12:14] and keys[4] != keys[5]


def test_the_dialogue_before_the_turn_is_one_prompt_of_all_beliefs(world):
    seen = []
    scorer = load_scorer(world["seed"], False, 4096)
    chat = ChatFormat.from_pretrained(world["seed"])

    def score(texts):
        seen.extend(texts)
        return scorer(texts)

    asyncio.run(BeliefGainCritic(chat, score).scores([replace(world["rows"][0], additional_outputs=TEXTS[:2] * 2)]))
    assert len({text.prompt for text in seen}) == 1
    assert seen[0].prompt_length == len(chat.tokenizer.encode(START, add_special_tokens=False))


def test_a_candidate_is_played_by_its_belief_gain(world):
    critic = load_critic(CriticSettings(world["seed"], "belief_gain", reply=True), MiniHuman())
    record = world["rows"][1]

    async def choose():
        chat = critic.chat
        drawn = [Completion(text, ids, None, reason)
                 for text, ids, reason in zip(TEXTS, record.additional_token_ids, REASONS, strict=True)]  # fmt: skip
        return await BestCandidate(critic, chat)(TASK, record.dialogue, record.input, drawn, chat.fingerprint)

    chosen = asyncio.run(choose())
    named = replace(record, id="t, turn 1")
    assert chosen == int(np.argmax(asyncio.run(critic.scores([named]))[0]))


@pytest.mark.parametrize("changes", [
    {"additional_reference_logprobs": [-1.0, -2.0, -1.0, -3.0]},
    {"tokenizer": "another"},
    {"additional_token_ids": None},
    {"additional_reference_logprobs": [[-1.0]] * 4},
])  # fmt: skip
@pytest.mark.parametrize("settings", [{"normalize": "top"}, {"clip": 1.0}])
def test_stored_log_probs_of_other_tokens_cannot_be_compared_token_by_token(world, changes, settings):
    critic = load_critic(CriticSettings(world["seed"], reference="sampled", **settings))
    assert len(asyncio.run(critic.scores(world["rows"]))) == 2
    with pytest.raises(UserError, match="t-0-0.*seed_without_c"):
        asyncio.run(critic.scores([replace(world["rows"][0], **changes)]))


def test_log_probs_that_are_not_there_are_missing_and_not_of_other_tokens(world):
    critic = load_critic(CriticSettings(world["seed"], reference="sampled", clip=1.0))
    with pytest.raises(UserError, match="no sampling log-probs"):
        asyncio.run(critic.scores([replace(world["rows"][0], additional_reference_logprobs=None)]))


def test_a_belief_needs_the_messages_and_a_task_and_a_human_who_can_be_asked(world):
    critic = load_critic(CriticSettings(world["seed"], "belief_gain"))
    for changes in ({"dialogue": None}, {"task": None}, {"additional_outputs": []}):
        with pytest.raises(UserError, match="t-0-0"):
            asyncio.run(critic.scores([replace(world["rows"][0], **changes)]))
    with pytest.raises(UserError, match="--reply"):
        load_critic(CriticSettings(world["seed"], "belief_gain", reply=True))
    out = str(world["folder"] / "refused.jsonl")
    with pytest.raises(UserError, match="--env_model"):
        rank_file(CriticSettings(world["seed"], "belief_gain", reply=True), world["path"], out)
    with pytest.raises(UserError, match="--reply"):
        rank_file(CriticSettings(world["seed"], "belief_gain"), world["path"], out, human=HUMAN)
    with pytest.raises(UserError, match="pages"):
        AskedHuman(load_domain, AskedSettings("designer", "mini_html"))


def test_a_ranking_with_replies_is_recorded_and_continued(world, tmp_path):
    settings = CriticSettings(world["seed"], "belief_gain", reply=True)
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    for path in (whole, cut):
        rank_file(settings, world["path"], str(path), human=HUMAN)
    manifest = tmp_path / "cut.jsonl.manifest.json"
    content = json.loads(manifest.read_text())
    assert content["settings"]["human"] == HUMAN.identity() and content["settings"]["reply"] is True
    cut.write_text(whole.read_text().splitlines(keepends=True)[0])
    manifest.write_text(json.dumps(content | {"status": "running"}))
    rank_file(settings, world["path"], str(cut), human=HUMAN)
    kept, again = (list(read_records(path, TurnCandidates)) for path in (whole, cut))
    assert [record.id for record in kept] == [record.id for record in again]
    for one, other in zip(kept, again, strict=True):
        np.testing.assert_allclose(one.judge_scores, other.judge_scores, atol=1e-5)


@pytest.mark.parametrize("trained", [False, True])
def test_each_row_of_a_study_is_what_ranking_gives_with_the_flags_that_it_names(world, tmp_path, trained):
    own = {"model_id": world["critic"], "reference_model_id": world["seed"]} if trained else {"model_id": world["seed"]}
    study = StudySettings(**own, reply=not trained, purification="0.5")
    out = tmp_path / "study.jsonl"
    study_file(study, world["path"], str(out), human=None if trained else HUMAN)
    records = list(read_records(out, TurnCandidates))
    rows = json.loads((tmp_path / "study.jsonl.manifest.json").read_text())["settings"]["rows"]
    assert set(rows) == set(records[0].extra["scores"]) and len(rows) == (18 if trained else 36)
    for name, named in rows.items():
        path = tmp_path / f"{name}.jsonl"
        given = named if named.get("reference") == "sampled" else named | own
        settings = CriticSettings(**({"model_id": own["model_id"]} | given))
        assert flags(settings) == named
        rank_file(settings, world["path"], str(path), human=HUMAN if settings.reply else None)
        for ranked, studied in zip(read_records(path, TurnCandidates), records, strict=True):
            np.testing.assert_allclose(studied.extra["scores"][name], ranked.judge_scores, atol=1e-5)


def test_a_study_computes_no_log_prob_twice_and_forgets_them(world):
    computed = []

    def load(paths, settings):
        scorer = load_scorer(paths[0], False, 4096)
        return [lambda texts: computed.extend(text.key for text in texts) or scorer(texts)]

    scorers = RememberingScorers(load)
    critics = [load_critic(settings, load=scorers) for settings in StudySettings(world["seed"]).critics().values()]
    for critic in critics:
        asyncio.run(critic.scores(world["rows"]))
    assert len(computed) == len(set(computed)) > 0
    scorers.forget()
    asyncio.run(critics[0].scores(world["rows"][:1]))
    assert len(computed) > len(set(computed))


def test_a_study_refuses_what_is_no_number(world):
    with pytest.raises(UserError, match="--purification"):
        StudySettings("mini", purification="much")


def test_the_human_hears_what_was_said_and_not_what_was_thought(world):
    heard = []

    class Hearing:
        async def reply(self, task, dialogue, seed):
            heard.append(dialogue[-1]["content"])
            return HumanReply("?")

    thought = f"<think>\n{ANSWER_MARKER} now?\n</think>\n\nWhy?"
    record = replace(
        world["rows"][0], additional_outputs=["Why?", thought], additional_token_ids=None,
        additional_reference_logprobs=None, additional_finish_reasons=None,
    )  # fmt: skip
    critic = load_critic(CriticSettings(world["seed"], "belief_gain", reply=True), Hearing())
    asyncio.run(critic.scores([record]))
    assert heard == ["Why?", "Why?"]
