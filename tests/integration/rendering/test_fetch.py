"""The real packages from npm, by every npm of this machine."""

import pytest

from sweet_rl.errors import UserError
from sweet_rl.rendering import fetch


@pytest.mark.slow
def test_every_npm_of_this_machine_gives_the_published_files(tmp_path, monkeypatch):
    commands = fetch._npm_commands()
    if not commands:
        pytest.skip("there is no npm: pip install -e '.[frontend]' brings one")
    for number, command in enumerate(commands):
        monkeypatch.setenv(fetch.FOLDER_VARIABLE, str(tmp_path / str(number)))
        monkeypatch.setattr(fetch, "_npm_commands", lambda command=command: [command])
        try:
            fetch.fetch()
        except UserError as error:
            pytest.skip(f"npm has no network: {error}")
        assert {path.name for path in (tmp_path / str(number)).iterdir()} == set(fetch.HASHES)
        assert all(fetch.read(name) for name in fetch.HASHES)
