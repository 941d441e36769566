"""The estimate of a run's cost is that of dialogues which use all their turns."""

from sweet_rl.dialogues import AnswerEnvironment
from sweet_rl.dialogues.estimate import (
    CHARS_PER_TOKEN,
    TOKENS_PER_MESSAGE,
    TOKENS_PER_PICTURE,
    Cost,
    Lengths,
    estimate,
    most,
    rest_of_dialogue,
)
from sweet_rl.models.base import Completion
from sweet_rl.runs.records import Task

TASK = Task("p" * 400, "c" * 800)
WORD = "w" * CHARS_PER_TOKEN * TOKENS_PER_MESSAGE


def played(turns: int, agent_prompt: str, human_prompt: str) -> dict[str, list[int]]:
    """[calls, tokens read, tokens written] of a dialogue played with messages of that length."""
    environment = AnswerEnvironment(TASK, agent_prompt + "{problem_description}", turns)
    spent = {"agent": [0, 0, 0], "human": [0, 0, 0]}

    def count(side: str, chars: int) -> None:
        for place, number in enumerate((1, chars // CHARS_PER_TOKEN, TOKENS_PER_MESSAGE)):
            spent[side][place] += number

    while not environment.over:
        count("agent", sum(len(message["content"]) for message in environment.observe()))
        environment.step(Completion(WORD, None, None, "stop"))
        if not environment.over:
            said = sum(len(message["content"]) for message in environment.observe()[1:])
            count("human", len(human_prompt + TASK.problem_description + TASK.ground_truth) + said)
            environment.add_human_reply(WORD)
    return spent


def test_the_estimate_is_what_a_dialogue_of_such_messages_takes():
    prompts = {"agent": "a" * 40, "human": "h" * 80}
    for turns in (1, 2, 7):
        expected = {side: Cost(*(3 * number for number in spent)) for side, spent in played(turns, **{
            f"{side}_prompt": text for side, text in prompts.items()}).items()}  # fmt: skip
        assert most([TASK] * 3, turns, prompts) == expected


def test_only_sides_on_servers_count_and_candidates_are_replies_of_one_prompt():
    one, four = (most([TASK], 5, {"agent": ""}, count) for count in (1, 4))
    assert one.keys() == {"agent"} and four["agent"].calls == 4 * one["agent"].calls
    assert four["agent"].prompt_tokens == one["agent"].prompt_tokens


def test_an_answer_is_as_long_as_the_references_are_in_the_mean():
    tasks = [Task("p", "c" * 400), Task("p", "c" * 1200)]
    assert Lengths.of(tasks, draws_pages=False) == Lengths(answer=200)
    # Three turns: two questions of 100 tokens and the answer.
    cost = most(tasks, 3, {"agent": ""}, lengths=Lengths.of(tasks, False))["agent"]
    assert cost.completion_tokens == 2 * (100 + 100 + 200)


def test_every_message_of_a_designer_is_a_page_and_the_client_sees_two_pictures():
    tasks = [Task("", "x" * 4000)]
    lengths = Lengths.of(tasks, draws_pages=True)
    costs = most(tasks, 3, {"agent": "", "human": ""}, lengths=lengths)
    assert costs["agent"] == Cost(3, (0 + 1 + 2) * (1000 + 100), 3 * 1000)
    # Two calls; the second reads two messages of the agent, as text without the page, and one of its own.
    assert costs["human"] == Cost(2, 2 * 2 * TOKENS_PER_PICTURE + 100 + (2 * 100 + 100), 2 * 100)
    assert "a page of 1,000 tokens" in estimate(tasks, 3, {"agent": ""}, draws_pages=True)


def test_stored_messages_cost_nothing_and_those_after_them_read_them():
    task, prompts, lengths = Task("", ""), {"agent": "", "human": ""}, Lengths(answer=500)
    whole = rest_of_dialogue(task, 4, prompts, lengths)
    rest = rest_of_dialogue(task, 4, prompts, lengths, stored=(2, 1))
    assert rest["agent"] == Cost(2, 2 * 200 + 3 * 200, 100 + 500)
    assert rest["human"] == Cost(2, (2 + 1) * 100 + (3 + 2) * 100, 2 * 100)
    assert whole["agent"].calls - rest["agent"].calls == 2 and whole["human"].calls - rest["human"].calls == 1
    assert rest_of_dialogue(task, 4, prompts, lengths, stored=(4, 3)) == {"agent": Cost(), "human": Cost()}
