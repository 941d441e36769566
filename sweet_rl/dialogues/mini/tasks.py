"""Mini tasks: vague wishes for small functions with hidden rules, and ten tests that detect each missing rule."""

import random
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.dialogues.mini.worlds import (
    FAMILY_BY_NAME,
    ORDER,
    PLACES,
    QUICK,
    REQUESTS,
    TOPIC_BY_NAME,
    Family,
    World,
)
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import content_id
from sweet_rl.runs.run import check_output, open_run

NUM_TESTS = 10
MAX_QUANTITY = 60
TEST_SEED = 1_000_003  # of the test tasks, so that more training tasks do not change them


@dataclass(frozen=True)
class Rule:
    """One hidden rule: its topic, which of the topic's forms it takes, and its numbers."""

    topic: str
    form: int
    a: int
    b: int

    def line(self, flag: str) -> str:
        """Return the rule as a line of code."""
        return TOPIC_BY_NAME[self.topic].forms[self.form][0].format(a=self.a, b=self.b, flag=flag)

    def sentences(self, flag: str) -> list[str]:
        """Return sentences that state the rule."""
        return self._filled(TOPIC_BY_NAME[self.topic].forms[self.form][1], flag)

    def parts(self, flag: str) -> list[list[str]]:
        """Return sentences that state the rule's first number, and its second; empty for a rule that is told whole."""
        return [self._filled(answers, flag) for answers in TOPIC_BY_NAME[self.topic].parts]

    def _filled(self, answers: tuple[str, ...], flag: str) -> list[str]:
        return [answer.format(a=self.a, b=self.b, flag=flag) for answer in answers]


def draw_rule(topic_name: str, rng: random.Random) -> Rule:
    """Draw a rule's form and numbers."""
    topic = TOPIC_BY_NAME[topic_name]
    return Rule(topic_name, rng.randrange(len(topic.forms)), rng.randint(*topic.a), rng.randint(*topic.b))


def source(family: Family, rules: list[Rule]) -> str:
    """Return the Python source that applies `rules` in the order of their world's topics."""
    lines = [rule.line(family.flag) for rule in sorted(rules, key=lambda rule: ORDER[rule.topic])]
    body = [f"total = {family.quantity}", *lines, "return total"]
    return signature(family) + ":\n" + "\n".join("    " + line for line in body)


def signature(family: Family) -> str:
    """Return the first line of the function, without the colon."""
    return f"def {family.name}({family.quantity}, {family.flag})"


def compiled(code: str, name: str):
    """Return the function `name` of our own generated `code`."""
    space: dict = {}
    exec(code, space)
    return space[name]


def near_misses(rules: list[Rule]) -> list[list[Rule]]:
    """Return the rule sets that the tests must detect: one of `rules` left out or slightly changed."""
    misses = []
    for index, rule in enumerate(rules):
        rest = rules[:index] + rules[index + 1 :]
        misses.append(rest)
        topic = TOPIC_BY_NAME[rule.topic]
        changed = [Rule(rule.topic, form, rule.a, rule.b) for form in range(len(topic.forms)) if form != rule.form]
        changed += [Rule(rule.topic, rule.form, rule.a + step, rule.b) for step in (-2, -1, 1, 2)]
        if "{b}" in topic.forms[rule.form][0]:
            changed += [Rule(rule.topic, rule.form, rule.a, rule.b + step) for step in (-1, 1)]
        misses += [rest + [other] for other in changed if other.a > 0]
    return misses


def choose_tests(family: Family, rules: list[Rule], rng: random.Random) -> list[tuple[int, bool]] | None:
    """Choose ten calls of which at least one gives another result for every near miss.

    A slightly changed number that gives the same result on every call is not a miss.

    Returns:
        (quantity, flag) of each call; None if leaving out a rule changes no result, or if ten calls are too few.
    """
    calls = [(quantity, flag) for quantity in range(MAX_QUANTITY + 1) for flag in (False, True)]
    right = compiled(source(family, rules), family.name)
    expected = {call: right(*call) for call in calls}
    detecting = []
    for miss in near_misses(rules):
        wrong = compiled(source(family, miss), family.name)
        differing = {call for call in calls if wrong(*call) != expected[call]}
        if differing:
            detecting.append(differing)
        elif len(miss) < len(rules):
            return None
    chosen: list[tuple[int, bool]] = []
    while detecting:
        if len(chosen) == NUM_TESTS:
            return None
        counts = {call: sum(call in calls_of for calls_of in detecting) for call in calls}
        best = max(counts.values())
        call = rng.choice([call for call, count in counts.items() if count == best])
        chosen.append(call)
        detecting = [calls_of for calls_of in detecting if call not in calls_of]
    others = [call for call in calls if call not in chosen]
    chosen += rng.sample(others, NUM_TESTS - len(chosen))
    rng.shuffle(chosen)
    return chosen


