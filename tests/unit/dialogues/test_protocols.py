"""The general environment and what a `Domain` gives to the scripts."""

import pytest

from sweet_rl.dialogues import AnswerEnvironment, Domain, Environment, FunctionGrader, ScriptedHuman
from sweet_rl.models.base import Completion
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

TASK = Task("Sum {max_turns} numbers.", "def f(x): return sum(x)")


def begin(max_turns: int = 3) -> Environment:
    return AnswerEnvironment(TASK, "At most {max_turns}. {problem_description}", max_turns)


def completion(text: str, reason: str = "stop", ids: list | None = None) -> Completion:
    return Completion(text, ids, None, reason)


def test_the_first_message_is_the_filled_template():
    (opening,) = begin(7).observe()
    assert opening == {"role": "user", "content": "At most 7. Sum {max_turns} numbers."}


def test_a_turn_is_recorded_with_its_prompt_ids_and_reason():
    environment = begin()
    environment.step(completion("Which?", "length", [4, 5]), "the prompt")
    assert environment.dialogue[-1] == {
        "role": "assistant", "content": "Which?", "input": "the prompt", "output": "Which?", "token_ids": [4, 5],
        "finish_reason": "length",
    }  # fmt: skip
    assert (environment.turns, environment.over) == (1, False)


def test_what_is_not_known_is_not_recorded():
    environment = begin()
    environment.step(completion("Which?"))
    assert environment.dialogue[-1].keys() == {"role", "content", "output", "finish_reason"}


def test_of_two_markers_the_first_begins_the_answer():
    environment = begin()
    environment.step(completion("I WANT TO ANSWER: one\nI WANT TO ANSWER: two"))
    assert environment.answer == "one\nI WANT TO ANSWER: two"


def test_the_last_message_without_a_marker_is_no_answer():
    environment = begin(max_turns=2)
    environment.step(completion("Which?"))
    assert (environment.ending, environment.answer) == (None, None)
    environment.add_human_reply("All.")
    environment.step(completion("def f(x): return sum(x)"))
    assert (environment.ending, environment.answer, environment.turns) == ("turn_limit", None, 2)


def test_what_the_agent_sees_is_not_the_dialogue_itself():
    environment = begin()
    environment.observe().append({"role": "user", "content": "more"})
    assert len(environment.dialogue) == 1


def test_messages_out_of_turn_are_refused():
    environment = begin()
    with pytest.raises(ValueError, match="human replies only"):
        environment.add_human_reply("hello")
    environment.step(completion("I WANT TO ANSWER: x"))
    with pytest.raises(ValueError, match="has ended"):
        environment.step(completion("more"))
    with pytest.raises(ValueError, match="human replies only"):
        environment.add_human_reply("hello")


def domain(**fields) -> Domain:
    return Domain("mine", lambda settings: FunctionGrader(lambda task, answer: 1.0), **fields)


def test_a_prompt_is_a_text_a_packaged_template_or_a_file(tmp_path):
    mine = domain(agent_prompt="Do it: {problem_description}", agent_prompts={"small": "mini_agent.txt"})
    assert mine.agent_template("any") == "Do it: {problem_description}"
    assert mine.agent_template("small") == "{problem_description}"
    (tmp_path / "own.txt").write_text("Own {problem_description}\n")
    assert mine.agent_template("small", str(tmp_path / "own.txt")) == "Own {problem_description}"
    with pytest.raises(UserError, match="no prompt can be read"):
        domain(agent_prompt="nothing").agent_template()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"grader": FunctionGrader(lambda task, answer: 1.0)}, "grader=lambda settings: FunctionGrader"),
        ({"scripted_humans": {"client": object}}, r"scripted_humans.*\{'client': ScriptedHuman\(CLASS\)\}"),
        ({"agent_prompt": "Find out where to travel."}, r"agent_prompt.*does not contain \{problem_description\}"),
        ({"agent_prompt": "Travel\n" * 100}, r"agent_prompt.*does not contain \{problem_description\}"),
    ],
)
def test_a_field_of_another_form_is_refused_with_its_name_and_form(fields, named):
    with pytest.raises(UserError, match=named):
        Domain(**{"name": "mine", "grader": lambda settings: FunctionGrader(lambda task, answer: 1.0)} | fields)


def test_the_path_of_a_prompt_may_have_a_space(tmp_path):
    (tmp_path / "my prompt.txt").write_text("Own {problem_description}\n")
    assert domain(agent_prompt=str(tmp_path / "my prompt.txt")).agent_template() == "Own {problem_description}"


def test_a_domain_without_instructions_for_a_model_names_its_scripted_humans():
    with pytest.raises(UserError, match="--env_model client"):
        domain(scripted_humans={"client": ScriptedHuman(object)}).human_template()
    assert "{dialogue}" in domain(human_prompt="code_user.txt").human_template()


def test_a_scripted_human_is_made_by_its_name_and_any_other_by_a_model():
    made = []
    mine = domain(human=lambda *given, **settings: made.append((given, settings)), scripted_humans={
        "client": ScriptedHuman(lambda: "the client")})  # fmt: skip
    assert mine.make_human("client") == "the client" and not made
    mine.make_human("llama", "model", "prompt", max_chars=5)
    assert made == [(("model", "prompt"), {"max_chars": 5})]


def test_only_a_domain_that_draws_pages_gives_its_humans_the_renderer():
    humans = {"looking": ScriptedHuman(lambda **given: given)}
    assert domain(scripted_humans=humans, draws_pages=True).make_human("looking", renderer="r") == {"renderer": "r"}
    assert domain(scripted_humans=humans).make_human("looking", renderer="r") == {}


def test_tasks_are_checked_by_the_domain_and_by_the_scripted_human_that_plays():
    checked = []
    mine = domain(
        check_tasks=lambda tasks, path: checked.append(("domain", path)),
        scripted_humans={"client": ScriptedHuman(object, lambda tasks, path: checked.append(("client", path)))},
    )
    mine.check([TASK], "a", "client")
    mine.check([TASK], "b", "llama")
    mine.check([TASK], "c")
    assert checked == [("domain", "a"), ("client", "a"), ("domain", "b"), ("domain", "c")]


def test_begin_makes_the_environment_of_a_task():
    environment = domain().begin("{problem_description}", 4)(TASK)
    assert (environment.task, environment.max_turns) == (TASK, 4)
