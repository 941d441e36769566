"""Boxes from a snapshot of a layout, which is written here by hand."""

import pytest

from sweet_rl.rendering.layout import STYLES, boxes, colour

LOOK = {
    "visibility": "visible", "opacity": "1", "color": "rgb(1, 2, 3)", "background-color": "rgba(0, 0, 0, 0)",
    "background-image": "none", "font-size": "16px",
}  # fmt: skip


def snapshot(*nodes: tuple) -> dict:
    """(parent, name, kind, look or None, text or None, attributes) for each node, in document order."""
    strings: list[str] = [""]

    def index(text: str) -> int:
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    layout = {"nodeIndex": [], "styles": [], "bounds": [], "text": []}
    for number, (_, _, _, look, text, _) in enumerate(nodes):
        if look is not None:
            layout["nodeIndex"].append(number)
            layout["styles"].append([index((LOOK | look)[name]) for name in STYLES])
            layout["bounds"].append([number, 2 * number, 100, 50])
            layout["text"].append(-1 if text is None else index(text))
    values = {name: {"index": [], "value": []} for name in ("inputValue", "textValue")}
    for number, (_, name, _, _, _, attributes) in enumerate(nodes):
        if name == "INPUT":
            values["inputValue"]["index"].append(number)
            values["inputValue"]["value"].append(index(attributes["value"]) if "value" in attributes else -1)
    tree = {
        "parentIndex": [parent for parent, *_ in nodes],
        "nodeType": [kind for _, _, kind, *_ in nodes],
        "nodeName": [index(name) for _, name, *_ in nodes],
        "attributes": [[index(word) for pair in attributes.items() for word in pair] for *_, attributes in nodes],
        "shadowRootType": {"index": []},
        **values,
    }
    return {"documents": [{"nodes": tree, "layout": layout}], "strings": strings}


def element(parent, name, look=None, **attributes):
    return (parent, name, 1, look or {}, None, attributes)


def text(parent, words, look=None):
    return (parent, "#text", 3, look or {}, words, {})


def test_an_element_has_its_place_and_its_own_text():
    body, paragraph, bold = boxes(
        snapshot(
            element(-1, "HTML"), element(0, "BODY"), element(1, "P"), text(2, " one \n"), element(2, "B"),
            text(4, "two"), text(2, "three"),
        )
    )  # fmt: skip
    texts = [(box["tag"], box["text"]) for box in (body, paragraph, bold)]
    assert texts == [("body", ""), ("p", "one three"), ("b", "two")]
    assert (bold["x"], bold["y"], bold["width"], bold["height"]) == (4, 8, 100, 50)


def test_hidden_elements_are_left_out_and_transparent_ones_with_all_that_is_in_them():
    found = boxes(
        snapshot(
            element(-1, "BODY"), element(0, "P", {"opacity": "0"}), element(1, "B"), text(2, "gone"),
            element(0, "P", {"visibility": "hidden"}), text(4, "gone", {"visibility": "hidden"}), element(4, "I"),
            (0, "P", 1, None, None, {}), element(0, "BR"),
        )
    )  # fmt: skip
    assert [(box["tag"], box["text"]) for box in found] == [("body", ""), ("i", "")]


@pytest.mark.parametrize(
    "attributes, shown",
    [
        ({"value": "typed", "placeholder": "a name"}, "typed"),
        ({"placeholder": "a name"}, "a name"),
        ({"type": "CHECKBOX", "value": "on"}, ""),
    ],
)
def test_a_field_has_its_value_or_its_placeholder_as_text(attributes, shown):
    (field,) = boxes(snapshot(element(-1, "INPUT", **attributes)))
    assert field["text"] == shown


def test_the_look_of_an_element_is_read_from_its_styles_and_attributes():
    look = {"background-color": "rgb(9, 8, 7)", "background-image": 'url("https://x/y.png")', "font-size": "30px"}
    (box,) = boxes(snapshot(element(-1, "A", look)))
    assert (box["background"], box["color"], box["font_size"]) == ((9, 8, 7, 1.0), (1, 2, 3, 1.0), 30.0)
    assert box["image"] == "https://x/y.png"
    (plain,) = boxes(snapshot(element(-1, "IMG", {"background-image": "linear-gradient(red, blue)"}, SRC="p.png")))
    assert (plain["background"], plain["image"]) == (None, "p.png")
    (gradient,) = boxes(snapshot(element(-1, "P", {"background-image": "linear-gradient(red, blue)"})))
    assert gradient["image"] is None


@pytest.mark.parametrize(
    "text, expected",
    [
        ("rgb(1, 2, 3)", (1, 2, 3, 1.0)),
        ("rgba(1, 2, 3, 0.5)", (1, 2, 3, 0.5)),
        ("color(srgb 1 0.5 -0.1 / 0.25)", (255, 128, 0, 0.25)),
        ("color(srgb 2 0 1e-1)", (255, 0, 26, 1.0)),
        ("lab(1 2 3)", None),
        ("none", None),
    ],
)
def test_a_computed_colour_is_read_in_each_notation(text, expected):
    assert colour(text) == expected
