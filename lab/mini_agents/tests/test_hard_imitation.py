"""Imitated dialogues of the hard world: invented rules, openings and second questions."""

import random
from itertools import islice

from lab.mini_agents.imitation import HABITS, Habits, imitation_dialogue, imitation_stream
from sweet_rl.dialogues.mini.tasks import describe, draw_rules
from sweet_rl.dialogues.mini.worlds import HARD


def test_an_informed_agent_answers_with_the_solution_and_one_that_answers_early_may_make_rules_up():
    rng = random.Random(3)
    always_early = Habits(useful=1.0, repeat=0.0, early=1.0, finish=1.0, last=1.0, invents=1.0)
    solved = invented = 0
    for _ in range(100):
        family = rng.choice(HARD.families)
        task = describe(family, draw_rules(family, rng, HARD), rng, HARD)
        informed = imitation_dialogue(task, True, rng)
        solved += informed[-1]["content"] == f"I WANT TO ANSWER:\n{task['ground_truth']}"
        code = imitation_dialogue(task, False, rng, always_early)[-1]["content"]
        invented += len(code.splitlines()) >= 3 + len(family.topics) + 1
    assert solved > 90 and invented == 100


def test_openings_and_second_questions_do_not_depend_on_the_solution():
    own, informed = HABITS["hard"]["bad"], HABITS["hard"]["informed"]
    assert (own.opens, own.doubles) == (informed.opens, informed.doubles)
    shares = {True: [], False: []}
    for hint, messages in islice(imitation_stream(1, world=HARD), 400):
        for message in messages[3:]:
            if message["role"] == "assistant" and not message["content"].startswith("I WANT"):
                shares[bool(hint)].append(message["content"].startswith(HARD.openings))
    for found in shares.values():
        assert abs(sum(found) / len(found) - own.opens) < 0.06
