"""Whether what reads a model's text in our own process takes time linear in its length, whatever the text.

    python benchmarks/linear_time.py            # all readers: a few seconds
    python benchmarks/linear_time.py page leak  # some of them

A text is an opening, one piece over and over, and an end; pieces are what the patterns look for, alone and in pairs.
Printed for each reader: by how much the CPU time grows at most if a text gets four times as long (4 if linear, 16 if
quadratic), and with which text. Texts that are read within 8 ms are not counted.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from itertools import product

from sweet_rl.dialogues.backend.calls import prelude
from sweet_rl.dialogues.backend.extract_code import code_candidates, function_name, imported_names
from sweet_rl.dialogues.backend.references import CHANCE
from sweet_rl.dialogues.frontend.extract_page import answered_page, without_pages
from sweet_rl.dialogues.leaks import gives_away, holds_markup
from sweet_rl.dialogues.mini.human_server import reply_to
from sweet_rl.dialogues.simulated_human import cut_at_sentence
from sweet_rl.isolation.rendering import outside, scripts
from sweet_rl.isolation.rendering.stylesheet import possible_classes
from sweet_rl.method.judge import read_verdict
from sweet_rl.models.texts.markup import family_of, messages_in
from sweet_rl.models.thinking import without_thinking
from sweet_rl.sandbox.modules import modules_for
from sweet_rl.sandbox.values import preview
from sweet_rl.viewer.messages import messages_of
from sweet_rl.viewer.views import EXPECTED_AND_GOT

REFERENCE = "import math\ndef f(x):\n    y = math.floor(x) * 2 + 1\n    return [y, x][0]\n"
HOSTS = ("picsum.photos", "source.unsplash.com", "images.unsplash.com", "cdn.jsdelivr.net")


def mini_human(prompt: str) -> None:
    with contextlib.suppress(ValueError):  # of another task
        reply_to(prompt, {}, 0)


READERS = {
    "code": lambda text: code_candidates(text, "f"),
    "code of any name": lambda text: code_candidates(text, ""),
    "imports": imported_names,
    "modules": lambda text: modules_for({"math"}, text),
    "reference": lambda text: (function_name(text, {"t": text}), prelude(text, {"math"})),
    "chance": CHANCE.search,
    "page": answered_page,
    "text around pages": lambda text: without_pages(text, "[page]"),
    "scripts": lambda text: (scripts.uses_play_script(text), scripts.plain_configs(text)),
    "config": lambda text: scripts.plain_configs(f"<script>tailwind.config={text}</script>"),
    "classes": possible_classes,
    "address": lambda text: [outside.resolve(f"https://{host}/{text}", "image") for host in HOSTS],
    "sentences": lambda text: cut_at_sentence(text, len(text) // 2, False),
    "markup": holds_markup,
    "leak": lambda text: gives_away(text, REFERENCE, text),
    "reasoning": without_thinking,
    "prompt of the mini human": mini_human,
    "verdict": read_verdict,
    "chat markup": lambda text: [list(messages_in(text, family)) for family in [family_of(text)] if family],
    "messages": messages_of,
    "evidence": lambda text: (EXPECTED_AND_GOT.fullmatch(f"expected {text}"), preview(text)),
}  # fmt: skip
PIECES = [
    " ", "\t", "\n", "\r\n", "\xa0", "_", "a", "A1", "\xe9", "0", ":", ";", "=", "==", ",", ".", "#", "\\", "\\\n",
    "'", '"', "(", ")", "[", "{", "}", "<", ">", "/", "-", "*", "|", "@", "!", "`", "```", "~~~", "````",
    "```python\n", "```html\n", '"""', "'''", "__", "a__.__", "def f", "def f(x):", "async ", "class f", "import ",
    "from a ", " as ", "f = ", "f:", "pass", "...", "return x\n", "I WANT TO ANSWER:\n", "for ", "random ", "<html",
    "<html>", "</html", "</html>", "<!doctype html", "<body", "<!doctype html>\n", "<div>", "</a ", "class=",
    "style ", "<script ", "</script>", "src=", "cdn.tailwindcss.com", "tailwind", "//", "/*", "*/", "&amp;", "&#38;",
    "&#1", "/id/1", "/1x1", "better ", "Better: 1", "<|", "|>", "<|im_start|>user\n", "<|im_end|>", "<|eot_id|>",
    "[INST]", "[/INST] ", "<think>", "</think>", "expected ", ", got ", "\ue0f0", "1\ue0f1", "\ufeff",
    "<hidden_code>\n", "</hidden_code>\n", "<conversation>\n",
]  # fmt: skip
REPEATED = [" ", "\t", "\n", "a", "_", "0", "(", "`"]  # what a pattern repeats; tried after every opening
ENDS = ["", "\0", " \0", "\n\0"]


def cpu_seconds(reader, text: str) -> float:
    start = time.thread_time()
    reader(text)
    return time.thread_time() - start


def growth(reader, opening: str, piece: str, end: str) -> float:
    """By how much the CPU time grows from 2,000 characters to 8,000; 0 if 2,000 take less than 8 ms."""
    short, long = (opening + piece * (length // len(piece)) + end for length in (2_000, 8_000))
    if cpu_seconds(reader, short) < 0.008:
        return 0.0
    return min(cpu_seconds(reader, long) for _ in range(3)) / min(cpu_seconds(reader, short) for _ in range(3))


def main() -> None:
    for name in sys.argv[1:] or READERS:
        draw = random.Random(name)
        pairs = draw.sample([a + b for a, b in product(PIECES, repeat=2)], 150)
        shapes = [(opening, piece, "\0") for opening in PIECES for piece in REPEATED]
        shapes += [(draw.choice(["", *PIECES]), piece, draw.choice(ENDS)) for piece in [*PIECES, *pairs]]
        worst, shape = max((growth(READERS[name], *shape), shape) for shape in shapes)
        print(f"{name}: {f'{worst:.1f} times, {shape}' if worst else 'always below 8 ms'}", flush=True)


if __name__ == "__main__":
    main()
