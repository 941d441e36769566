"""The rules of a dialogue, what a `Domain` gives to the scripts, the names of `--task_type`, and a user's reward."""

import asyncio
import re

import pytest

from sweet_rl.dialogues import AnswerEnvironment, Domain, Grade, HumanSettings
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.mini.human import MiniHuman
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.models.base import Completion
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

TASK = Task("Sum {max_turns} numbers.", "def f(x): return sum(x)")


def begin(max_turns: int = 3) -> AnswerEnvironment:
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


def test_the_last_message_without_a_marker_is_no_answer():
    environment = begin(max_turns=2)
    environment.step(completion("Which?"))
    assert (environment.ending, environment.answer) == (None, None)
    environment.add_human_reply("All.")
    environment.step(completion("def f(x): return sum(x)"))
    assert (environment.ending, environment.answer, environment.turns) == ("turn_limit", None, 2)


def test_messages_out_of_turn_are_refused():
    environment = begin()
    with pytest.raises(ValueError, match="human replies only"):
        environment.add_human_reply("hello")
    environment.step(completion("I WANT TO ANSWER: x"))
    with pytest.raises(ValueError, match="has ended"):
        environment.step(completion("more"))


def domain(**fields) -> Domain:
    return Domain("mine", **{"reward": lambda task, answer: float(answer)} | fields)


def test_a_prompt_is_a_text_a_packaged_template_or_a_file(tmp_path):
    mine = domain(agent_prompt="Do it: {problem_description}", agent_prompts={"small": "mini_agent.txt"})
    assert mine.agent_template("any") == "Do it: {problem_description}"
    assert mine.agent_template("small") == "{problem_description}"
    (tmp_path / "own.txt").write_text("Own {problem_description}\n")
    assert mine.agent_template("small", str(tmp_path / "own.txt")) == "Own {problem_description}"
    with pytest.raises(UserError, match="no prompt can be read"):
        domain(agent_prompt="nothing").agent_template()


def test_a_domain_without_instructions_for_a_model_names_its_scripted_humans():
    with pytest.raises(UserError, match="client"):
        domain(scripted_humans={"client": object}).human_template()
    assert "{dialogue}" in domain(human_prompt="code_user.txt").human_template()


def test_a_scripted_human_is_made_by_its_name_and_any_other_by_a_model():
    made = []
    mine = domain(human=lambda *given, **settings: made.append((given, settings)), scripted_humans={
        "client": lambda **given: given})  # fmt: skip
    assert mine.make_human("client", renderer="r") == {} and not made
    mine.make_human("llama", "model", "prompt", HumanSettings(max_chars=5))
    assert made == [(("model", "prompt"), {"settings": HumanSettings(max_tokens=256, max_chars=5)})]
    drawn = domain(scripted_humans={"client": lambda **given: given}, draws_pages=True)
    assert drawn.make_human("client", renderer="r") == {"renderer": "r"}


def test_the_mini_agent_its_human_and_its_oracle_can_be_named_in_code():
    code = load_domain("code")
    assert code.agent_template("mini") == "{problem_description}" != code.agent_template("other")
    assert isinstance(code.make_human("mini"), MiniHuman)
    task = Task("p", "g", extra={"mini": {"family": "parking_fee", "rules": [["rate", 0, 2, 0]]}})
    assert code.label_turn(task, [], "What is the rate for each one?") == "useful"
    assert code.label_turn(Task("p", "g"), [], "When do you need it?") is None


OWN = "from sweet_rl.dialogues import Domain\n\nDOMAIN = Domain('mine', reward=lambda task, answer: 1.0)\n"


def test_a_file_is_loaded_with_its_path(tmp_path):
    path = tmp_path / "my_domain.py"
    path.write_text(OWN)
    assert (load_domain(str(path)).name, load_domain(str(path)).source) == ("mine", path)
    path.write_text("DOMAIN = {}\n")
    with pytest.raises(UserError, match=r"must end with DOMAIN = Domain\(...\)"):
        load_domain(str(path))
    with pytest.raises(UserError, match="code, html, mini"):
        load_domain("html5")
    with pytest.raises(UserError, match="needs `reward`"):
        Domain("mine")


def rewards(reward, *answers: str | None, concurrency: int = 2) -> list[Grade]:
    with domain(reward=reward).make_grader(CodeGrading(concurrency=concurrency)) as grader:
        return list(grader.grade_many((TASK, answer) for answer in answers))


def share(task, answer):
    return float(answer)


async def judged(task, answer):
    await asyncio.sleep(0.02 if answer == "0.1" else 0)
    return Grade(float(answer), failure="poor", evidence={"seen": answer})


@pytest.mark.parametrize("reward", [share, judged])
def test_a_reward_is_a_function_also_an_async_one_and_a_missing_answer_earns_nothing(reward):
    grades = rewards(reward, "0.1", "1", None, "0.3")
    assert [grade.reward for grade in grades] == [0.1, 1.0, 0.0, 0.3]
    assert grades[2].failure == "no answer" and grades[0].evidence["grader"].endswith(f"test_domain.{reward.__name__}")
    assert (grades[0].failure == "poor") == (reward is judged)


def test_a_reward_that_must_be_awaited_and_one_out_of_range_are_refused_by_the_task():
    with pytest.raises(TypeError, match=f"{TASK.id} the reward .*async def"):
        rewards(lambda task, answer: judged(task, answer), "1")
    with pytest.raises(UserError, match=f"task {TASK.id}: Grade"):
        rewards(lambda task, answer: 1.5, "1")


def test_an_async_reward_judges_as_many_answers_at_the_same_time_as_is_said():
    now, most = [0], [0]

    async def reward(task, answer):
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.01)
        now[0] -= 1
        return 1.0

    assert len(rewards(reward, *"1" * 12, concurrency=4)) == 12 and most == [4]


@pytest.mark.parametrize("value", [-0.5, 2.0, float("nan"), None, "1.0"])
def test_a_reward_that_is_no_share_is_refused(value):
    with pytest.raises((UserError, TypeError), match=f"reward {'is ' * (value not in (None, '1.0'))}{value!r}"):
        rewards(lambda task, answer: value, "x")


def test_rewards_of_two_contents_of_a_file_have_two_names(tmp_path):
    names = set()
    for number in range(2):
        (tmp_path / "my_domain.py").write_text(f"{OWN}# {number}\n")
        names.add(load_domain(str(tmp_path / "my_domain.py")).make_grader(CodeGrading()).describe())
    assert len(names) == 2 and all(re.search(r"\([0-9a-f]{8}\)$", name) for name in names)
