"""The browser that tests use, or a skip that says how to install it."""

import pytest

from sweet_rl.runs.errors import UserError


def renderer_or_skip(**settings):
    """A PageRenderer, or a skip that says how to install what is missing."""
    pytest.importorskip("selenium", reason="pages need: pip install -e '.[frontend]'")
    from sweet_rl.rendering.renderer import PageRenderer

    try:
        return PageRenderer(**settings)
    except UserError as error:
        pytest.skip(str(error))
