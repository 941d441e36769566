"""For any nested value that Python's literals can write, comparison agrees with `==`: here and through the sandbox."""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task
from sweet_rl.sandbox.encode import encode
from sweet_rl.sandbox.values import decode, same

# Floats that the tolerance cannot confuse: halves up to 2**20, and the infinities.
halves = st.integers(-(2**21), 2**21).map(lambda n: n / 2) | st.sampled_from([float("inf"), float("-inf"), -0.0])
numbers = st.booleans() | st.integers(-3, 3) | st.integers() | halves
leaves = st.none() | numbers | st.text(st.characters(exclude_categories=())) | st.binary()
keys = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=5
)
literals = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(keys, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


def relative(value, generator: random.Random):
    """The value again, at some places as an equal one of another type or order, at some as a different one."""
    turn = lambda part: relative(part, generator)  # noqa: E731
    chance = generator.random()
    if chance < 0.04:
        return generator.choice([None, 0, 1, True, 1.0, "", "a", b"a", [], (), {}, set(), 0.5, [value], (value,)])
    if isinstance(value, bool | int | float) and chance < 0.3:
        return generator.choice([value, value + 0, float(value) if abs(value) < 2**40 else value, value != 0, -value])
    if isinstance(value, list | tuple):
        parts = [turn(part) for part in value]
        if parts and chance < 0.1:
            parts.pop(generator.randrange(len(parts)))
        if chance < 0.15:
            generator.shuffle(parts)
        return (list if chance > 0.95 else type(value))(parts)
    if isinstance(value, dict):
        pairs = [(key, turn(part)) for key, part in value.items()]
        generator.shuffle(pairs)
        return dict(pairs[: len(pairs) - (chance < 0.1)])
    if isinstance(value, set | frozenset):
        parts = list(value)
        generator.shuffle(parts)
        return generator.choice([set, frozenset])(parts[: len(parts) - (chance < 0.1)])
    return value


@st.composite
def pairs(draw):
    value = draw(literals)
    if draw(st.integers(0, 9)) == 0:
        return value, draw(literals)
    return value, relative(value, random.Random(draw(st.integers(0, 2**32))))


def arrived(value):
    return decode(encode(value).encode())


@settings(max_examples=200, deadline=None)
@given(pairs())
def test_comparison_agrees_with_python_s_own(pair):
    a, b = pair
    assert same(arrived(a), arrived(b)) == (a == b)
    assert same(arrived(b), arrived(a)) == (a == b)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(pairs(), min_size=12, max_size=24))
def test_it_agrees_through_the_sandbox_too(some):
    some = [pair for pair in some if "inf" not in repr(pair) and "nan" not in repr(pair)]  # repr writes them as names
    jobs = [(Task("", f"def f():\n    return {a!r}", {"t": "f()"}), f"def f():\n    return {b!r}") for a, b in some]
    with CodeGrader(workers=1) as grader:
        rewards = [graded.reward for graded in grader.grade_many(jobs)]
    assert rewards == [float(a == b) for a, b in some]