def describe(family: Family, rules: list[Rule], rng: random.Random, world: World = QUICK) -> dict:
    """Return a task record without tests: the released fields, and under `mini` what the human knows.

    In the hard world `mini` has two fields more: `parts`, the number of parts in which a rule is told, by topic, and
    `mentions`, from a topic to the one that its answer mentions.
    """
    wish = rng.choice(REQUESTS).format(place=rng.choice(PLACES), wish=family.wish)
    mini: dict = {"family": family.name, "rules": [[rule.topic, rule.form, rule.a, rule.b] for rule in rules]}
    if world is not QUICK:
        more = [rule.topic for rule in rules if rule.topic not in family.topics]
        mini["parts"] = {rule.topic: len(parts) for rule in rules if (parts := TOPIC_BY_NAME[rule.topic].parts)}
        mini["mentions"] = dict(zip(rng.sample(family.topics, len(more)), more, strict=True))
    return {
        "problem_description": f"{wish}\n{signature(family)}",
        "ground_truth": source(family, rules),
        "mini": mini,
    }


def draw_rules(family: Family, rng: random.Random, world: World = QUICK) -> list[Rule]:
    """Draw the topics of the rules that are not the family's, and the forms and numbers of all."""
    names = list(family.topics)
    if world.more_rules[1]:
        others = [topic.name for topic in world.topics if topic.forms and topic.name not in (*names, "label")]
        names += rng.sample(others, rng.randint(*world.more_rules))
    return [draw_rule(name, rng) for name in names]


def make_task(rng: random.Random, world: World = QUICK) -> dict:
    """Draw one task with its ten tests."""
    family = rng.choice(world.families)
    calls = None
    while calls is None:
        rules = draw_rules(family, rng, world)
        calls = choose_tests(family, rules, rng)
    tests = {f"test{i}": f"{family.name}({quantity}, {flag})" for i, (quantity, flag) in enumerate(calls, start=1)}
    return {**describe(family, rules, rng, world), "test_cases": tests}


def make_tasks(num_tasks: int, seed: int, exclude: set[str] | None = None, world: World = QUICK) -> list[dict]:
    """Return `num_tasks` distinct tasks, drawn from `seed`; none has a solution that is in `exclude`."""
    rng = random.Random(f"mini tasks {seed}")
    seen = set(exclude or ())
    tasks: list[dict] = []
    while len(tasks) < num_tasks:
        task = make_task(rng, world)
        if task["ground_truth"] not in seen:
            seen.add(task["ground_truth"])
            tasks.append(task)
    return tasks


def family_of(mini: dict) -> Family:
    """Return the family that a task's `mini` field names."""
    return FAMILY_BY_NAME[mini["family"]]


def rules_of(mini: dict) -> list[Rule]:
    """Return the rules that a task's `mini` field holds."""
    return [Rule(*rule) for rule in mini["rules"]]


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """Which tasks are made, and where they are written.

    Attributes:
        output_dir: Folder for train.jsonl and test.jsonl.
        num_train: Number of training tasks.
        num_test: Number of test tasks.
        seed: Random seed of the generator.
        overwrite: Replace outputs of other settings.
    """

    output_dir: str
    num_train: int = 600
    num_test: int = 400
    seed: int = 0
    overwrite: bool = False

    def __post_init__(self) -> None:
        if min(self.num_train, self.num_test) < 1:
            raise UserError(f"--num_train is {self.num_train} and --num_test {self.num_test}; both must be at least 1.")


def write_task_files(files: TaskFiles, world: World) -> None:
    """Write tasks of a world. The test tasks have a seed of their own: more training tasks do not change them."""
    paths = {name: str(Path(files.output_dir) / f"{name}.jsonl") for name in ("test", "train")}
    for path in paths.values():
        check_output(path, files.overwrite)
    test = make_tasks(files.num_test, TEST_SEED + files.seed, world=world)
    train = make_tasks(files.num_train, files.seed, {task["ground_truth"] for task in test}, world)
    for name, tasks in {"test": test, "train": train}.items():
        settings = {"num_tasks": len(tasks), "num_test": files.num_test, "split": name}
        settings |= {"seed": files.seed, "world": world.name}
        with open_run(paths[name], settings, [], files.overwrite) as run:
            if run.finished:
                run.show()
                continue
            run.write_missing({"id": content_id(task), **task} for task in progress_bar(tasks, desc=f"{name} tasks"))
            run.finish({"tasks": len(tasks)})
