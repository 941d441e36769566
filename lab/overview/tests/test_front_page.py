"""The table of README has the figures of the studies."""

from __future__ import annotations

import json

import pytest

from lab.outcomes import shown
from lab.overview.overview import ROOT, difference, overview


def rows_of(path: str, key: int = 0) -> dict[str, list[str]]:
    """The rows of a page's tables by one of their cells."""
    text = (ROOT / path).read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {row[key]: row for row in rows}


def test_the_front_page_shows_what_was_measured():
    page, settings = rows_of("README.md"), {row["name"]: row for row in overview()["rows"]}
    agents = rows_of("lab/agents/results/table.md")
    of_all = [
        agents[name][4]
        for name in ("rejection fine-tuning", "multi-turn DPO", "SWEET-RL, untrained critic", "SWEET-RL")
    ]
    assert page["quick world (demo)"][1:] == [*of_all, agents["SWEET-RL - multi-turn DPO"][1], "9"]

    names = {
        "hard world, one agent": "hard world, more seeds",
        "web pages (similarity)": "web pages (similarity)",
        "agent never pretrained on solutions": "solution never shown",
        "SmolLM2-135M": "SmolLM2-135M",
    }
    for name, setting in names.items():
        row = settings[setting]
        columns = ("rejection fine-tuning", "multi-turn DPO", "untrained", "SWEET-RL")
        means = ["" if row["means"][one] is None else f"{row['means'][one]:.1f}" for one in columns]
        assert page[name][1:] == [*means, shown(row["lead"]), str(row["seeds"])], name

    ciphered = rows_of("lab/ciphered/results/policies.md", 1)  # the last row of a name: replies with a clue
    policies = [ciphered[name] for name in ("rft", "dpo_kl0.03", "untrained-gap", "beta10-kl1-gap")]
    by_cell = [[float(cell) for cell in row[4].split(", ")] for row in policies]
    gain = difference(by_cell[3], by_cell[1])
    row = page["ciphered solutions, 12,800 dialogues, DPO and critic with KL"]
    assert row[1:] == [*(one[3].split()[0] for one in policies), shown(gain), str(gain["count"])]


def test_the_front_page_shows_smollm2_by_sums():
    success = {
        run["name"]: 100 * run["success"]["mean"]
        for table in ("table2", "table3")
        for run in json.loads((ROOT / f"lab/smollm2/results/{table}.json").read_text(encoding="utf-8"))["runs"]
    }
    by_sum = success["without length normalisation"]
    row = rows_of("README.md")["SmolLM2-135M, $A$ without $1/L$"]
    assert row[4:] == [f"{by_sum:.1f}", f"{by_sum - success['multi-turn DPO']:+.1f}", "1"]


def test_the_front_page_shows_other_agents_and_what_came_after_pmi():
    costs, text = rows_of("lab/costs/results/table.md"), (ROOT / "README.md").read_text(encoding="utf-8")
    mean = {name: row[6] for name, row in costs.items() if len(row) > 6}
    few = [mean[f"{name}, 200 dialogues"] for name in ("rejection fine-tuning", "multi-turn DPO")]
    by_halves = [mean[f"{name}, pairs by halves"] for name in ("PMI", "SWEET-RL")]
    lead = costs["SWEET-RL by halves - multi-turn DPO, 200 dialogues"][1]
    assert rows_of("README.md")["hard world, five agent-task pairs"][1:] == [*few, *by_halves, lead, "5"]

    after = "PMI, pairs by halves, then its own successes"
    as_dear, dearer = (costs[f"{after} - rejection fine-tuning at equal cost, price {price}"][1] for price in (1, 9))
    dpo = costs["PMI by halves - multi-turn DPO, 200 dialogues"][1]
    assert (
        f"PMI minus DPO {dpo}. PMI, then rejection fine-tuning: {mean[after]}; over rejection fine-tuning of equal "
        f"cost: {as_dear}, {dearer} if human tokens cost nine"
    ) in text


@pytest.mark.parametrize(("file", "critic", "pairs", "warns"), [
    ("pages/results/pages_credit", "SWEET critic", "complete page over draft", True),
    ("pretraining/results/credit_0", "trained (sampling reference)", "complete answer over question", True),
    ("smollm2/results/credit", "SWEET-RL", "complete answer over question", True),
    ("smollm2/results/credit", "without length normalisation", "complete answer over question", False),
])  # fmt: skip
def test_the_front_page_says_of_which_losses_the_order_of_right_answers_warns(file, critic, pairs, warns):
    measured = json.loads((ROOT / f"lab/{file}.json").read_text(encoding="utf-8"))
    assert (measured[critic]["groups"][pairs]["accuracy"] < 0.5) is warns
