"""Position and look of each element of a drawn page, from the browser's own layout (DOMSnapshot)."""

import re

from sweet_rl.rendering.rendered import LAYOUT_STYLES

_ELEMENT, _TEXT, _FRAGMENT = 1, 3, 11
_NO_BOX = {"html", "br", "wbr"}


def boxes(snapshot: dict) -> list[dict]:
    """The visible elements of the main document, in document order.

    Args:
        snapshot: Layout of the page (`Rendered.layout`).

    Returns:
        For each element a dict with
        `tag`;
        `text`: its own text as drawn, without its children's; the value or placeholder of an input;
        `x`, `y`, `width`, `height`: CSS pixels from the page's top left;
        `color`, `background`: (r, g, b, alpha), 0..255 and alpha 0..1; None for a transparent background;
        `font_size`: pixels;
        `image`: address of an <img> or of a background picture, or None.
    """
    strings, document = snapshot["strings"], snapshot["documents"][0]
    nodes, layout = document["nodes"], document["layout"]
    parents, kinds = nodes["parentIndex"], nodes["nodeType"]
    owners = _owners(parents, kinds, nodes, strings)

    places: dict[int, int] = {}
    texts: dict[int, str] = {}
    for place, node in enumerate(layout["nodeIndex"]):  # a pseudo-element has an entry for itself and for its text
        places.setdefault(node, place)
        if layout["text"][place] >= 0:
            texts[node] = texts.get(node, "") + strings[layout["text"][place]]
    styles = {
        node: dict(zip(LAYOUT_STYLES, (strings[index] for index in layout["styles"][place]), strict=False))
        for node, place in places.items()
    }
    transparent: set[int] = set()  # opacity 0 hides an element with all that is in it
    listed: dict[int, dict] = {}
    for node in range(len(parents)):
        style = styles.get(node)
        if parents[node] in transparent or (style and style.get("opacity") == "0"):
            transparent.add(node)
            continue
        if style is None:
            continue
        place, owner = places[node], owners[node]
        if owner != node:
            if owner in listed and node in texts and style.get("visibility") != "hidden":
                listed[owner]["text"] += texts[node]
            continue
        tag = strings[nodes["nodeName"][node]].lower()
        x, y, width, height = layout["bounds"][place]
        if style.get("visibility") != "visible" or tag in _NO_BOX:
            continue
        listed[node] = {
            "tag": tag,
            "text": "",
            "x": x,
            "y": y,
            "width": width,
            "height": height,
            **_look(style, _pairs(nodes["attributes"][node], strings)),
        }
    for node, typed in _typed(nodes, strings).items():
        if node in listed:
            listed[node]["text"] = typed
    for box in listed.values():
        box["text"] = " ".join(box["text"].split())
    return list(listed.values())


def _owners(parents: list[int], kinds: list[int], nodes: dict, strings: list[str]) -> list[int]:
    """For each node the index of its element: itself, or the one whose text, pseudo-element or shadow tree it is."""
    owners: list[int] = []
    shadows = set(nodes.get("shadowRootType", {}).get("index", []))
    for node, parent in enumerate(parents):
        inner = parent >= 0 and (parent in shadows or owners[parent] != parent)
        pseudo = strings[nodes["nodeName"][node]].startswith("::")
        if parent >= 0 and (inner or pseudo or kinds[node] in (_TEXT, _FRAGMENT)):
            owners.append(owners[parent])
        else:
            owners.append(node)
    return owners


def _typed(nodes: dict, strings: list[str]) -> dict[int, str]:
    """The content of form fields, which is not text of the document: the value, or else the placeholder."""
    values: dict[int, str] = {}
    for kind in ("inputValue", "textValue"):
        values |= dict(
            zip(nodes[kind]["index"], (strings[i] if i >= 0 else "" for i in nodes[kind]["value"]), strict=True)
        )
    typed = {}
    for node, value in values.items():
        attributes = _pairs(nodes["attributes"][node], strings)
        if attributes.get("type", "").lower() not in ("checkbox", "radio", "range", "color", "image"):
            typed[node] = value or attributes.get("placeholder", "")
    return typed


def _look(style: dict[str, str], attributes: dict[str, str]) -> dict:
    background = colour(style["background-color"])
    picture = re.search(r'url\("((?:[^"\\]|\\.)*)"\)', style["background-image"])
    return {
        "color": colour(style["color"]),
        "background": None if background is None or background[3] == 0 else background,
        "font_size": _pixels(style["font-size"]),
        "image": attributes.get("src") or (picture[1] if picture else None),
    }


def _pairs(indices: list[int], strings: list[str]) -> dict[str, str]:
    return {strings[name].lower(): strings[value] for name, value in zip(indices[::2], indices[1::2], strict=True)}


def colour(text: str) -> tuple[int, int, int, float] | None:
    """(r, g, b, alpha) of a computed colour: `rgb()`, `rgba()` or `color(srgb ...)`; None for another notation."""
    numbers = re.findall(r"-?[0-9.]+(?:e-?[0-9]+)?", text)
    if text.startswith("rgb") and len(numbers) in (3, 4):
        red, green, blue = (round(float(number)) for number in numbers[:3])
    elif text.startswith("color(srgb ") and len(numbers) in (3, 4):
        red, green, blue = (min(max(round(float(number) * 255), 0), 255) for number in numbers[:3])
    else:
        return None
    return red, green, blue, float(numbers[3]) if len(numbers) == 4 else 1.0


def _pixels(text: str) -> float:
    found = re.match(r"[0-9.]+", text)
    return float(found[0]) if found else 0.0
