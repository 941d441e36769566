"""Texts of somebody else, such as the names of runs, models and humans, as text in one line of Markdown or LaTeX."""

from __future__ import annotations

import re
import unicodedata

# A _ inside a word is text; an address is a link without any mark, if nothing in it is escaped.
_MARKS = re.compile(r"([\\`*\[\]|~#]|(?<![^\W_])_|_(?![^\W_])|(?<=[a-z]):(?=//)|(?<=www)\.)", re.IGNORECASE)
_HTML = re.compile(r"<(?! )|>|&(?=#?\w+;)")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_LATEX = str.maketrans(
    {
        "%": r"\%",
        "&": r"\&",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "[": "{[}",  # the first cell would be the argument of the \\ or \midrule before it
        "*": "{*}",
    }
)


def one_line(text: str) -> str:
    """The text in one line, without characters that steer a terminal or the direction of writing."""
    visible = "".join(" " if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") else one for one in text)
    return " ".join(visible.split())


def in_markdown(text: str) -> str:
    """The text in one line of Markdown, as it is: no markup, link, table cell or HTML in it counts."""
    return _MARKS.sub(r"\\\1", _HTML.sub(lambda found: _ENTITIES[found[0]], one_line(text)))


def in_latex(text: str) -> str:
    """The text in one line of LaTeX, as it is: no command, comment or cell in it counts."""
    return one_line(text).translate(_LATEX)
