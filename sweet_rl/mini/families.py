"""The everyday functions that mini tasks are about, and which rules each kind hides.

The rules of a family are always about the same topics; their numbers differ from task to task. The
description names none of them: which question pays is something an agent has to learn.
"""

from dataclasses import dataclass


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

BY_NAME = {family.name: family for family in FAMILIES}

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
