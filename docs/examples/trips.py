"""A domain of 15 lines: plan a trip for somebody who has not said what they care about."""

from sweet_rl.domains import Domain, FunctionGrader


def reward(task, answer):
    wishes = task.ground_truth.split(", ")
    return sum(wish in answer for wish in wishes) / len(wishes)


DOMAIN = Domain(
    name="trips",
    grader=lambda settings: FunctionGrader(reward),
    agent_prompt="Plan a trip: {problem_description} You have {max_turns} messages. Ask one question in each, and begin "
    "the last with I WANT TO ANSWER: and the plan.",
    human_prompt="You want: {problem_description} You care about: {ground_truth}. Answer the last question.\n{dialogue}",
)
