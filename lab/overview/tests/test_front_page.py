"""The tables of README and docs/results.md have the figures of the studies."""

from __future__ import annotations

import json

from lab.outcomes import ROOT, difference, mended, runs, shown
from lab.overview.overview import overview

PAGE = ROOT / "README.md"


def rows_of(path: str, key: int = 0) -> dict[str, list[str]]:
    """The rows of a page's tables by one of their cells."""
    text = (ROOT / path).read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {row[key]: row for row in rows if len(row) > key}


def test_the_front_page_shows_what_was_measured():
    page, settings = rows_of("README.md"), {row["name"]: row for row in overview()["rows"]}
    agents = rows_of("lab/agents/results/table.md")
    names = "zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL, untrained critic", "SWEET-RL"
    of_all = [agents[name][4] for name in names]
    assert page["quick world, three agents x three draws"][1:] == [*of_all, agents["SWEET-RL - multi-turn DPO"][1]]

    for world, folder in (("quick", "mini"), ("hard", "mini_hard")):
        mended = runs(f"results/{folder}/mended.json")
        methods = "zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL"
        means = [f"{mended[name][0]:.1f}" for name in methods]
        lead = shown(difference(mended["SWEET-RL"][1], mended["multi-turn DPO"][1]))
        assert page[f"{world} world, one agent, five seeds"][1:] == [*means[:3], "", means[3], lead]

    for name, setting in {
        "web pages (similarity), five seeds": "web pages (similarity)",
        "agent never shown a solution, five seeds": "solution never shown",
        "SmolLM2-135M, one": "SmolLM2-135M",
    }.items():
        row = settings[setting]
        columns = ("zero-shot", "rejection fine-tuning", "multi-turn DPO", "untrained", "SWEET-RL")
        means = ["" if row["means"][one] is None else f"{row['means'][one]:.1f}" for one in columns]
        assert page[name][1:] == [*means, shown(row["lead"])], name

    ten = runs("results/mini_hard/ten_seeds.json")
    (step,) = [
        step["difference"]
        for step in json.loads((ROOT / "results/mini_hard/ten_seeds.json").read_text())["steps"]
        if (step["better"], step["worse"]) == ("SWEET-RL", "multi-turn DPO")
    ]
    lead = shown({name: 100 * step[name] for name in ("mean", "low", "high")})
    dpo, sweet = (f"{ten[name][0]:.1f}" for name in ("multi-turn DPO", "SWEET-RL"))
    assert page["hard world, one agent, ten seeds"][1:] == ["", "", dpo, "", sweet, lead]

    costs = rows_of("lab/costs/results/table.md")
    of_cells = ["zero-shot", *(f"{name}, 200 dialogues" for name in ("rejection fine-tuning", "multi-turn DPO"))]
    of_cells += [f"{name}, pairs by halves" for name in ("PMI", "SWEET-RL")]
    lead = costs["SWEET-RL by halves - multi-turn DPO, 200 dialogues"][1]
    assert page["hard world, five pairs of agent and draw"][1:] == [*(costs[name][6] for name in of_cells), lead]


def test_the_front_page_shows_the_papers_loss_in_cipher_and_what_mends_it():
    ciphered = rows_of("lab/ciphered/results/policies.md", 1)  # the last row of a name: replies with a clue
    names = "zero_shot", "rft", "dpo_kl0.03", "untrained-gap", "beta10-kl0-gap"
    policies = [ciphered[name] for name in names]
    dpo, sweet = ([float(cell) for cell in row[4].split(", ")] for row in (policies[2], policies[4]))
    row = rows_of("README.md")["solutions in cipher, three (DPO with KL)"]
    assert row[1:] == [*(one[3].split()[0] for one in policies), shown(difference(sweet, dpo))]
    mended = ciphered["beta10-kl1-gap"][3].split()[0]
    assert f"pairs by `--rule gap`, no recipe's, has {mended}." in PAGE.read_text(encoding="utf-8")


def test_the_front_page_says_what_equal_tokens_and_the_planted_skill_give():
    agents, costs = rows_of("lab/agents/results/table.md"), rows_of("lab/costs/results/table.md")
    equal = agents["multi-turn DPO, as many sampled tokens"][4]
    more, pmi = (costs[name][6] for name in ("rejection fine-tuning, 1,600 dialogues", "PMI, pairs by halves"))
    declared = costs["PMI - rejection fine-tuning at equal cost, price 1"][1]
    told = rows_of("docs/results.md")["distillation"][1]
    text = PAGE.read_text(encoding="utf-8")
    assert f"multi-turn DPO on eight times the dialogues has {equal}" in text
    assert f"on them has {more} beside PMI's {pmi}" in text and f"at equal cost, is {declared}" in text
    assert f"Imitating it directly has {told} in the quick world" in text


def test_the_front_page_says_what_imitation_of_the_chosen_messages_gives():
    without = rows_of("lab/losses/results/table.md", 1)["SWEET-RL's command without the preference (`--beta 1e-6`)"]
    hard = (runs(f"results/mini_hard/{name}.json") for name in ("table2", "mended"))
    before, after = (found["rejection fine-tuning"][0] for found in hard)
    text = PAGE.read_text(encoding="utf-8")
    assert f"without the preference SWEET-RL has [{without[3]}]" in text
    assert f"Mended, it has {after:.1f} in place of {before:.1f}" in text


def test_results_show_both_worlds_before_and_after_the_mend():
    assert mended() in (ROOT / "docs/results.md").read_text(encoding="utf-8")
