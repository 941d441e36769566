"""Tailwind's files, which these tests read."""

import pytest

from tests.support.browsers import page_files_or_skip


@pytest.fixture(scope="session", autouse=True)
def page_files():
    page_files_or_skip()
