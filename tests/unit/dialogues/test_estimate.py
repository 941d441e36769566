"""The estimate of a run's cost is that of dialogues which use all their turns."""

from sweet_rl.dialogues import AnswerEnvironment
from sweet_rl.dialogues.estimate import CHARS_PER_TOKEN, TOKENS_PER_MESSAGE, Cost, most
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
