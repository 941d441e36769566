"""Find the code in an answer: texts that may be it, best first. Nothing is parsed or run here: the sandbox takes the
first text that is Python and lacks no name."""

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
# Names that a block defines at its top level. The bounds keep it linear.
DEFINED = re.compile(
    r"^(?:(?:async )?def|class) +(\w+)|\bimport +(\([^)]{0,1000}\)|[^\n(]{1,1000})"
    r"|^([^\W\d][\w, ]{0,200})(?::[^=\n]{0,200})?=(?!=)", re.MULTILINE
)  # fmt: skip
MAGIC = re.compile(r"^[%!]\w.*\n", re.MULTILINE)  # lines of a notebook
IMPORT = re.compile(r"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)
MAX_TRIED = 6  # blocks, first lines and ends
NOT_READ = (SyntaxError, ValueError, RecursionError, MemoryError)  # what ast.parse and compile raise


def code_candidates(answer: str, function: str) -> list[str]:
    """Texts in an answer that define the function, best first.

    The part after the last answer marker counts; if it defines nothing, the part before it. In that part: the whole
    text, which is Python if there is no prose; the fenced blocks, the last one first, each with the other blocks and
    without; then what stands between marks of fences anywhere, and the text from each line on that begins code. Texts
    in which nothing is done (signatures, stubs) come last. After each text comes the same with plain spaces in place of
    typographic ones and without commands of a notebook, if it has any.

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
        candidates: dict[str, None] = {}
        for text in _texts(part, defines, function):
            if defines.search(text):
                candidates |= dict.fromkeys([text, MAGIC.sub("", text.translate(TYPESET))])
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
    """A block, and before it those that define a name in it and do not use the function."""
    needed: list[str] = []
    words = set(WORD.findall(blocks[number])) | {"*"}
    for other in reversed([*blocks[:number], *blocks[number + 1 :]]):
        names = " ".join(name for groups in DEFINED.findall(other) for name in groups)
        defined = {*WORD.findall(names), *("*" if "*" in names else "")} - {"as"}
        if START.match(other) and function not in WORD.findall(other) and defined & words:
            needed.insert(0, other)
            words |= set(WORD.findall(other))
    return [*needed, blocks[number]]


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
