"""The two worlds of mini tasks: what there is to ask about, and which functions are wished for.

quick: three or four rules a task, the same topics for all tasks of a family. An agent that learns the families has
learned the world.

hard: four or five rules a task. Three topics belong to the family; one or two more differ from task to task, and only
the answer to a question about another rule mentions them. A rule with two numbers is told in two parts, each to a
question of its own. Agents talk before they ask, ask two questions at once, of which the human answers the first, and
make up rules in answers that they give too early. How hard it is was set by an untrained agent and rejection
fine-tuning alone (docs/results.md), before a critic was trained in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.dialogues.mini.topics import FAMILIES, TOPICS, Family, Topic


@dataclass(frozen=True)
class World:
    """Topics in the order in which their rules apply, and families.

    Attributes:
        name: Name for `make_mini_tasks.py --world`.
        topics: Topics that can be asked about; those without forms are useless in every task.
        families: Kinds of functions.
        more_rules: Fewest and most rules of a task beside those of its family.
        openings: Sentences that an agent says before a question.
    """

    name: str
    topics: tuple[Topic, ...]
    families: tuple[Family, ...]
    more_rules: tuple[int, int] = (0, 0)
    openings: tuple[str, ...] = ()


QUICK = World("quick", TOPICS, FAMILIES)

MORE_TOPICS = {  # by the topic after which their rules apply
    "base": (
        Topic(
            "penalty",
            ("Do the others pay more?", "Is there a penalty without the flag?", "What if the flag is not set?",
             "Does anything change for everybody else?"),
            ("penalty", "others", "not set", "everybody else", "without"),
            (
                ("if not {flag}: total = total + {a}",
                 ("Without {flag} it is {a} more.", "Yes, those who are not {flag} get {a} on top.",
                  "If {flag} does not hold, add {a} to it.")),
            ),
            a=(3, 20), noun="penalty",
        ),
    ),
    "surcharge": (
        Topic(
            "volume",
            ("Is there a volume reduction?", "Do big orders get something off?", "Is it cheaper from some quantity on?",
             "Is there a rebate for a lot of them?"),
            ("volume", "reduction", "big orders", "cheaper", "rebate", "a lot"),
            (
                ("if total >= {a}: total = total - {b}",
                 ("From {a} on we take {b} off.", "Yes, with {a} or more it is {b} less.",
                  "Once it reaches {a}, subtract {b} again.")),
            ),
            a=(15, 50), b=(3, 12), noun="volume rebate",
            parts=(
                ("From {a} on there is a rebate.", "Yes, with {a} or more it gets cheaper.",
                 "Once it reaches {a}, something comes off."),
                ("The rebate is {b}.", "It is {b} less then.", "We subtract {b} in that case."),
            ),
        ),
        Topic(
            "doubling",
            ("Does anything count double?", "Is there a limit from which on it doubles?",
             "Are some amounts counted twice?",
             "When do we count it two times?"),
            ("double", "doubles", "twice", "two times"),
            (
                ("if total > {a}: total = total * 2",
                 ("Beyond {a} it counts double.", "Yes, over {a} we take it twice.",
                  "It doubles when it is more than {a}.")),
            ),
            a=(10, 45), noun="doubling",
        ),
    ),
    "exception": (
        Topic(
            "tax",
            ("Is there a tax on it?", "How many per cent of tax are there?", "Do I have to add a percentage?",
             "Which tax applies to it?"),
            ("tax", "per cent", "percentage"),
            (
                ("total = total + total * {a} // 100",
                 ("The tax is {a} per cent.", "Yes, add {a} per cent to it.", "There are {a} per cent of tax.")),
            ),
            a=(10, 60), noun="tax",
        ),
        Topic(
            "deposit",
            ("Was a deposit paid already?", "Is a voucher taken into account?", "Has some part been paid before?",
             "Do I subtract a payment in advance?"),
            ("deposit", "voucher", "paid", "advance", "payment"),
            (
                ("total = total - {a}",
                 ("A deposit of {a} is taken off.", "Yes, {a} were paid before.",
                  "Please subtract {a} for the voucher.")),
            ),
            noun="deposit",
        ),
    ),
    "bonus": (
        Topic(
            "odd",
            ("Do odd numbers matter?", "Is there a difference between even and odd?", "What if it cannot be halved?",
             "Are uneven amounts treated in their own way?"),
            ("odd", "even", "halved", "uneven"),
            (
                ("if total % 2: total = total + {a}",
                 ("Odd ones get {a} more.", "Yes, when it is odd we add {a} then.",
                  "If it cannot be halved, add {a} more.")),
            ),
            noun="odd numbers",
        ),
    ),
    "rounding": (
        Topic(
            "packs",
            ("Do they come in packs?", "How many fit in one box?", "Do I return the number of packs?",
             "Is it filled into boxes of some size?"),
            ("packs", "box", "boxes", "filled"),
            (
                ("total = -(-total // {a})",
                 ("They come in packs of {a} each.", "There are {a} in a box.",
                  "Yes, tell the boxes of {a} that we need.")),
            ),
            a=(2, 6), noun="packs",
        ),
    ),
    "speed": (
        Topic(
            "money",
            ("Which currency do you use?", "What does the work cost me?", "Who pays for the computer?",
             "Is there a budget for it?"),
            ("currency", "budget", "cost me", "computer"),
        ),
        Topic(
            "place",
            ("Where will it run?", "Is it for a phone or for the web?", "Do you have a server for it?",
             "Does it need a network?"),
            ("where", "phone", "server", "network", "web"),
        ),
        Topic(
            "history",
            ("Did you have such a function before?", "What did you do until now?", "Has anybody tried it already?",
             "Is there an old version of it?"),
            ("before", "until now", "tried", "old version"),
        ),
    ),
}  # fmt: skip
HARD_TOPICS = tuple(one for topic in TOPICS for one in (topic, *MORE_TOPICS.get(topic.name, ())))
HARD_FAMILIES = (
    Family("hotel_bill", "nights", "guest", "the bill of a hotel stay", ("rate", "surcharge", "tax")),
    Family("phone_bill", "calls", "business", "the phone bill of a month", ("allowance", "rate", "penalty")),
    Family("ski_pass", "days", "junior", "the price of a ski pass", ("rate", "volume", "minimum")),
    Family("boat_rental", "hours", "captain", "the price of renting a boat", ("base", "rate", "deposit")),
    Family("museum_entry", "visitors", "school", "the entry for a group", ("rate", "volume", "rounding")),
    Family("moving_cost", "boxes", "stairs", "the cost of moving house", ("rate", "penalty", "packs")),
    Family("print_price", "pages", "colour", "the price of a print job", ("allowance", "doubling", "tax")),
    Family("coffee_order", "cups", "oat", "how much coffee to buy", ("bonus", "odd", "packs")),
    Family("quiz_score", "answers", "joker", "the score of a quiz", ("rate", "doubling", "cap")),
    Family("rent_share", "rooms", "balcony", "the rent of a flatmate", ("base", "penalty", "sharing")),
    Family("train_fare", "stops", "student", "the fare of a train ride", ("rate", "exception", "rounding")),
    Family("pool_ticket", "hours", "evening", "the price of a swim", ("base", "doubling", "cap")),
    Family("paint_order", "walls", "primer", "how many cans of paint to buy", ("rate", "odd", "packs")),
    Family("sick_days", "weeks", "trainee", "the sick days that are left", ("base", "deposit", "minimum")),
    Family("vote_weight", "shares", "founder", "the weight of a vote", ("allowance", "odd", "cap")),
    Family("seed_order", "beds", "organic", "how many seeds a garden needs", ("rate", "bonus", "packs")),
    Family("game_prize", "wins", "captain", "the prize of a player", ("rate", "doubling", "tax")),
    Family("cloud_bill", "users", "trial", "the bill of a cloud service", ("allowance", "surcharge", "cap")),
    Family("laundry_price", "bags", "express", "the price of a laundry", ("rate", "penalty", "volume")),
    Family("choir_seats", "singers", "festival", "how many rows the choir fills", ("bonus", "odd", "sharing")),
    Family("late_payment", "weeks", "warned", "what is owed for a late payment", ("base", "surcharge", "deposit")),
    Family("bread_order", "people", "brunch", "how much bread to bake", ("rate", "volume", "packs")),
    Family("course_credit", "lessons", "exam", "if a course gives credit", ("bonus", "penalty", "label")),
    Family("repair_bill", "parts", "warranty", "the bill of a repair", ("rate", "tax", "deposit")),
    Family("shift_plan", "week", "night", "which shift comes next", ("base", "odd", "cycle")),
    Family("toll_fee", "axles", "trailer", "the toll for a truck", ("doubling", "tax", "minimum")),
    Family("insurance_rate", "years", "smoker", "the rate of an insurance", ("penalty", "volume", "cutoff")),
    Family("air_miles", "flights", "silver", "the miles of a traveller", ("rate", "surcharge", "bonus")),
    Family("risk_level", "cases", "travel", "how high the risk is", ("doubling", "deposit", "label")),
    Family("table_plan", "guests", "wedding", "the table of a guest", ("penalty", "odd", "cycle")),
    Family("grant_sum", "pupils", "rural", "the grant for a school", ("base", "volume", "rounding")),
    Family("scrap_value", "kilos", "copper", "the value of scrap metal", ("cutoff", "tax", "cap")),
)
OPENINGS = (
    "Thanks, that helps.",
    "I see. Let me make sure that I get the whole picture.",
    "Understood, I have noted that down and will use it in a moment.",
    "Good. I would like to be careful here, so please bear with me for one more thing that I want to know.",
    "Great, I am making progress and can already imagine how the function is going to look in the end, but one thing "
    "is still open for me.",
)
HARD = World("hard", HARD_TOPICS, HARD_FAMILIES, (1, 2), OPENINGS)

WORLDS = {world.name: world for world in (QUICK, HARD)}
TOPIC_BY_NAME = {topic.name: topic for topic in HARD_TOPICS}  # and all of the quick world
ORDER = {name: index for index, name in enumerate(TOPIC_BY_NAME)}
FAMILY_BY_NAME = {family.name: family for world in WORLDS.values() for family in world.families}
WORLD_OF_FAMILY = {family.name: world for world in WORLDS.values() for family in world.families}


def world_of(mini: dict) -> World:
    """The world of a task, by its `mini` field. Raises KeyError if its family is not known."""
    return WORLD_OF_FAMILY[mini["family"]]
