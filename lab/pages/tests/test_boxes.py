"""Computed colours; boxes are read from a real browser in tests/integration/rendering/test_renderer.py."""

import pytest

from sweet_rl.rendering.layout import colour


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
