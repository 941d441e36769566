"""What mini tasks are about: everyday functions (families), and the topics of the rules that each of them hides.

A rule acts on one running number, `total`; rules apply in the order of `TOPICS`. A question about a topic that is not
among a task's rules is answered with "I don't know", so a topic is useful for some tasks and useless for others. The
last topics are useless for all of them. The rules of a family always have the same topics; their numbers differ from
task to task. The description names none of the rules: the agent has to learn which question pays.
"""

from __future__ import annotations

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
    parts: tuple[tuple[str, ...], ...] = ()
    noun: str = ""


TOPICS: tuple[Topic, ...] = (
    Topic(
        "allowance",
        ("Do the first few come for free?", "Is there a free allowance at the start?",
         "How many are not counted at all?", "Is some amount left out before counting?"),
        ("free", "allowance", "not counted", "left out", "deduct", "grace"),
        (
            ("total = max(total - {a}, 0)",
             ("Yes, the first {a} are free.", "The first {a} do not count.",
              "We leave out {a} before we start counting.")),
        ),
        noun="free allowance",
    ),
    Topic(
        "rate",
        ("What is the rate for each one?", "How much does a single one count?", "What do we multiply it by?",
         "What is the price of one unit?"),
        ("rate", "each", "multiply", "single", "price", "per", "unit"),
        (
            ("total = total * {a}",
             ("Each one counts {a} times.", "The rate is {a} for each.", "Please multiply it by {a} then.")),
        ),
        a=(2, 12), noun="rate",
    ),
    Topic(
        "base",
        ("Is there a fixed amount added on top?", "Is there a basic charge for everybody?", "What does one start with?",
         "Is a fixed sum always added?"),
        ("fixed", "basic", "base", "start with", "added", "flat", "always"),
        (
            ("total = total + {a}",
             ("Yes, we always add {a} to it.", "Everybody starts with {a} already.", "There is a fixed {a} on top.")),
        ),
        a=(3, 40), noun="fixed amount",
    ),
    Topic(
        "surcharge",
        ("Is there a surcharge for large amounts?", "Does something extra apply above a threshold?",
         "What happens when it gets too high?", "Is there a supplement beyond some limit?"),
        ("surcharge", "supplement", "threshold", "above", "large", "too high", "beyond"),
        (
            ("if total > {a}: total = total + {b}",
             ("Above {a} we add another {b} to it.", "Yes, over {a} there is a supplement of {b} to pay.",
              "When it is more than {a} then {b} comes on top.")),
        ),
        a=(10, 50), b=(3, 30), noun="surcharge",
        parts=(
            ("Above {a} there is a supplement.", "Yes, once it is over {a} something comes on top.",
             "When it is more than {a}, then it gets dearer."),
            ("The supplement is {b}.", "Another {b} comes on top.", "We add {b} in that case."),
        ),
    ),
    Topic(
        "exception",
        ("What changes when the flag is true?", "Does somebody get a special deduction?",
         "Is there an exception for some people?", "What does the second argument do?"),
        ("flag", "exception", "special", "second argument", "discount", "deduction", "true"),
        (
            ("if {flag}: total = total - {a}",
             ("With {flag} set we take {a} off.", "Yes, {flag} means {a} less.",
              "If {flag} holds, subtract {a} from it.")),
            ("if {flag}: total = total * {a}",
             ("With {flag} set it counts {a} times.", "Yes, {flag} means times {a} for us.",
              "If {flag} holds, multiply by {a} again.")),
        ),
        noun="exception",
    ),
    Topic(
        "bonus",
        ("Is there a bonus for every few?", "Does one earn extra ones along the way?",
         "Is something given away with every bundle?", "Do they get a reward now and then?"),
        ("bonus", "earn", "bundle", "given away", "reward", "extra ones"),
        (
            ("total = total + total // {a}",
             ("Yes, one more for every {a} of them.", "For each {a} there is one extra.",
              "Every {a} earn another one.")),
        ),
        noun="bonus",
    ),
    Topic(
        "sharing",
        ("Is the result shared between people?", "Do we split it into equal parts?",
         "How many people divide it among them?", "Is it divided by anything?"),
        ("shared", "share", "split", "divide", "divided", "parts"),
        (
            ("total = total // {a}",
             ("It is split between {a} people.", "Divide it by {a} and drop the rest.", "Yes, {a} of us share it.")),
        ),
        a=(2, 6), noun="sharing",
    ),
    Topic(
        "cutoff",
        ("Are very small results ignored?", "From which size on does it count?",
         "Is there a level below which it is nothing?", "Do tiny amounts drop out?"),
        ("small", "ignored", "below which", "tiny", "size", "drop out"),
        (
            ("if total < {a}: total = 0",
             ("Below {a} it counts as nothing.", "Anything under {a} is ignored.", "It only counts from {a} on.")),
        ),
        a=(8, 40), noun="smallest size",
    ),
    Topic(
        "minimum",
        ("Is there a minimum?", "What is the least it can be?", "Can the result get lower than some floor?",
         "Is there a lowest value that we never go under?"),
        ("minimum", "least", "floor", "lower", "lowest"),
        (
            ("total = max(total, {a})",
             ("It is never less than {a} in the end.", "The minimum is {a} here.", "Yes, at least {a} in any case.")),
        ),
        a=(8, 50), noun="minimum",
    ),
    Topic(
        "cap",
        ("Is there a maximum?", "What is the most it can be?", "Is the result capped anywhere?",
         "Is there a highest value that we never exceed?"),
        ("maximum", "most", "cap", "capped", "highest", "exceed", "ceiling", "upper"),
        (
            ("total = min(total, {a})",
             ("It never goes over {a} in the end.", "The maximum is {a} here.", "Yes, {a} is the most.")),
        ),
        a=(15, 60), noun="maximum",
    ),
    Topic(
        "rounding",
        ("How should the result be rounded?", "Is it rounded in some way?", "Do you need full steps of some number?",
         "Should it come out as a multiple of something?"),
        ("round", "rounded", "rounding", "multiple", "steps"),
        (
            ("total = total // {a} * {a}",
             ("Round it down to a multiple of {a} please.", "Down to full steps of {a} always.",
              "We round down to the next {a} each time.")),
            ("total = -(-total // {a}) * {a}",
             ("Round it up to a multiple of {a} please.", "Up to full steps of {a} always.",
              "We round up to the next {a} each time.")),
        ),
        a=(3, 12), noun="rounding",
    ),
    Topic(
        "cycle",
        ("Does it start over after a while?", "After how many does the cycle repeat?", "Does the counting wrap around?",
         "When do we begin again from zero?"),
        ("start over", "cycle", "repeat", "wrap", "begin again", "rotation"),
        (
            ("total = total % {a}",
             ("It starts over after {a} of them.", "The cycle has {a} steps.", "After {a} we begin again.")),
        ),
        a=(3, 30), noun="cycle",
    ),
    Topic(
        "label",
        ("Which results count as good?", "From which value on is it high?", "Where is the line between high and low?",
         "What do I need for the better grade?"),
        ("good", "high", "line between", "grade", "low", "pass", "better"),
        (
            ("total = 'high' if total >= {a} else 'low'",
             ("From {a} on it is high, otherwise low.", "It is high with {a} or more, else low.",
              "You need {a} for high, the rest is low.")),
        ),
        a=(15, 60), noun="better grade",
    ),
    Topic(
        "deadline",
        ("When do you need it?", "Is there a deadline for this work?", "How soon should I finish?", "Is it urgent?"),
        ("when do you", "deadline", "soon", "urgent"),
    ),
    Topic(
        "users",
        ("Who is going to use it?", "How many users will there be?", "Is it for your team only?",
         "Who reads the output?"),
        ("who", "users", "team", "reads"),
    ),
    Topic(
        "style",
        ("Do you like short variable names?", "Should I write many comments?", "Which style guide do you follow?",
         "Do you want type hints?"),
        ("variable", "comments", "style", "type hints"),
    ),
    Topic(
        "speed",
        ("Does it have to be fast?", "How often will it be called?", "Is memory a problem on your side?",
         "Which Python version do you have?"),
        ("fast", "often", "memory", "version", "python"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """One kind of function: its name, its two arguments, how a client asks for it, the hidden topics."""

    name: str
    quantity: str
    flag: str
    wish: str
    topics: tuple[str, ...]


FAMILIES: tuple[Family, ...] = (
    Family("parking_fee", "hours", "resident", "the fee for parking a car", ("allowance", "rate", "cap")),
    Family(
        "library_fine", "days", "child", "the fine for a book brought back late", ("allowance", "rate", "exception")
    ),
    Family("delivery_fee", "distance", "member", "the price of a delivery", ("rate", "base", "exception")),
    Family("taxi_fare", "distance", "night", "the fare of a taxi ride", ("rate", "base", "minimum")),
    Family("exam_grade", "points", "retake", "the grade of an exam", ("bonus", "exception", "label")),
    Family("loyalty_points", "amount", "gold", "the points of a shopper", ("rate", "bonus", "cap")),
    Family("water_bill", "usage", "senior", "the water bill of a house", ("rate", "surcharge", "minimum")),
    Family(
        "overtime_pay", "hours", "sunday", "the pay for extra hours", ("allowance", "rate", "exception", "rounding")
    ),
    Family("kitchen_rota", "week", "holiday", "whose turn it is in the kitchen", ("base", "sharing", "cycle")),
    Family("cleaning_rota", "day", "odd", "who has to clean today", ("exception", "sharing", "cycle")),
    Family("data_quota", "devices", "premium", "the data quota of an account", ("rate", "base", "cap")),
    Family("room_quota", "guests", "family", "how many rooms a group gets", ("base", "sharing", "minimum")),
    Family("shipping_cost", "weight", "express", "the cost of sending a parcel", ("base", "surcharge", "rounding")),
    Family("gym_fee", "visits", "student", "the monthly fee of a gym", ("allowance", "base", "cap")),
    Family("tool_rental", "days", "regular", "the price of renting a tool", ("rate", "minimum", "rounding")),
    Family("ticket_price", "seats", "matinee", "the price of some tickets", ("rate", "exception", "bonus")),
    Family("tip_share", "amount", "trainee", "the tips that each waiter gets", ("cutoff", "sharing", "exception")),
    Family("power_bill", "usage", "green", "the power bill of a flat", ("allowance", "surcharge", "rounding")),
    Family("credit_check", "income", "owner", "if a customer gets credit", ("sharing", "base", "label")),
    Family("plant_watering", "days", "summer", "the water that a plant needs", ("rate", "cutoff", "cap")),
    Family("bus_schedule", "minute", "weekend", "the place of a bus in its round", ("base", "rounding", "cycle")),
    Family("bonus_pay", "sales", "manager", "the yearly bonus of a seller", ("cutoff", "bonus", "cap")),
    Family("scout_badge", "tasks", "leader", "the badge that a scout has earned", ("allowance", "bonus", "label")),
    Family("cake_recipe", "guests", "vegan", "the flour for a cake", ("rate", "surcharge", "rounding")),
    Family("garden_plots", "area", "corner", "how many plots fit in a garden", ("allowance", "sharing", "cap")),
    Family("refund_sum", "amount", "damaged", "the refund for an order", ("cutoff", "exception", "minimum")),
    Family("team_score", "goals", "home", "the score of a team", ("rate", "bonus", "cutoff")),
    Family("locker_number", "key", "upper", "the locker that belongs to a key", ("rate", "base", "cycle")),
    Family(
        "donation_match", "amount", "charity", "what the firm adds to a gift", ("cutoff", "rate", "cap", "rounding")
    ),
    Family("leave_days", "years", "parent", "the days off of a worker", ("base", "bonus", "exception")),
    Family("fuel_budget", "trips", "trailer", "the fuel money for a van", ("surcharge", "exception", "cap")),
    Family("quality_check", "errors", "prototype", "if a part passes the check", ("allowance", "rate", "label")),
)

PLACES: tuple[str, ...] = (
    "our shop", "our club", "our school", "the office", "our town", "a friend", "my boss", "the team",
    "our website", "the village", "my family", "our course", "the museum", "our company", "the project",
    "a customer",
)  # fmt: skip

REQUESTS: tuple[str, ...] = (
    "I need a Python function for {place} that tells {wish}.",
    "Please write a function for {place}: {wish}.",
    "Can you help me with code for {place}? It should give {wish}.",
    "We want to compute {wish} for {place}.",
)
