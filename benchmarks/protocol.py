"""Requests of `--protocol released`, byte for byte as the published protocol says.

    python benchmarks/protocol.py > benchmarks/protocol.md
    SWEET_RL_COLBENCH=FOLDER python benchmarks/protocol.py    # about the first tasks of ColBench, not about our own

A scripted agent and a scripted human play ten dialogues of each domain through simulate_interactions.py, on one local
server, with instructions of our own in place of the published ones. Every body that the server got but for its `seed`,
what was kept of each reply as sampled, and the answer are compared with what a plain second implementation makes of the
text of the protocol. Exit status 1 if anything differs.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest import MonkeyPatch  # noqa: E402

from sweet_rl.dialogues import released  # noqa: E402
from sweet_rl.rendering.renderer import PageRenderer  # noqa: E402
from sweet_rl.runs.cli import run  # noqa: E402
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal  # noqa: E402
from tests.support.command_line import call, read_rows, write_rows  # noqa: E402
from tests.support.protocol_files import protocol_files  # noqa: E402

FOLDER = "SWEET_RL_COLBENCH"
COLUMNS = "| domain | case | agent's requests | human's | compared |\n| --- | --- | ---: | ---: | --- |"
NOTES = """What the protocol leaves open:

- "No other sampling setting": left out, or off? Here every body says that they are off (`top_p` 1, `top_k` -1, `min_p`
  0, `repetition_penalty` 1, `n` 1), because servers would otherwise take them from the model's own configuration.
- Whether tags in capitals make a page, and what the human sees in the place of a page that gives no picture: the rows
  that say "where open" name what was met.
- A GPT human's pictures are named `image/jpeg`; whether they are JPEG is open. Here they are PNG, as for other models.
- The answer of a dialogue without a page: here none. What happens if the server refuses a request of the agent, or a
  reply is empty: not checked.

The chat template is not in this table: the server gets messages."""
GPT = "gpt-4o-2024-08-06"
CODE_AGENT = "Ask “what” it {does}.\n{dialogue_history}\n"
CODE_HUMAN = "{{It}} is {problem_description}; you wrote\n{hidden_information}\n– so far:\n{dialogue_history}"
PAGE_AGENT, PAGE_HUMAN = " Draw it, {{please}}: é.\n\n", "Compare {the} two, {{twice}}.\n"
SENTENCES = ("This is my page:", "There is no page.", "That is your goal {}:")
SENTENCE_FILE = f"""
def other(): return [{{"type": "text", "text": "A sentence elsewhere."}}]
def invoke_model(page, goal):
    parts = [{{"type": "text", "text": page, "note": "Not a text."}}, {{"type": "text", "text": "word"}}]
    if page:
        parts.append({{"type": "text", "text": {SENTENCES[0]!r}}})
    else:
        parts.append({{"type": "text", "text": {SENTENCES[1]!r}}})
    return [*parts, {{"type": "text", "text": {SENTENCES[2]!r}}}]
