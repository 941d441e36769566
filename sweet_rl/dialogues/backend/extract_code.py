"""Find the code in an answer, with or without Markdown fences and prose around it.

The answer is any text, and no limit of the sandbox holds here: every pattern and loop takes time linear in its length.
"""

import ast
import contextlib
import html
import re
from collections.abc import Generator, Iterator
from itertools import dropwhile, islice

from sweet_rl.dialogues.backend.calls import NOT_READ

ANSWER_MARKER = re.compile(r"^[ \t]*I WANT TO ANSWER:", re.MULTILINE)
INVISIBLE = re.compile(r"^[\ufeff\u200b]+", re.MULTILINE)
# Typographic spaces, and characters without width, which are errors in Python outside of a string.
TYPESET = dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
TYPESET |= dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF], "")
# Special tokens that a server or a decoder left in the text: of ChatML, Llama, Gemma, DeepSeek and others.
END_MARKERS = re.compile(r"(?:\s*(?:<\|\w+\|>|<｜[\w▁]+｜>|</s>|<eos>|<end_of_turn>|<turn\|>))+\s*$")
TAIL = 200  # last characters in which they are looked for, so that this takes no time quadratic in an answer of spaces
FENCE = re.compile(r"([ \t]*)(```+|~~~+)(.*)$")
FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
LOOSE_OPENING = re.compile(r"((?:(?!```|~~~).)*)(```+|~~~+)[ \t]*(?:[\w+.-]+[ \t]*)?$")
IMPORTS = r"import[ \t]+[\w.]+[ \t]*(?:[,;#\\]|as\b|$)|from[ \t]+[\w.]+[ \t]+import\b"
CODE_START = re.compile(rf"(?:{IMPORTS}|def |async def |class[ \t]+\w+[ \t]*[:(]|@\w)")
ASSIGNMENT = re.compile(r"[^\W\d]\w*[ \t]*(?::[^=\n]*)?=(?!=)")
CODE_LINE = re.compile(
    rf"\s|[#@)\]}}]|\"\"\"|\'\'\'|{IMPORTS}|class[ \t]+\w+[ \t]*[:(]"
    r"|(?:def|if|elif|else|for|while|try|except|finally|with|async)\b"
    r"|[^\W\d][\w.]*\(|[^\W\d][\w.\[\]'\", ]*[-+*/|&]?=|(?:pass|assert)\b"
)
HTML_CODE = re.compile(r"</?code[^<>]*>")
LONE_WORD = re.compile(r"[ \t]*[^\W\d_]+[ \t]*$")
IMPORT = re.compile(r"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)
IMPORT_STATEMENT = re.compile(r"^(?:import|from)[ \t](?:[^\n(\\]|\\\n|\([^()]*\))+", re.MULTILINE)
TARGETS = re.compile(r"(?:^|;)[ \t]*((?:[(\[*]*[^\W\d][\w \t,*)\]]*(?::[^=\n;]*)?=(?!=)[ \t]*)+)", re.MULTILINE)
ANNOTATION = re.compile(r":[^=]*")
DEFINITION = re.compile(r"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
DOCSTRING = re.compile(r'[rRuU]?(?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\')')
STUB = re.compile(r"(?:\.\.\.|pass|raise[ \t]+NotImplementedError\b.*|'[^']*'|\"[^\"]*\")[ \t]*(?:#.*)?$")
HEADER = re.compile(r":[ \t]*(?:#.*)?$")
ONE_LINE = re.compile(r"(?<!`)(`+)(?:(?:python\d?|py)[ \t]+)?([^`\n]+)\1(?!`)")
WORD = re.compile(r"[^\W\d]\w*")
TRIPLE_QUOTE = re.compile("\"\"\"|'''")
# Of Markdown, and of Python's prompt.
QUOTE_MARK = re.compile(r"^ {0,3}(?:>(?!>>)[ \t]?|(?:>>>|\.\.\.)(?:[ \t]|$))", re.MULTILINE)
KEYWORDS = {"import", "from", "as"}
MAX_TRIED = 6  # first lines that may be code, and last blocks that may need others
MAX_NESTED = 3  # fences in fences, quotes in quotes


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
    """Texts in an answer that may be its code, best first. The first that is Python and lacks no name should be run.

    The part after the last answer marker counts; if it defines nothing, the part before it, and so on. In that part:
    the last closed fence that defines the function, with the fences that import or define what it uses; a fence that is
    never closed; fences with a fence in a docstring, in quotes, or by a laxer rule. Without fences: the whole text
    (prose is not Python), fences by the laxer rule, then from a first line of code on, without and with the prose after
    it. Last: code within a line. After a text with typographic spaces comes the same with plain ones. The text is not
    executed or parsed as Python.

    Args:
        answer: Text of the agent.
        function: Name of the function; texts that do not define it are left out. "" for any function.
    """
    answer = answer[:-TAIL] + END_MARKERS.sub("", answer[-TAIL:])
    answer = INVISIBLE.sub("", answer.replace("\r\n", "\n").replace("\r", "\n"))
    for part in reversed(ANSWER_MARKER.split(answer)):
        texts = (one for text in _texts(part, function) for one in (text, text.translate(TYPESET)))
        candidates = dict.fromkeys(_dedent(text) for text in texts if _defines(text, function))
        if candidates:
            return list(candidates)
    return []


def imported_names(code: str) -> set[str]:
    """Dotted names of the modules that a text imports anywhere."""
    names = set()
    for module, modules in IMPORT.findall(code.replace("\\\n", " ")):
        for name in [module] if module else modules.split(","):
            name = name.strip().split(" ")[0].strip(".")
            if name:
                names.add(name)
    return names


def _defines(text: str, function: str) -> bool:
    """Whether it defines the function anywhere, also as a method, a variable or an import."""
    name = re.escape(function) if function else r"\w+"
    return function in _provided(text) or (
        re.search(
            rf"(?:^|[;\n])[ \t]*(?:(?:async[ \t]+)?def[ \t]+{name}\b|class[ \t]+{name}\b|{name}[ \t]*[:=])"
            rf"|\b(?:{name}[ \t]*:=|for[ \t]+{name}[ \t]+in\b)|\[['\"]{name}['\"]\][ \t]*=",
            text,
        )
        is not None
    )


def _solves(text: str, function: str) -> bool:
    """Whether it defines the function at the top level, with a body."""
    name = re.escape(function) if function else r"\w+"
    other_than_itself = rf"(?!=)(?![ \t]*{name}[ \t]*$)"
    if re.search(rf"^(?:class[ \t]+{name}\b|{name}[ \t]*(?::[^=\n]*)?={other_than_itself})", text, re.MULTILINE):
        return True
    if any(function in targets and len(targets) > 1 for targets in _targets(text)):
        return True
    chunks = re.split(rf"^(?=(?:async[ \t]+)?def[ \t]+{name}\b)", text, flags=re.MULTILINE)[1:]
    return not all(map(_is_signature, chunks)) if chunks else False


def _is_signature(text: str) -> bool:
    """Whether the body of the function at the start of the text does nothing: comments, a docstring, `...`, `pass` or
    `raise NotImplementedError`."""
    chunk = re.split(r"\n(?=[^\s)\]}#])", text, maxsplit=1)[0]
    lines = [line.strip() for line in DOCSTRING.sub("", chunk).split("\n")]
    lines = [line for line in lines if line and line[0] != "#"]
    end = next((number for number, line in enumerate(lines) if HEADER.search(line)), None)
    if end is None:  # `def f(x): pass`
        return len(lines) == 1 and any(STUB.match(part.lstrip()) for part in lines[0].split(":")[1:])
    return all(map(STUB.match, lines[end + 1 :]))


def _texts(text: str, function: str, nested: int = 0) -> Iterator[str]:
    closed, rest = _fenced_blocks(text)
    solved = yield from _blocks(closed, function)
    if rest is not None:
        yield rest
        yield _until_prose(rest)
    if TRIPLE_QUOTE.search(text):
        blocks, unclosed = _fenced_blocks(text, keep_strings=True)
        yield from _blocks(blocks if unclosed is None else [*blocks, unclosed], function)
    if nested < MAX_NESTED:
        if rest is not None and FENCE_LINE.search(rest):
            yield from _texts(rest, function, nested + 1)
        if not solved and QUOTE_MARK.search(text):
            yield from _texts(QUOTE_MARK.sub("", text), function, nested + 1)
        if not solved and "<pre" in text:
            yield from _html_blocks(text)
    if not closed:
        yield from islice(_unfenced(text), 1)
    if not solved:
        yield from _blocks(_loosely_fenced_blocks(text), function)
        yield from _unfenced("\n".join(line for line in text.split("\n") if not FENCE.match(line)))
        yield from (code for _, code in ONE_LINE.findall(text) if _solves(code, function))


def _blocks(closed: list[str], function: str) -> Generator[str, None, bool]:
    """Yield the blocks, last first: first those that define the function at the top level, also with the blocks that
    they need, then all. Returns whether a block defines the function."""
    blocks = [_dedent(inner) for block in closed for inner in _with_inner_blocks(block)]
    solving = [number for number in reversed(range(len(blocks))) if _solves(blocks[number], function)]
    for place, number in enumerate(solving):
        if place < MAX_TRIED:
            yield "".join(_with_needed(blocks, number, function))
        yield blocks[number]
    yield from reversed(blocks)
    return bool(solving)


def _with_inner_blocks(block: str, nested: int = 0) -> Iterator[str]:
    """The blocks in a block of Markdown, then the block itself, which may be code all the same."""
    if nested < MAX_NESTED and FENCE_LINE.search(block):
        closed, rest = _fenced_blocks(block)
        for inner in closed if rest is None else [*closed, rest]:
            yield from _with_inner_blocks(inner, nested + 1)
    yield block


def _html_blocks(text: str) -> Iterator[str]:
    """The texts of HTML's `<pre>`, last first."""
    for part in reversed(text.split("<pre")[1:]):
        yield html.unescape(HTML_CODE.sub("", part.partition(">")[2].partition("</pre>")[0]))


def _with_needed(blocks: list[str], number: int, function: str) -> Iterator[str]:
    """A block and those before and after it that import or define, at the top level, a name that is used and not
    defined. A block that defines the function is another solution, one that calls it at the top level an example."""
    lacking, needed = set(WORD.findall(blocks[number])) - _provided(blocks[number]), {number}
    example = re.compile(rf"^(?=\S)[^\n]*\b{re.escape(function)}[ \t]*\(", re.MULTILINE)
    for other in [*range(len(blocks) - 1, number, -1), *range(number - 1, -1, -1)]:
        text = blocks[other]
        provided = _provided(text)
        other_solution = _defines(text, function) or FENCE_LINE.search(text) or example.search(text)
        if provided & (lacking | {"*"}) and not other_solution:
            needed.add(other)
            lacking = (lacking | set(WORD.findall(text))) - provided
    return (blocks[one] for one in sorted(needed))


def _provided(block: str) -> set[str]:
    """The names that a block imports, defines or assigns at the top level; "*" for an import of all names."""
    names = set(DEFINITION.findall(block)).union(*_targets(block))
    for statement in IMPORT_STATEMENT.findall(block):
        names |= set(WORD.findall(statement)) - KEYWORDS
        if statement.rstrip().endswith("*"):
            names.add("*")
    return names


def _targets(text: str) -> Iterator[set[str]]:
    """The names that each assignment at the top level binds."""
    for match in TARGETS.finditer(text):
        if not match[0][0].isspace():
            yield set(WORD.findall(ANNOTATION.sub("", match[1])))


def _fenced_blocks(text: str, keep_strings: bool = False) -> tuple[list[str], str | None]:
    """(texts of the closed fences, text of a last fence that is never closed or None). The closing fence is at most
    three columns further right than the opening one, so a fence in a docstring does not close.

    Args:
        text: Text of Markdown.
        keep_strings: Whether no fence in a string of several lines closes, wherever on its line it is.
    """
    closed: list[str] = []
    current: list[str] | None = None
    mark, margin, quote = "", 0, ""
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if current is None:
            if fence:
                margin, mark, current, quote = len(fence.group(1).expandtabs(4)), fence.group(2), [], ""
        elif fence and not quote and _closes(fence, mark, margin):
            closed.append("\n".join(current) + "\n")
            current = None
        else:
            current.append(line)
            for found in TRIPLE_QUOTE.findall(line) if keep_strings else ():
                quote = "" if found == quote else quote or found
    return closed, None if current is None else "\n".join(current) + "\n"


def _closes(fence: re.Match, mark: str, margin: int) -> bool:
    indent, own, after = fence.groups()
    alike = own[:3] == mark[:3] and len(own) >= len(mark)
    return alike and not after.strip() and len(indent.expandtabs(4)) <= margin + 3


def _loosely_fenced_blocks(text: str) -> list[str]:
    """Texts of fences by a laxer rule: a fence may open after words on its line and close anywhere."""
    blocks: list[str] = []
    current: list[str] | None = None
    mark = ""
    for line in text.split("\n"):
        if current is None:
            opening = LOOSE_OPENING.match(line)
            if opening:
                mark, current = opening.group(2)[:3], []
        elif mark in line:
            current.append(line[: line.index(mark)])
            blocks.append("\n".join(current) + "\n")
            current = None
        else:
            current.append(line)
    return blocks if current is None else [*blocks, "\n".join(current) + "\n"]


def _unfenced(text: str) -> Iterator[str]:
    """Yield the whole text without single words before and after it; then, for each of the first lines that may be
    code, the text from that line up to the first line of prose, and the text from that line to the end."""
    lines = text.lstrip(" ").split("\n")
    all_filled = [number for number, line in enumerate(lines) if line.strip()]
    filled = list(dropwhile(lambda number: LONE_WORD.match(lines[number]), all_filled))
    while filled and LONE_WORD.match(lines[filled[-1]]) and not lines[filled[-1]][:1].isspace():
        filled.pop()
    if not filled:
        return
    yield text.lstrip(" ") if len(filled) == len(all_filled) else "\n".join(lines[filled[0] : filled[-1] + 1]) + "\n"
    if all(CODE_LINE.match(lines[number]) for number in filled):
        return
    starts = [
        number for number in filled if CODE_START.match(lines[number].lstrip()) or ASSIGNMENT.match(lines[number])
    ]
    for start in starts[:MAX_TRIED]:
        rest = "\n".join(lines[start:]) + "\n"
        yield _until_prose(rest)
        yield rest


def _until_prose(text: str) -> str:
    """The text up to the first line that reads as prose."""
    lines = _dedent(text).split("\n")
    end = next((i for i, line in enumerate(lines) if line.strip() and not CODE_LINE.match(line)), len(lines))
    return "\n".join(lines[:end]) + "\n"


def _dedent(text: str) -> str:
    """The text without the indentation of its first line that is not empty."""
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    margin = first[: len(first) - len(first.lstrip())]
    if not margin:
        return text
    return "\n".join(line[len(margin) :] if line.startswith(margin) else line for line in lines)
