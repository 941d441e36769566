"""Small files in the formats of the authors' release, made by hand from the fields that they have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Markup:
    """Chat markup as a released file writes it, spelled out here and not taken from a template."""

    family: str
    bos: str
    system: str
    user: str
    agent: str
    end: str
    between: str

    @property
    def opening(self) -> str:
        return self.bos + self.system

    def asks(self, text: str) -> str:
        return f"{self.user}{text}{self.end}{self.between}"


LLAMA = Markup(
    "llama3",
    "<|begin_of_text|>",
    "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n\n<|eot_id|>",
    "<|start_header_id|>user<|end_header_id|>\n\n",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|eot_id|>",
    "",
)
CHATML = Markup(
    "chatml",
    "",
    "<|im_start|>system\nYou ask before you write.<|im_end|>\n",
    "<|im_start|>user\n",
    "<|im_start|>assistant\n",
    "<|im_end|>",
    "\n",
)
TASKS = [
    {
        "problem_description": f"I need the {what} for our {place}.\ndef {name}(days: int) -> int:",
        "ground_truth": f"def {name}(days: int) -> int:\n    return max(days - {free}, 0) * {rate}\n",
        "test_cases": {f"test{i}": f"{name}({days})" for i, days in enumerate((0, free, free + 1, 40), start=1)},
    }
    for what, place, name, free, rate in [("late fee", "library", "late_fee", 3, 2), ("rent", "boats", "rent", 1, 9)]
]
QUESTION = "How many days are free?"
PAGE = "<html><body style='background:#036'><h1 style='color:#fff'>Our {}</h1></body></html>"
PAGE_TASK = {"problem_description": "A blue page for our bakery.", "ground_truth": PAGE.format("bakery")}


def history(task: dict, markup: Markup, answer: str, ended: bool) -> list[dict]:
    """A question and an answer; the agent's rows carry the prompt as text, and what was sampled, the last with its
    EOS if `ended`."""
    first = markup.opening + markup.asks(task["problem_description"]) + markup.agent
    reply = "I don't know."
    second = first + QUESTION + markup.end + markup.between + markup.asks(reply) + markup.agent
    said = f"Here it is.\n\nI WANT TO ANSWER:\n{answer}"
    return [
        {"role": "user", "content": task["problem_description"]},
        {"role": "assistant", "content": QUESTION, "input": first, "output": QUESTION},
        {"role": "user", "content": reply},
        {"role": "assistant", "content": said, "input": second, "output": said + (markup.end if ended else "")},
    ]


def trajectories(markup: Markup) -> list[dict]:
    """Three dialogues a task, of which the first solves it; the rewards in the file are not to be trusted."""
    rows = []
    for task in TASKS:
        name = task["ground_truth"].partition("(")[0].removeprefix("def ")
        wrong = [f"def {name}(days):\n    return 0", f"def {name}(days):\n    return days *"]
        for code in (task["ground_truth"], *wrong):
            dialogue = history(task, markup, code, ended=code == wrong[0])
            rows.append({"task": task, "dialogue_history": dialogue, "answer": code, "reward": 0.0})
    return rows


def page_trajectories(markup: Markup) -> list[dict]:
    """Two dialogues about a page, of which the first hands in the reference page."""
    pages = [PAGE_TASK["ground_truth"], "<html><body><p>nothing</p></body></html>"]
    told = [history(PAGE_TASK, markup, page, ended=True) for page in pages]
    return [
        {"task": PAGE_TASK, "dialogue_history": dialogue, "answer": page}
        for dialogue, page in zip(told, pages, strict=True)
    ]


def trajectory_pairs(markup: Markup, hint: bool = True) -> list[dict]:
    """The first dialogue of each task over its others; with `hint` the reference solution stands before everything."""
    rows = trajectories(markup)
    pairs = []
    for chosen, rejected in [(0, 1), (0, 2), (3, 4), (3, 5)]:
        before = f"In light that the final answer is: {rows[chosen]['task']['ground_truth']}." if hint else ""
        last = [rows[i]["dialogue_history"][-1] for i in (chosen, rejected)]
        texts = [before + row["input"] + row["output"] for row in last]
        pairs.append({"chosen": texts[0], "rejected": texts[1]})
    return pairs


def page_pairs(markup: Markup) -> list[dict]:
    """A pair of frontend dialogues."""
    chosen, rejected = (row["dialogue_history"][-1] for row in page_trajectories(markup))
    return [{side: {k: row[k] for k in ("input", "output")} for side, row in
             (("chosen", chosen), ("rejected", rejected))}]  # fmt: skip


def candidates(markup: Markup, ranked: bool) -> list[dict]:
    """The candidates of both turns of each task's first dialogue."""
    rows = []
    for row in trajectories(markup)[::3]:
        dialogue, solution = row["dialogue_history"], row["task"]["ground_truth"]
        for place in (1, 3):
            texts = [f"{QUESTION} Please say {word}." for word in ("one", "two", "three", "four")]
            made = {
                "input": dialogue[place]["input"],
                "input_with_ground_truth": f"In light that the final answer is: {solution}." + dialogue[place]["input"],
                "older_output": dialogue[place]["output"], "reward": 1.0, "ground_truth": solution,
                "messages": [{k: message[k] for k in ("role", "content")} for message in dialogue[: place + 1]],
                "additional_outputs": texts, "additional_reference_logprobs": [-0.9, -1.1, -0.8, -1.0],
                "additional_reference_logprobs_sum": [-9.0, -11.0, -8.0, -10.0],
            }  # fmt: skip
            rows.append(made | ({"judge_result": [0.3, -0.2, 0.1, -0.4]} if ranked else {}))
    return rows


def turn_pairs(markup: Markup, kind: str) -> list[dict]:
    """Turn pairs as --no_prompt ("no_prompt"), no flag ("prompt") and --get_sft ("sft") of the release write them."""
    pairs = []
    for row in candidates(markup, ranked=True):
        best, worst = (row["additional_outputs"][i] + markup.end for i in (0, 3))
        if kind == "no_prompt":
            pairs.append({"chosen": row["input"] + best, "rejected": row["input"] + worst})
        else:
            pairs.append({"prompt": row["input"], "chosen": best, "rejected": best if kind == "sft" else worst})
    return pairs
