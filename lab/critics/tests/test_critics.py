"""Critics of the laboratory, through the door, against one plain forward pass per text; and the study of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lab.critics.asked_human import AskedHuman
from lab.critics.belief_gain import BeliefGainCritic
from lab.critics.pmi_belief import PmiBeliefCritic
from lab.critics.study import RememberingScorers, StudySettings, studied_critics, study_file
from sweet_rl.dialogues import ANSWER_MARKER, HumanReply
from sweet_rl.dialogues.mini.human import MiniHuman
from sweet_rl.method.best_of_n import BestCandidate
from sweet_rl.method.critics import CheckedCritic, ChosenCritic
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.method.ranking import rank_file
from sweet_rl.method.sweet_critic import load_scorer
from sweet_rl.models.base import Completion
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates, read_records, seed_for
from tests.support.command_line import write_rows

MINI = {"family": "parking_fee", "rules": [["allowance", 0, 2, 5], ["rate", 0, 4, 5], ["cap", 0, 30, 5]]}
SOLUTION = "def fee(h):\n    return 4 * h"
TASK = Task("a fee: def fee(h)", SOLUTION, {"test1": "fee(1)"}, "t", {"mini": MINI})
TEXTS = ["Is there a maximum?", "Is it urgent?", f"{ANSWER_MARKER}\ndef fee(h): return h", "Is it urgent?"]
REASONS = ["stop", "length", "stop", "length"]
START = "<|bos|><|user|>a fee: def fee(h)<|end|><|assistant|>"
ASKED = {"env_model": "mini", "task_type": "mini"}
LAB = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def world(tmp_path_factory, tiny_chat_model, tiny_critic):
    """A seed model, a critic of other weights, and two turns of one dialogue with candidates as sampled."""
    folder = tmp_path_factory.mktemp("world")
    seed, critic = tiny_chat_model, tiny_critic
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


def chosen(world, critic_type, name="seed", **settings) -> ChosenCritic:
    file = LAB / f"{critic_type}.py"
    return ChosenCritic(str(file) if file.exists() else critic_type, {"model_id": world[name], **settings})


def scores(world, critic_type, name="seed", **settings):
    return asyncio.run(chosen(world, critic_type, name, **settings).load().scores(world["rows"]))


def aggregated(world, critic_type, inner, **settings):
    inside = chosen(world, critic_type, **inner)
    given = {"critic_type": inside.critic_type, "critic_settings": inside.given, **settings}
    return ChosenCritic(str(LAB / "aggregations.py"), given)


def informed(start: str) -> str:
    return start.replace("<|bos|>", "<|bos|>" + hint_text(SOLUTION), 1)


def prompts() -> list[str]:
    return [START, START + "Why?<|end|><|user|>No idea.<|end|><|assistant|>"]


def completion(index: int) -> str:
    return TEXTS[index] + "<|end|>" * (REASONS[index] == "stop")


def test_a_seed_reference_without_c_sees_the_dialogue_alone(world):
    found = scores(world, "log_ratio", "critic", reference="seed_without_c", reference_model_id=world["seed"])
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
    critic = aggregated(world, "purified", {}, clip=size).load()
    found = asyncio.run(critic.scores(world["rows"]))[0][0]
    assert found == pytest.approx(ratios.clip(-size, size).mean(), abs=1e-5) != pytest.approx(ratios.mean(), abs=1e-5)
    critic = aggregated(world, "purified", {}, normalize="top", top_tokens=3).load()
    found = asyncio.run(critic.scores(world["rows"]))[0][0]
    assert found == pytest.approx(ratios[np.argsort(-np.abs(ratios))[:3]].mean(), abs=1e-4)


@pytest.mark.parametrize("asked", [False, True])
def test_belief_gain_is_the_likelihood_of_the_solution_after_the_turn_less_that_before(world, asked):
    plain = world["plain"]
    found = scores(world, "belief_gain", **(ASKED if asked else {}))
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
    """`plain` is one pass per text."""
    replies = ["Not over 30.", "No idea.", "", "I can't say."]
    record = replace(world["rows"][1], extra={"additional_replies": replies})
    critic = chosen(world, "belief_gain", **(ASKED if asked else {})).load()
    (found,) = asyncio.run(critic.scores([record]))
    start, plain = prompts()[1], world["plain"]
    before = plain(start + f"{ANSWER_MARKER}\n", SOLUTION).mean()
    for i in (0, 1, 3):
        heard = f"{start}{TEXTS[i]}<|end|><|user|>{replies[i]}<|end|><|assistant|>{ANSWER_MARKER}\n"
        assert found[i] == pytest.approx(plain(heard, SOLUTION).mean() - before, abs=1e-5)
    assert found[1] != found[3]


@pytest.mark.parametrize("normalize", ["turn", "none"])
def test_pmi_belief_is_the_mean_of_both_and_an_answers_pointwise_information(world, normalize):
    both = scores(world, "pmi_belief", normalize=normalize, **ASKED)
    gains = scores(world, "belief_gain", normalize=normalize, **ASKED)
    informations = scores(world, "pmi", normalize=normalize)
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
    critic = chosen(world, "belief_gain", **ASKED).load()
    record = world["rows"][1]

    async def choose():
        chat = critic.chat
        drawn = [Completion(text, ids, None, reason)
                 for text, ids, reason in zip(TEXTS, record.additional_token_ids, REASONS, strict=True)]  # fmt: skip
        return await BestCandidate(critic)(TASK, record.dialogue, record.input, drawn, chat.fingerprint)

    place = asyncio.run(choose())
    named = replace(record, id="t, turn 1")
    assert place == int(np.argmax(asyncio.run(critic.scores([named]))[0]))


@pytest.mark.parametrize("changes", [
    {"additional_reference_logprobs": [-1.0, -2.0, -1.0, -3.0]},
    {"tokenizer": "another"},
    {"additional_token_ids": None},
])  # fmt: skip
@pytest.mark.parametrize("settings", [{"normalize": "top"}, {"clip": 1.0}])
def test_stored_log_probs_of_other_tokens_cannot_be_compared_token_by_token(world, changes, settings):
    critic = aggregated(world, "log_ratio", {"reference": "sampled"}, **settings).load()
    assert len(asyncio.run(critic.scores(world["rows"]))) == 2
    with pytest.raises(UserError, match="t-0-0.*seed_without_c"):
        asyncio.run(critic.scores([replace(world["rows"][0], **changes)]))


def test_log_probs_that_are_not_there_are_missing_and_not_of_other_tokens(world):
    critic = aggregated(world, "log_ratio", {"reference": "sampled"}, clip=1.0).load()
    with pytest.raises(UserError, match="sampling log-probs"):
        asyncio.run(critic.scores([replace(world["rows"][0], additional_reference_logprobs=None)]))


def test_a_belief_needs_the_messages_and_a_task_and_a_human_who_can_be_asked(world):
    critic = chosen(world, "belief_gain").load()
    for changes in ({"dialogue": None}, {"task": None}, {"additional_outputs": []}):
        with pytest.raises(UserError, match="t-0-0"):
            asyncio.run(critic.scores([replace(world["rows"][0], **changes)]))


def test_a_ranking_with_replies_records_the_human(world, tmp_path):
    out = tmp_path / "ranked.jsonl"
    rank_file(chosen(world, "belief_gain", **ASKED), world["path"], str(out))
    recorded = json.loads((tmp_path / "ranked.jsonl.manifest.json").read_text())["settings"]["critic_settings"]
    assert recorded["human"] == AskedHuman(**ASKED).identity() and recorded["seed"] == 0


@pytest.mark.parametrize("trained", [False, True])
def test_each_row_of_a_study_is_what_ranking_gives_with_the_flags_that_it_names(world, tmp_path, trained):
    own = {"model_id": world["critic"], "reference_model_id": world["seed"]} if trained else {"model_id": world["seed"]}
    out = tmp_path / "study.jsonl"
    asked = AskedHuman() if trained else AskedHuman(**ASKED)
    study_file(StudySettings(**own, purification="0.5"), asked, world["path"], str(out))
    records = list(read_records(out, TurnCandidates))
    rows = json.loads((tmp_path / "study.jsonl.manifest.json").read_text())["settings"]["rows"]
    assert set(rows) == set(records[0].extra["scores"]) and len(rows) == (18 if trained else 36)
    for name, named in rows.items():
        settings = dict(named["critic_settings"])
        inner = settings.get("critic_settings", settings)
        inner |= {"model_id": own["model_id"]} if inner.get("reference") == "sampled" else own
        inner |= ASKED if "reply" in name else {}
        critic = ChosenCritic(named["critic_type"], settings).load()
        for ranked, studied in zip(asyncio.run(critic.scores(world["rows"])), records, strict=True):
            np.testing.assert_allclose(studied.extra["scores"][name], ranked, atol=1e-5)


def test_a_study_computes_no_log_prob_twice_and_forgets_them(world, monkeypatch):
    computed = []

    def load(path, bf16, budget, attention):
        scorer = load_scorer(path, bf16, budget, attention)
        return lambda texts: computed.extend(text.key for text in texts) or scorer(texts)

    monkeypatch.setattr("lab.critics.study.load_scorer", load)
    study = StudySettings(world["seed"])
    scorers = RememberingScorers(study)
    critics = [studied.critic for studied in studied_critics(study, scorers, None).values()]
    for critic in critics:
        asyncio.run(CheckedCritic(critic).scores(world["rows"]))
    assert len(computed) == len(set(computed)) > 0
    scorers.forget()
    asyncio.run(CheckedCritic(critics[-1]).scores(world["rows"][:1]))
    assert len(computed) > len(set(computed))


def test_a_study_refuses_what_is_no_number():
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
    chat = ChatFormat.from_pretrained(world["seed"])
    critic = BeliefGainCritic(chat, load_scorer(world["seed"], False, 4096), Hearing())
    asyncio.run(critic.scores([record]))
    assert heard == ["Why?", "Why?"]
