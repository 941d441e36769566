"""Names of servers, and files of them."""

import pytest

from sweet_rl.errors import UserError
from sweet_rl.models.hosts import Hosts, base_url


def test_hostnames_become_urls():
    assert base_url("node1") == "http://node1:8000/v1"
    assert base_url("node1:9") == "http://node1:9/v1"
    assert base_url("https://api.example.org/v1/") == "https://api.example.org/v1"
    for name in (" ", "ftp://node1", "a b", "node1:port"):
        with pytest.raises(UserError):
            base_url(name)


def test_a_changed_file_is_read_again_and_one_that_cannot_be_used_changes_nothing(tmp_path):
    file = tmp_path / "hosts.txt"
    file.write_text("# ours\nnode1  # the first\n\nnode2\nnode1\n")
    hosts = Hosts([f"@{file}", "node3"])
    assert hosts.urls == [f"http://{name}:8000/v1" for name in ("node3", "node1", "node2")]
    assert hosts.may_change and not hosts.changed()
    for text in ("no server: %%\n", ""):
        file.write_text(text)
        assert not hosts.changed() and len(hosts.urls) == 3
    file.unlink()
    assert not hosts.changed() and len(hosts.urls) == 3
    file.write_text("node2\n")
    assert hosts.changed() and hosts.urls == ["http://node3:8000/v1", "http://node2:8000/v1"]
    assert not Hosts(["node1"]).may_change


@pytest.mark.parametrize(
    "text, message", [(None, "cannot be read"), ("# nobody\n", "names none"), ("a b\n", "no server")]
)
def test_a_file_that_names_no_servers_is_an_error_at_the_start(tmp_path, text, message):
    file = tmp_path / "hosts.txt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=message):
        Hosts([f"@{file}"])