"""
FILES = {
    "code": {"BACKEND_AGENT": ("a.txt", CODE_AGENT), "BACKEND_HUMAN": ("prompts/h.txt", CODE_HUMAN)},
    "html": {
        "FRONTEND_AGENT": ("a.txt", PAGE_AGENT),
        "FRONTEND_HUMAN": ("prompts/h.txt", PAGE_HUMAN),
        "FRONTEND_SENTENCES": ("env.py", SENTENCE_FILE),
    },
}
NEUTRAL = {"top_p": 1.0, "n": 1, "top_k": -1, "repetition_penalty": 1.0, "min_p": 0.0}
TOO_LONG = "'max_tokens' or 'max_completion_tokens' is too large: at most 8192 tokens of maximum context length."
REFUSED, REFERENCE, MARKER = "(status 400)", "(the reference)", "I WANT TO ANSWER:"
ANSWER = f"Well. {MARKER}\ndef f(x):\n    return {{x}}\n{MARKER} sure {MARKER}"
ANY_CASE, LAST_DRAWN = "tags in capitals are a page too", "a page that is not drawn leaves the picture before it"
EXACT_CASE, UNSEEN = "tags in capitals are no page", "a page that is not drawn counts as no page shown"


def page(color: str, inside: str = "") -> str:
    return f"<html lang='{color}'>\n<body style='background:{color}'><p>{{{color}}} é</p>{inside}</body>\n</html>"


SHADOW = "<div><template shadowrootmode='open'><p>x</p></template></div>"  # such a page is never drawn
UNSPLASH = "<img src='https://source.unsplash.com/random/80x60/?a,b'><img src='//source.unsplash.com/random/40x30'>"


@dataclass(frozen=True)
class Case:
    """A dialogue: what is said in order. A question or a plain reply is said where nothing more is listed."""

    name: str
    agent: Sequence[str]
    human: Sequence[str] = ()
    readings: Sequence[str] = ("",)

    def says(self, role: str, turn: int) -> str:
        listed, plain = (self.agent, f" Question {turn}? ") if role == "agent" else (self.human, f" Reply {turn}.\n")
        return listed[turn] if turn < len(listed) else plain


NINE = [f"q{turn}" for turn in range(9)]
CODE = [
    Case("marker in the first reply", [ANSWER]),
    Case("marker in the fifth, none behind the answer", [*NINE[:4], f"So:\n{MARKER} def f(x): pass "]),
    Case("marker in the tenth", [*NINE, ANSWER]),
    Case("no marker in ten replies", [*NINE, "thought OUTPUT: def f(x): return x\n"]),
    Case(
        "`OUTPUT:` none, once, twice, three times, at the end",
        [" a\n", "t OUTPUT: a", "t OUTPUT:a OUTPUT:b", "OUTPUT:aOUTPUT:bOUTPUT:c", "t OUTPUT:", f"OUTPUT:{ANSWER}"],
    ),
    Case(
        "`OUTPUT:` inside an answer, marker before and behind what counts",
        [f"{MARKER} print('OUTPUT:', x)", f"{MARKER} OUTPUT: q", f"OUTPUT: q OUTPUT: {MARKER} x", f"OUTPUT:{ANSWER}"],
    ),
    Case("400 for the human, first and third", ["a", "b", "c", "d", ANSWER], [REFUSED, "ok", REFUSED]),
    Case("human of 400, 401 characters", [*NINE[:4], ANSWER], ["w" * 400, "w" * 401, "雪" * 400 + ".", "😀" * 401]),
    Case(
        "braces, line ends, other scripts",
        ["{x} {dialogue_history} 雪\r\n\u2028", "{", ANSWER],
        ["{hidden_information} {} %s é", "}\t\\n"],
    ),
    Case("human gives the reference away", ["q", "q", ANSWER], [REFERENCE, f"It is: {REFERENCE}"]),
]
PAGES = [
    Case("page and marker in the first reply", [f"{page('red')} {MARKER}"]),
    Case("no page in ten replies", NINE),
    Case("page in the first reply only", [f"So? {page('red')} ok?", "q", "q", f"{MARKER} done"]),
    Case(
        "several pages, two in one reply",
        [page("red"), "q", page("blue") + page("green"), "q", f"{page('gray')} {MARKER}"],
    ),
    Case(
        "`<body>` only, before `<html>`, open `<html>`",
        ["<body class='a'>é\nb</body>", f"<body>b</body>{page('red')}", "<html><body>c</body>", "<body>d", MARKER],
    ),
    Case("tags in capitals", [page("red"), "<HTML><BODY>B</BODY></HTML>", MARKER], readings=(EXACT_CASE, ANY_CASE)),
    Case("WebSight's picture addresses", [page("red", UNSPLASH), "q", MARKER]),
    Case(
        "page that cannot be drawn, before and after one that can",
        [page("red", SHADOW), page("blue"), page("gray", SHADOW), "q", MARKER],
        readings=(UNSEEN, LAST_DRAWN),
    ),
    Case("human of 1,000, 1,001 characters; 400", [*NINE[:4], MARKER], ["w" * 1000, "w" * 1001, REFUSED, "😀" * 1001]),
    Case(
        "`OUTPUT:` around pages",
        [f"{page('red')} OUTPUT: q", f"OUTPUT: {page('blue')} OUTPUT: {page('gray')} {MARKER}", f"OUTPUT:{MARKER}"],
        ["{} 雪", REFERENCE],
    ),
]


def expected(case: Case, task: dict, human: str, reading: str, renderer: PageRenderer | None) -> list:
    """The bodies of the agent's requests, those of the human's, the sampled texts, and the answer."""
    code = "test_cases" in task
    agent, humans, sampled, dialogue = [], [], [], [{"role": "user", "content": task["problem_description"]}]
    last_page = picture = None
    system = {"role": "system", "content": CODE_AGENT if code else PAGE_AGENT}
    for turn in range(10):
        agent.append(body_of(MODEL, [system, *dialogue], 1.0, 1024))
        pieces = case.says("agent", turn).split("OUTPUT:")
        sampled.append("OUTPUT:".join(pieces[:2]))
        content = pieces[1] if len(pieces) > 1 else pieces[0]
        dialogue.append({"role": "assistant", "content": content})
        if found := None if code else page_in(content, reading):
            last_page, drawn = found, renderer.render(found).png
            picture = drawn or (picture if reading == LAST_DRAWN else None)
        if MARKER in content or turn == 9:
            break
        if code:
            history = "".join(f"{one['role']}:{one['content']}\n\n\n\n" for one in dialogue) + "agent:"
            text = CODE_HUMAN.format(
                problem_description=task["problem_description"],
                hidden_information=task["ground_truth"],
                dialogue_history=history,
            )
            helpful = {"role": "system", "content": "You are a helpful assistant."}
            messages = [helpful, {"role": "user", "content": text}]
        else:
            shown = [SENTENCES[0], picture] if picture else [SENTENCES[1]]
            kind = "image/jpeg" if human == GPT else "image"
            goal = renderer.render(task["ground_truth"]).png
            parts = [PAGE_HUMAN, *shown, SENTENCES[2], goal]
            messages = [{"role": "user", "content": [part(one, kind) for one in parts]}]
        humans.append(body_of(human, messages, 0.0, 4096))
        said = case.says("human", turn).replace(REFERENCE, task["ground_truth"])
        reply = "No response." if said == REFUSED else said[: 400 if code else 1000]
        dialogue.append({"role": "user", "content": reply})
    answer = content.split(MARKER)[1] if MARKER in content else content
    return [agent, humans, sampled, answer if code else last_page]


def body_of(model: str, messages: list[dict], temperature: float, max_tokens: int) -> dict:
    return {"model": model, "messages": messages, "temperature": temperature, "max_tokens": max_tokens, **NEUTRAL}


def page_in(content: str, reading: str) -> str | None:
    """The page of a message, after WebSight's picture addresses were replaced."""
    address = r"(?:https:)?//source\.unsplash\.com/random/(\d+)x(\d+)/?(?:\?[^'\"\s<>]*)?"
    content = re.sub(address, r"https://picsum.photos/id/48/\1/\2", content)
    case = re.IGNORECASE if reading == ANY_CASE else 0
    for tag in ("html", "body"):
        if found := re.search(rf"<{tag}[^>]*>.*?</{tag}>", content, re.DOTALL | case):
            return found[0]
    return None


