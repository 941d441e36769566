"""Find the code in an answer: fences and prose around it handled as a person would."""

import re

ANSWER_MARKER = re.compile(r"^[ \t]*I WANT TO ANSWER:", re.MULTILINE)
FENCE = re.compile(r"[ \t]*(```+|~~~+)(.*)$")
CODE_START = re.compile(r"(import |from \w[\w.]* import|def |async def |class |@\w)")
CODE_LINE = re.compile(
    r"\s|[#@)\]}]|\"\"\"|\'\'\'|(?:import|from|def|class|if|elif|else|for|while|try|except|finally|with|async)\b"
    r"|[A-Za-z_][\w.]*\(|[A-Za-z_][\w.\[\]'\", ]*[-+*/|&]?=|(?:pass|assert)\b"
)
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")


def function_name(reference: str, test_cases: dict[str, str]) -> str:
    """The function that the test calls call: the last one that the reference defines and a call names; or ''."""
    called = set()
    for call in test_cases.values():
        called.update(re.findall(r"([A-Za-z_]\w*)\s*\(", call))
    defined = re.findall(r"^(?:async[ \t]+)?def[ \t]+(\w+)", reference, re.MULTILINE)
    return next((name for name in reversed(defined) if name in called), "")


def code_candidates(answer: str, function: str) -> list[str]:
    """Texts in an answer that may be its code, best first; the first that is Python is the one to run.

    The last closed fence that defines the function, then one never closed. Without fences the whole text (prose
    is no Python), then from the first line of code on, without the prose that follows and with it. Texts that do
    not define the function are no candidates. Nothing here executes or parses the text as Python.
    """
    answer = ANSWER_MARKER.split(answer.replace("\r\n", "\n"))[-1]
    closed, rest = _fenced_blocks(answer)
    candidates = [block for block in reversed(closed) if _defines(block, function)]
    if rest is not None:
        candidates.append(rest)
    if not closed and rest is None:
        candidates += _unfenced(answer)
    return [_dedent(text) for text in candidates if _defines(text, function)]


def imported_names(code: str) -> set[str]:
    """Dotted names of the modules that a text imports, anywhere in it."""
    names = set()
    for module, modules in IMPORT.findall(code):
        for name in [module] if module else modules.split(","):
            name = name.strip().split(" ")[0].strip(".")
            if name:
                names.add(name)
    return names


def call_prelude(reference: str, test_cases: dict[str, str]) -> str:
    """The reference's one-line top-level imports, where a test call names something that they bring; else ''."""
    lines = re.findall(r"^(?:import|from)[ \t][^\n(\\]+$", reference, re.MULTILINE)
    words = {word for call in test_cases.values() for word in WORD.findall(call)}
    wanted = [line for line in lines if words & (set(WORD.findall(line)) - {"import", "from", "as"})]
    return "\n".join(wanted)


def _defines(text: str, function: str) -> bool:
    name = re.escape(function) if function else r"\w+"
    return (
        re.search(
            rf"(?:^|[;\n])[ \t]*(?:(?:async[ \t]+)?def[ \t]+{name}\b|class[ \t]+{name}\b|{name}[ \t]*[:=])",
            text,
        )
        is not None
    )


def _fenced_blocks(text: str) -> tuple[list[str], str | None]:
    """(texts of the closed fences, text of a last fence that is never closed or None)."""
    closed, current, mark = [], None, ""
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if current is None:
            if fence:
                mark, current = fence.group(1), []
        elif (
            fence and fence.group(1)[:3] == mark[:3] and len(fence.group(1)) >= len(mark) and not fence.group(2).strip()
        ):
            closed.append("\n".join(current) + "\n")
            current = None
        else:
            current.append(line)
    return closed, None if current is None else "\n".join(current) + "\n"


def _unfenced(text: str) -> list[str]:
    """The whole text, that from its first line of code up to the first that reads as prose, and all from there on."""
    lines = text.lstrip(" ").split("\n")
    first = next((i for i, line in enumerate(lines) if CODE_START.match(line.lstrip())), None)
    if first is None:
        return [text]
    lines = _dedent("\n".join(lines[first:])).split("\n")
    end = next((i for i, line in enumerate(lines) if line.strip() and not CODE_LINE.match(line)), len(lines))
    return [text.lstrip(" "), "\n".join(lines[:end]) + "\n", "\n".join(lines) + "\n"]


def _dedent(text: str) -> str:
    """The text without the indentation of its first line that is not empty."""
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    margin = first[: len(first) - len(first.lstrip())]
    if not margin:
        return text
    return "\n".join(line[len(margin) :] if line.startswith(margin) else line for line in lines)
