"""What a hidden rule of a mini task can be about: how it is asked for, told, and written in code.

Every rule acts on one running number, `total`, in the order of `TOPICS`. A question that fits no rule
of a task is answered with "I don't know", so a topic is useful for some tasks and useless for others;
the last topics are useless for all of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """One thing to ask about.

    `questions` are phrasings of the same question. `forms` are the ways the rule can be written, each
    a pair of code line and answers; `{a}` and `{b}` are the rule's numbers, `{flag}` the function's
    second argument. A topic without forms is never part of a task.
    """

    name: str
    questions: tuple[str, ...]
    keywords: tuple[str, ...]
    forms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    a: tuple[int, int] = (2, 9)
    b: tuple[int, int] = (2, 9)


TOPICS: tuple[Topic, ...] = (
    Topic(
        "allowance",
        (
            "Do the first few come for free?",
            "Is there a free allowance at the start?",
            "How many are not counted at all?",
            "Is some amount left out before counting?",
        ),
        ("free", "allowance", "not counted", "left out", "deduct", "grace"),
        (
            (
                "total = max(total - {a}, 0)",
                (
                    "Yes, the first {a} are free.",
                    "The first {a} do not count.",
                    "We leave out {a} before we start counting.",
                ),
            ),
        ),
        a=(2, 9),
    ),
    Topic(
        "rate",
        (
            "What is the rate for each one?",
            "How much does a single one count?",
            "What do we multiply it by?",
            "What is the price of one unit?",
        ),
        ("rate", "each", "multiply", "single", "price", "per", "unit"),
        (
            (
                "total = total * {a}",
                ("Each one counts {a} times.", "The rate is {a} for each.", "Please multiply it by {a} then."),
            ),
        ),
        a=(2, 12),
    ),
    Topic(
        "base",
        (
            "Is there a fixed amount added on top?",
            "Is there a basic charge for everybody?",
            "What does one start with?",
            "Is a fixed sum always added?",
        ),
        ("fixed", "basic", "base", "start with", "added", "flat", "always"),
        (
            (
                "total = total + {a}",
                (
                    "Yes, we always add {a} to it.",
                    "Everybody starts with {a} already.",
                    "There is a fixed {a} on top.",
                ),
            ),
        ),
        a=(3, 40),
    ),
    Topic(
        "surcharge",
        (
            "Is there a surcharge for large amounts?",
            "Does something extra apply above a threshold?",
            "What happens when it gets too high?",
            "Is there a supplement beyond some limit?",
        ),
        ("surcharge", "supplement", "threshold", "above", "large", "too high", "beyond"),
        (
            (
                "if total > {a}: total = total + {b}",
                (
                    "Above {a} we add another {b} to it.",
                    "Yes, over {a} there is a supplement of {b} to pay.",
                    "When it is more than {a} then {b} comes on top.",
                ),
            ),
        ),
        a=(10, 50),
        b=(3, 30),
    ),
    Topic(
        "exception",
        (
            "What changes when the flag is true?",
            "Does somebody get a special deduction?",
            "Is there an exception for some people?",
            "What does the second argument do?",
        ),
        ("flag", "exception", "special", "second argument", "discount", "deduction", "true"),
        (
            (
                "if {flag}: total = total - {a}",
                (
                    "With {flag} set we take {a} off.",
                    "Yes, {flag} means {a} less.",
                    "If {flag} holds, subtract {a} from it.",
                ),
            ),
            (
                "if {flag}: total = total * {a}",
                (
                    "With {flag} set it counts {a} times.",
                    "Yes, {flag} means times {a} for us.",
                    "If {flag} holds, multiply by {a} again.",
                ),
            ),
        ),
        a=(2, 9),
    ),
    Topic(
        "bonus",
        (
            "Is there a bonus for every few?",
            "Does one earn extra ones along the way?",
            "Is something given away with every bundle?",
            "Do they get a reward now and then?",
        ),
        ("bonus", "earn", "bundle", "given away", "reward", "extra ones"),
        (
            (
                "total = total + total // {a}",
                (
                    "Yes, one more for every {a} of them.",
                    "For each {a} there is one extra.",
                    "Every {a} earn another one.",
                ),
            ),
        ),
        a=(2, 9),
    ),
    Topic(
        "sharing",
        (
            "Is the result shared between people?",
            "Do we split it into equal parts?",
            "How many people divide it among them?",
            "Is it divided by anything?",
        ),
        ("shared", "share", "split", "divide", "divided", "parts"),
        (
            (
                "total = total // {a}",
                (
                    "It is split between {a} people.",
                    "Divide it by {a} and drop the rest.",
                    "Yes, {a} of us share it.",
                ),
            ),
        ),
        a=(2, 6),
    ),
    Topic(
        "cutoff",
        (
            "Are very small results ignored?",
            "From which size on does it count?",
            "Is there a level below which it is nothing?",
            "Do tiny amounts drop out?",
        ),
        ("small", "ignored", "below which", "tiny", "size", "drop out"),
        (
            (
                "if total < {a}: total = 0",
                ("Below {a} it counts as nothing.", "Anything under {a} is ignored.", "It only counts from {a} on."),
            ),
        ),
        a=(8, 40),
    ),
    Topic(
        "minimum",
        (
            "Is there a minimum?",
            "What is the least it can be?",
            "Can the result get lower than some floor?",
            "Is there a lowest value that we never go under?",
        ),
        ("minimum", "least", "floor", "lower", "lowest"),
        (
            (
                "total = max(total, {a})",
                ("It is never less than {a} in the end.", "The minimum is {a} here.", "Yes, at least {a} in any case."),
            ),
        ),
        a=(8, 50),
    ),
    Topic(
        "cap",
        (
            "Is there a maximum?",
            "What is the most it can be?",
            "Is the result capped anywhere?",
            "Is there a highest value that we never exceed?",
        ),
        ("maximum", "most", "cap", "capped", "highest", "exceed", "ceiling", "upper"),
        (
            (
                "total = min(total, {a})",
                ("It never goes over {a} in the end.", "The maximum is {a} here.", "Yes, {a} is the most."),
            ),
        ),
        a=(15, 60),
    ),
    Topic(
        "rounding",
        (
            "How should the result be rounded?",
            "Is it rounded in some way?",
            "Do you need full steps of some number?",
            "Should it come out as a multiple of something?",
        ),
        ("round", "rounded", "rounding", "multiple", "steps"),
        (
            (
                "total = total // {a} * {a}",
                (
                    "Round it down to a multiple of {a} please.",
                    "Down to full steps of {a} always.",
                    "We round down to the next {a} each time.",
                ),
            ),
            (
                "total = -(-total // {a}) * {a}",
                (
                    "Round it up to a multiple of {a} please.",
                    "Up to full steps of {a} always.",
                    "We round up to the next {a} each time.",
                ),
            ),
        ),
        a=(3, 12),
    ),
    Topic(
        "cycle",
        (
            "Does it start over after a while?",
            "After how many does the cycle repeat?",
            "Does the counting wrap around?",
            "When do we begin again from zero?",
        ),
        ("start over", "cycle", "repeat", "wrap", "begin again", "rotation"),
        (
            (
                "total = total % {a}",
                ("It starts over after {a} of them.", "The cycle has {a} steps.", "After {a} we begin again."),
            ),
        ),
        a=(3, 30),
    ),
    Topic(
        "label",
        (
            "Which results count as good?",
            "From which value on is it high?",
            "Where is the line between high and low?",
            "What do I need for the better grade?",
        ),
        ("good", "high", "line between", "grade", "low", "pass", "better"),
        (
            (
                "total = 'high' if total >= {a} else 'low'",
                (
                    "From {a} on it is high, otherwise low.",
                    "It is high with {a} or more, else low.",
                    "You need {a} for high, the rest is low.",
                ),
            ),
        ),
        a=(15, 60),
    ),
    Topic(
        "deadline",
        ("When do you need it?", "Is there a deadline for this work?", "How soon should I finish?", "Is it urgent?"),
        ("when do you", "deadline", "soon", "urgent"),
    ),
    Topic(
        "users",
        (
            "Who is going to use it?",
            "How many users will there be?",
            "Is it for your team only?",
            "Who reads the output?",
        ),
        ("who", "users", "team", "reads"),
    ),
    Topic(
        "style",
        (
            "Do you like short variable names?",
            "Should I write many comments?",
            "Which style guide do you follow?",
            "Do you want type hints?",
        ),
        ("variable", "comments", "style", "type hints"),
    ),
    Topic(
        "speed",
        (
            "Does it have to be fast?",
            "How often will it be called?",
            "Is memory a problem on your side?",
            "Which Python version do you have?",
        ),
        ("fast", "often", "memory", "version", "python"),
    ),
)

BY_NAME = {topic.name: topic for topic in TOPICS}
