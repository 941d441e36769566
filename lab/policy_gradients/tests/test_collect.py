"""Dialogues with the log-probs of sampling: one for each token, and of the policy itself."""

from __future__ import annotations

import pytest

from lab.policy_gradients.collect import check_on_policy, recorded
from sweet_rl.dialogues import ANSWER_MARKER, Domain
from sweet_rl.models.base import Completion, Sampling
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

DOMAIN = Domain("own", reward=lambda task, answer: 1.0)


def begun(domain: Domain):
    return domain.begin(domain.agent_template(), max_turns=3)(Task("a holiday", "sea"))


def test_each_message_of_the_agent_has_a_log_prob_for_each_of_its_tokens():
    environment, plain = begun(recorded(DOMAIN)), begun(DOMAIN)
    for text in ("Where?", f"{ANSWER_MARKER} sea"):
        completion = Completion(text, [1, 2], [-0.1234567, -2.0], "stop")
        for one in (environment, plain):
            one.step(completion, "prompt")
            if not one.over:
                one.add_human_reply("By the sea.")
    assert (environment.ending, environment.answer, environment.turns) == ("answered", "sea", 2)
    assert [message.pop("logprobs") for message in environment.dialogue[1::2]] == [[-0.123457, -2.0]] * 2
    assert environment.dialogue == plain.dialogue


def test_log_probs_that_the_server_does_not_report_end_the_run_with_a_message():
    with pytest.raises(UserError, match="log-probs"):
        begun(recorded(DOMAIN)).step(Completion("Where?", None, None, "stop"))


@pytest.mark.parametrize(("sampling", "prefix", "flag"), [
    (Sampling(temperature=0.7), None, "--temperature"), (Sampling(top_p=0.9), None, "--top_p"),
    (Sampling(), "I", "--agent_prefix"),
])  # fmt: skip
def test_another_distribution_than_the_policys_is_refused(sampling, prefix, flag):
    with pytest.raises(UserError, match=flag):
        check_on_policy(sampling, prefix)
    check_on_policy(Sampling(), None)
