"""Find the code in an answer: texts that may be it, best first. Nothing is parsed or run here: the sandbox takes the
first text that is Python and lacks no name."""

import ast
import contextlib
import re
from collections.abc import Iterator

from sweet_rl.dialogues.fences import plain_text, texts_of_blocks

MARKER = re.compile(r"^[ \t*]*I WANT TO ANSWER:\**", re.MULTILINE)
SPECIAL_TOKENS = re.compile(r"(?:\s*(?:<\|\w+\|>|<｜[\w▁]+｜>|</s>|<eos>|<end_of_turn>|<turn\|>))+\s*\Z")
TAIL = 200  # last characters, in which a server may have left special tokens
# Typographic spaces, and characters without width, which are errors in Python outside of a string.
TYPESET = dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
TYPESET |= dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x2060], "")
START = re.compile(r"import [\w.]|from [\w.]+ import|(?:async )?def |class |@\w|[\w(\[*][\w, ()\]*]*(?::[^=\n]*)?=[^=]")
CODE_LINE = re.compile(rf"{START.pattern}|\s|[#@)\]}}\"']|(?:if|else|for|while|try|except|with)\b|[\w.]+\(")
QUOTED = re.compile(r"^(?: {0,3}>(?!>>) ?)+", re.MULTILINE)
LONE_WORDS = re.compile(r"\A\s*[^\W\d_]+[ \t]*\n|\n[^\W\d_]+\s*\Z")  # "python" above the code, "Done" below it
WORK = re.compile(r"\b(?:return|yield|lambda|for|while|if)\b")
WORD = re.compile(r"[^\W\d]\w*")
# What a block defines at its top level, and what is a name of its own anywhere in it. The bounds keep both linear.
DEFINED = re.compile(
    r"^(?:(?:async )?def|class) +(\w+)|\bimport +((?:[^\n(\\;]|\\\n|\([^()]*\))+)"
    r"|^([(\[*]*[^\W\d][\w, *()\]]{0,200}(?::[^=\n]{0,200})?=(?!=)(?:[\w ]{1,200}=(?!=))*)", re.MULTILINE
)  # fmt: skip
OWN = re.compile(
    r"\b(\w+)[ \t]*(?:[-+*/|&%]|//|\*\*)?=(?!=)|\bfor ([\w, ()]{1,200}) in\b|\bdef \w+\(([^)]{0,2000})\)"
    r"|\bimport ([^\n]*)|\bas (\w+)|\b(?:def|class) (\w+)"
)
IMPORT = re.compile(r"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)
MAX_TRIED = 6  # blocks, first lines and ends
NOT_READ = (SyntaxError, ValueError, RecursionError, MemoryError)  # what ast.parse and compile raise


def function_name(reference: str, test_cases: dict[str, str]) -> str:
    """The name of the function under test: the last one that the reference defines and a test call calls; or ''."""
    called: set[str] = set()
    for test in test_cases.values():
        with contextlib.suppress(*NOT_READ):
            calls = (node for node in ast.walk(ast.parse(test.strip(), mode="eval")) if isinstance(node, ast.Call))
            called.update(call.func.id for call in calls if isinstance(call.func, ast.Name))
    defined = re.findall(r"^(?:async[ \t]+)?def[ \t]+(\w+)", reference, re.MULTILINE)
    return next((name for name in reversed(defined) if name in called), "")


def code_candidates(answer: str, function: str) -> list[str]:
    """Texts in an answer that define the function, best first.

    The part after the last answer marker counts; if it defines nothing, the part before it. In that part: the whole
    text, which is Python if there is no prose; the fenced blocks, the last one first, each with the other blocks and
    without; then what stands between marks of fences anywhere, and the text from each line on that begins code. Texts
    in which nothing is done (signatures, stubs) come last. After a text with typographic spaces comes the same with
    plain ones.

    Args:
        answer: Text of the agent.
        function: Name of the function; "" for any function.
    """
    answer = plain_text(answer[:-TAIL] + SPECIAL_TOKENS.sub("", answer[-TAIL:]))
    name = re.escape(function) if function else r"\w+"
    defines = re.compile(
        rf"^(?:(?:async )?def |class ){name}\b|^{name} *(?::[^=\n]{{0,200}})?=(?!=)"
        rf"|^[\w, (*\[]{{0,100}}\b{name}\b[\w, )=\]*]{{0,100}}=(?!=)|\bimport .{{0,200}}\b{name}\b", re.MULTILINE
    )  # fmt: skip
    parts = (text for part in reversed(MARKER.split(answer)) for text in dict.fromkeys((part, QUOTED.sub("", part))))
    for part in parts:
        texts = (one for text in _texts(part, defines, function) for one in (text, text.translate(TYPESET)))
        candidates = dict.fromkeys(text for text in texts if defines.search(text))
        if candidates:
            return sorted(candidates, key=lambda text: not WORK.search(text))
    return []


def _texts(part: str, defines: re.Pattern, function: str) -> Iterator[str]:
    whole = LONE_WORDS.sub("\n", part).lstrip("\n").strip(" ")
    if START.match(whole):
        yield whole
    between_marks = [re.sub(r"\A[\w+.-]*[ \t]*\n", "", text) for text in re.split("`{3,}|~{3,}", part)[1:]]
    for texts in (texts_of_blocks(part), between_marks):
        blocks = [_dedented(text) for text in texts]
        solving = [number for number, block in enumerate(blocks) if defines.search(block)]
        for number in solving[: -MAX_TRIED - 1 : -1]:
            yield "\n".join(_with_needed(blocks, number, function))
            yield blocks[number]
    yield whole
    lines = part.strip(" ").split("\n")
    if all(CODE_LINE.match(line) for line in lines if line):
        return
    for first in [number for number, line in enumerate(lines) if START.match(line.lstrip())][:MAX_TRIED]:
        rest = _dedented("\n".join(lines[first:]))
        yield rest
        for cut in list(re.finditer(r"\n(?=[^\s)\]}#@])", rest))[: -MAX_TRIED - 1 : -1]:  # without the prose after it
            yield rest[: cut.start()] + "\n"


def _with_needed(blocks: list[str], number: int, function: str) -> list[str]:
    """A block, and before it those that import or define a name that it lacks and do not use the function."""
    needed: list[str] = []
    lacking = set(WORD.findall(blocks[number])) - _names(OWN, blocks[number])
    for other in reversed([*blocks[:number], *blocks[number + 1 :]]):
        words = set(WORD.findall(other))
        defined = _names(DEFINED, other)
        if START.match(other) and function not in words and defined & {*lacking, "*"}:
            needed.insert(0, other)
            lacking |= words - _names(OWN, other)
    return [*needed, blocks[number]]


def _names(pattern: re.Pattern, text: str) -> set[str]:
    found = [" ".join(groups) for groups in pattern.findall(text)]
    return {name for names in found for name in WORD.findall(names)} | {"*" for names in found if names.strip() == "*"}


def _dedented(text: str) -> str:
    """The text without the indentation of its first line that is not empty."""
    margin = re.match(r"(?:[ \t]*\n)*([ \t]*)", text)
    return re.sub(rf"^{margin[1]}", "", text, flags=re.MULTILINE) if margin and margin[1] else text


def imported_names(code: str) -> set[str]:
    """Dotted names of the modules that a text imports anywhere."""
    names = set()
    for module, modules in IMPORT.findall(code.replace("\\\n", " ")):
        for name in [module] if module else modules.split(","):
            name = name.strip().split(" ")[0].strip(".")
            if name:
                names.add(name)
    return names
