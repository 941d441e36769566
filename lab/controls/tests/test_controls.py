"""The agent of the distillation sees the solution where the critic does, and its dialogues show none of it."""

from __future__ import annotations

from lab.controls.informed import DOMAIN, PRIVILEGED_TEMPLATE, agent, forgetful
from sweet_rl.method.privileged_information import with_hint
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import Task, Trajectory

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