def part(value: str | bytes, kind: str) -> dict:
    if isinstance(value, str):
        return {"type": "text", "text": value}
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{base64.b64encode(value).decode()}"}}


def make_tasks(cases: Sequence[Case], task_type: str) -> list[dict]:
    """A task for each case, of ColBench or of our own."""
    code = task_type == "code"
    name = "backend_dev.jsonl" if code else "frontend_dev.jsonl"
    references = [f"def f(x):\n    return {{x: {i}}}" if code else page(f"#0{i}8") for i in range(10)]
    rows = [{"problem_description": "Make it.", "ground_truth": reference} for reference in references]
    if folder := os.environ.get(FOLDER):
        rows = read_rows(Path(folder) / name)
    tasks = []
    for number, (case, row) in enumerate(zip(cases, rows, strict=False)):
        description = f"{row['problem_description']} {{x}} “雪”\n({case.name}, task {number})"
        task = {"problem_description": description, "ground_truth": row["ground_truth"]}
        if code:
            task |= {"ground_truth": row["ground_truth"] + "\n# {x} é", "test_cases": {"test1": "f(1)"}}
        tasks.append(task)
    return tasks


def play(
    cases: Sequence[Case], human: str, task_type: str, renderer: PageRenderer | None = None
) -> list[tuple[str, ...]]:
    """Play the cases and compare; returns a row of the table for each."""
    tasks = make_tasks(cases, task_type)
    keys = {json.dumps(task["problem_description"])[1:-1]: number for number, task in enumerate(tasks)}
    if task_type == "html":  # the human is not told the description
        goals = [renderer.render(task["ground_truth"]).png for task in tasks]
        keys |= {base64.b64encode(goal).decode(): number for number, goal in enumerate(goals)}
    requests: dict[tuple[int, str], list[dict]] = defaultdict(list)

    def reply(body: dict) -> Reply:
        text = json.dumps(body["messages"])
        number = next(number for key, number in keys.items() if key in text)
        role = "agent" if body["messages"][0]["content"] in (CODE_AGENT, PAGE_AGENT) else "human"
        own = requests[number, role]
        own.append({name: value for name, value in body.items() if name != "seed"})
        said = cases[number].says(role, len(own) - 1).replace(REFERENCE, tasks[number]["ground_truth"])
        return refusal(400, TOO_LONG) if said == REFUSED else chat_reply(said)

    with tempfile.TemporaryDirectory() as name, MonkeyPatch.context() as patch, ApiServer(reply) as server:
        server.models = [MODEL, GPT]
        module = released
        files = protocol_files(Path(name), patch, module, FILES[task_type])
        done = call(
            "simulate_interactions.py", protocol="released", protocol_files=files, task_type=task_type,
            agent_model=MODEL, env_model=human, agent_hostname=server.url, hostname=server.url,
            input_path=write_rows(Path(name) / "tasks.jsonl", tasks), output_path=Path(name) / "out.jsonl",
        )  # fmt: skip
        if done.code:
            raise SystemExit(done.err)
        rows = {row["task"]["problem_description"]: row for row in read_rows(Path(name) / "out.jsonl")}
    table = []
    for number, (case, task) in enumerate(zip(cases, tasks, strict=True)):
        row = rows[task["problem_description"]]
        sampled = [message["output"] for message in row["dialogue_history"] if message["role"] == "assistant"]
        played = [requests[number, "agent"], requests[number, "human"], sampled, row["answer"]]
        found = [difference(played, expected(case, task, human, reading, renderer)) for reading in case.readings]
        verdict = "equal" if None in found else f"**differs**: {found[0]}"
        if found.count(None) == 1 < len(found):
            verdict += f", where open: {case.readings[found.index(None)]}"
        name = case.name if human == MODEL else f"{case.name}; human {human}"
        table.append((task_type, name, str(len(played[0])), str(len(played[1])), verdict))
    return table


def difference(got: Any, wanted: Any) -> str | None:
    """Where the JSON of two values first differs; None if it is the same."""
    texts = [json.dumps(value, ensure_ascii=False, sort_keys=True) for value in (got, wanted)]
    if texts[0] == texts[1]:
        return None
    start = max(len(os.path.commonprefix(texts)) - 20, 0)
    return " and not ".join(repr(text[start : start + 60]) for text in texts).replace("|", "\\|")


def main() -> None:
    """Play both domains and print the table."""
    table = play(CODE, MODEL, "code")
    with PageRenderer() as renderer:
        table += play(PAGES, MODEL, "html", renderer) + play(PAGES[2:4], GPT, "html", renderer)
    rows = "\n".join(f"| {' | '.join(row)} |" for row in table)
    tasks = "the first ten of ColBench in each domain" if os.environ.get(FOLDER) else "our own"
    print(f"# {__doc__}\nTasks: {tasks}.\n\n{COLUMNS}\n{rows}\n\n{NOTES}")
    if any(row[-1].startswith("**differs") for row in table):
        raise SystemExit(1)


if __name__ == "__main__":
    run(main)
