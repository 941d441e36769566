"""The tables of README and docs/results.md have the figures of the studies."""

from __future__ import annotations

import json

import numpy as np

from lab import outcomes
from lab.outcomes import ROOT, difference, runs, shown
from lab.overview.overview import overview

PAGE = ROOT / "README.md"
RESULTS = ROOT / "docs/results.md"
METHODS = "zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL"


def rows_of(path: str, key: int = 0) -> dict[str, list[str]]:
    """The rows of a page's tables by one of their cells."""
    text = (ROOT / path).read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {row[key]: row for row in rows if len(row) > key}


def text_of(path) -> str:
    """The words of a page, with one blank between two."""
    return " ".join(path.read_text(encoding="utf-8").split())


def mended(folder: str) -> tuple[list[str], str]:
    """Means of the methods after the mend, and SWEET-RL minus multi-turn DPO."""
    found = runs(f"results/{folder}/mended.json")
    lead = shown(difference(found["SWEET-RL"][1], found["multi-turn DPO"][1]))
    return [f"{found[name][0]:.1f}" for name in METHODS], lead


def fresh() -> dict[str, str]:
    """The means over the cells of the study of fresh tasks, by policy without its chosen flags."""
    cells = json.loads((ROOT / "lab/fresh/results/outcomes.json").read_text(encoding="utf-8"))
    success: dict[str, list[float]] = {}
    for policies in cells.values():
        for name, seeds in policies.items():
            success.setdefault(name.split("+")[0].removesuffix(".test"), []).extend(
                100 * bits.count("1") / len(bits) for bits in seeds.values()
            )
    assert {len(values) for values in success.values()} == {len(cells)}
    return {name: f"{np.mean(values):.1f}" for name, values in success.items()} | {"cells": str(len(cells))}


def test_the_front_page_shows_what_was_measured():
    page, settings = rows_of("README.md"), {row["name"]: row for row in overview()["rows"]}
    means, lead = mended("mini")
    pmi = f"{settings['quick world']['means']['untrained']:.1f} *"
    assert page["small agent, easy tasks, 5 runs"][1:] == [*means[:3], pmi, means[3], lead]
    for name, setting in {
        "small agent that was never shown a solution, 5 runs *": "solution never shown",
        "SmolLM2-135M, 1 run *": "SmolLM2-135M",
    }.items():
        row = settings[setting]
        columns = ("zero-shot", "rejection fine-tuning", "multi-turn DPO", "untrained", "SWEET-RL")
        cells = ["not run" if row["means"][one] is None else f"{row['means'][one]:.1f}" for one in columns]
        assert page[name][1:] == [*cells, shown(row["lead"])], name


def test_pages_show_the_cells_of_the_fresh_tasks_that_are_done():
    means = fresh()
    names = "zero_shot", "rft", "dpo", "pmi-halves", "sweet-halves"
    row = rows_of("README.md")[f"small agent, new hard tasks, {means['cells']} of 12 planned runs"]
    assert row[1:] == [*(means[name] for name in names), "not decided yet"]
    assert f"rejection fine-tuning has {means['rft_more']} on the hard tasks" in text_of(PAGE)
    told = "untrained {}, rejection fine-tuning {}, multi-turn DPO {}, PMI {}, SWEET-RL {}"
    told = told.format(*(means[name] for name in names))
    assert f"{told}, rejection fine-tuning with equal tokens {means['rft_more']}." in text_of(RESULTS)


def test_the_front_page_shows_the_papers_loss_in_cipher_and_results_what_mends_it():
    ciphered = rows_of("lab/ciphered/results/policies.md", 1)  # the last row of a name: replies with a clue
    names = "zero_shot", "rft", "dpo_kl0.03", "untrained-gap", "beta10-kl0-gap"
    policies = [ciphered[name] for name in names]
    dpo, sweet = ([float(cell) for cell in row[4].split(", ")] for row in (policies[2], policies[4]))
    row = rows_of("README.md")["small agent, solutions in cipher, 3 runs *"]
    assert row[1:] == [*(one[3].split()[0] for one in policies), shown(difference(sweet, dpo))]
    mend = ciphered["beta10-kl1-gap"][3].split()[0]
    assert f"The success of its policy is then {mend} % instead of {row[5]}." in text_of(RESULTS)


def test_the_front_page_says_what_equal_tokens_and_the_planted_skill_give():
    agents = rows_of("lab/agents/results/table.md")
    equal, sweet = (agents[name][4] for name in ("multi-turn DPO, as many sampled tokens", "SWEET-RL"))
    distilled = rows_of("docs/results.md")["distillation"][1]
    text = text_of(PAGE)
    assert f"such a DPO has {equal} *, and SWEET-RL {sweet} *." in text
    assert f"Imitating it directly gives {distilled} * on the easy tasks" in text


def test_results_show_the_comparisons_with_dpo_and_those_at_equal_cost():
    page = rows_of("docs/results.md")
    settings, agents = {row["name"]: row for row in overview()["rows"]}, rows_of("lab/agents/results/table.md")
    costs = rows_of("lab/costs/results/table.md")
    (ten,) = [
        step["difference"]
        for step in json.loads((ROOT / "results/mini_hard/ten_seeds.json").read_text())["steps"]
        if (step["better"], step["worse"]) == ("SWEET-RL", "multi-turn DPO")
    ]
    leads = {
        "quick world, five seeds, mended": mended("mini")[1],
        "hard world, five seeds, mended": mended("mini_hard")[1],
        "quick world, 3 x 3": agents["SWEET-RL - multi-turn DPO"][1],
        "hard world, ten seeds": shown({name: 100 * ten[name] for name in ("mean", "low", "high")}),
        "hard world, fifteen seeds": shown(settings["hard world, more seeds"]["lead"]),
        "hard world, five runs": costs["SWEET-RL by halves - multi-turn DPO, 200 dialogues"][1],
        "web pages, five seeds": shown(settings["web pages (similarity)"]["lead"]),
    }
    assert {name: page[name][1] for name in leads} == leads
    for name, row in {
        "PMI by `--rule gap`": "PMI",
        "PMI by halves (53.8)": "PMI, pairs by halves",
        "PMI by halves, then imitation of 200 own dialogues (59.2)": "PMI, pairs by halves, then its own successes",
    }.items():
        equal = [costs[f"{row} - rejection fine-tuning at equal cost, price {price}"][1] for price in (1, 9)]
        assert page[name][1:3] == equal, name


def test_results_say_what_imitation_of_the_chosen_messages_gives():
    without = rows_of("lab/losses/results/table.md", 1)["SWEET-RL's command without the preference (`--beta 1e-6`)"]
    assert f"Without the preference (`--beta 1e-6`) the same command has {without[3]}" in text_of(RESULTS)


def test_results_show_both_worlds_before_and_after_the_mend():
    assert outcomes.mended() in RESULTS.read_text(encoding="utf-8")
