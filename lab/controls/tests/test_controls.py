"""Orders in place of the critic's; what the agent of the distillation sees, and what its dialogues show."""

from __future__ import annotations

import pytest

from lab.controls.chance import Chance, ChanceSettings
from lab.controls.informed import DOMAIN, PRIVILEGED_TEMPLATE, agent, forgetful
from lab.controls.oracle import Oracle, OracleSettings
from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.dialogues.mini.worlds import QUICK
from sweet_rl.method.privileged_information import with_hint
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory, TurnCandidates

TASK = Task("A fee.\ndef fee(x)", "def fee(x):\n    return 2 * x", {"one": "fee(2)"}, id="t")


def test_the_prompt_is_that_of_the_critic(tmp_path):
    agent("mini", str(tmp_path / "informed"))
    informed, plain = ChatFormat.from_pretrained(tmp_path / "informed"), ChatFormat.from_pretrained("mini")
    assert informed.tokenizer.chat_template == PRIVILEGED_TEMPLATE
    environment = DOMAIN.begin("{problem_description}", 7)(TASK)
    seen, said = informed.prompt(environment.observe()), plain.prompt(environment.dialogue)
    critic = with_hint(said, TASK.ground_truth)
    assert informed.encode(seen)[0] == plain.encode(critic)[0]
    assert informed.prompt(environment.dialogue) == said, "without the solution nothing is changed"


def test_dialogues_lose_prompts_and_tokens_and_keep_their_words():
    turn = {
        "role": "assistant",
        "content": "Which x?",
        "input": TASK.ground_truth,
        "output": "Which x?",
        "token_ids": [1],
    }
    dialogue = [{"role": "user", "content": "A fee."}, turn, {"role": "user", "content": "Any."}]
    parts = [{"text": TASK.ground_truth, "train": False}]
    found = forgetful(Trajectory(TASK, dialogue, "a", 1.0, id="t-0", parts=parts, tokenizer="abc")).to_dict()
    del found["task"]
    assert TASK.ground_truth not in str(found) and "parts" not in found and "tokenizer" not in found
    assert [one["content"] for one in found["dialogue_history"]] == ["A fee.", "Which x?", "Any."]
    assert found["reward"] == 1.0 and found["id"] == "t-0"


def test_chance_gives_equal_texts_one_score_and_depends_on_the_seed():
    record = TurnCandidates("prompt", "old", ["a", "b", "a"], id="t-0")
    one, other = (Chance(ChanceSettings(seed)).scores([record])[0] for seed in (0, 1))
    assert one[0] == one[2] != one[1] and one != other
    assert one == Chance(ChanceSettings(0)).scores([record])[0]


def test_the_oracle_puts_a_right_answer_over_a_useful_question_over_another_one_over_a_wrong_answer():
    task = Task.from_dict(make_tasks(1, seed=3)[0])
    asked = {topic.name: topic.questions[0] for topic in QUICK.topics}
    hidden = [rule[0] for rule in task.extra["mini"]["rules"]]
    other = next(name for name in asked if name not in hidden)
    texts = [f"I WANT TO ANSWER:\n{task.ground_truth}", *(asked[name] for name in (hidden[0], other, hidden[1]))]
    texts.append("I WANT TO ANSWER:\ndef wrong():\n    pass")
    told = [{"text": "wish", "train": False}, {"text": asked[hidden[1]], "train": True}]
    record = TurnCandidates(told, "old", texts, id="t-0", task=task, turn=1)
    with pytest.raises(UserError, match="grade_candidates"):
        Oracle(OracleSettings()).scores([record])
    record.answer_rewards = [1.0, None, None, None, 0.0]
    assert Oracle(OracleSettings()).scores([record]) == [[4, 2, 1, 1, 0]]  # the last question was asked before
    del task.extra["mini"]
    with pytest.raises(UserError, match="hidden rules"):
        Oracle(OracleSettings()).scores([record])
