"""The real packages from npm."""

import pytest

from sweet_rl.rendering import fetch
from sweet_rl.runs.errors import UserError


@pytest.mark.slow
def test_the_npm_of_this_machine_gives_the_published_files(tmp_path, monkeypatch):
    if not fetch._npm_commands():
        pytest.skip("there is no npm: pip install -e '.[frontend]' brings one")
    monkeypatch.setenv(fetch.FOLDER_VARIABLE, str(tmp_path))
    try:
        fetch.fetch()
    except UserError as error:
        pytest.skip(f"npm has no network: {error}")
    assert {path.name for path in tmp_path.iterdir()} == set(fetch.HASHES)
    assert all(fetch.read(name) for name in fetch.HASHES)
