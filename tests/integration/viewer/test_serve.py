"""The served page: reads what is asked for and nothing else, answers this machine only."""

import http.client
import json
import threading
import time
from dataclasses import replace

import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.page import shell
from sweet_rl.viewer.serve import make_server
from sweet_rl.viewer.show import ViewSettings, open_collection
from tests.support.command_line import write_rows
from tests.support.dialogues import graded
from tests.support.viewer_server import address_of, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    with serving(opened(write_rows(folder / "graded.jsonl", graded()))) as server:
        yield server, folder


def opened(path):
    return open_collection(ViewSettings(str(path)))


PROTECTION = {
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip


def ask(server, path, method="GET", **headers):
    """Status and body of one request, its path sent as it stands."""
    return answer_of(server, path, method, **headers)[:2]


def answer_of(server, path, method="GET", **headers):
    """Status, body and headers of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.putrequest(method, path, skip_host=True)
    headers.setdefault("Host", f"127.0.0.1:{server.server_address[1]}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers


def test_rows_entries_and_search_come_from_the_file(served):
    server, _ = served
    status, body = ask(server, "/index?from=0")
    index = json.loads(body)
    while not index["done"]:
        index = json.loads(ask(server, "/index?from=0")[1])
    assert status == 200 and [row["id"] for row in index["rows"]] == [t.id for t in graded()]
    assert index["summary"]["score"]["tasks"] == 6
    entry = json.loads(ask(server, "/entry/3")[1])
    assert [m["text"] for m in entry["messages"]] == [m["content"] for m in graded()[3].dialogue_history]
    found = json.loads(ask(server, "/search?q=style%20%22guide%20do%22")[1])["found"]
    assert found == [i for i, t in enumerate(graded()) if any("guide do" in m["content"] for m in t.dialogue_history)]


def test_the_page_works_in_a_browser_and_asks_this_server_only(served, window):
    server, _ = served
    window.open(address_of(server))
    window.keys("jj")
    window.shown(2)
    window.keys("/style guide")
    window.wait("document.documentElement.dataset.searched === 'style guide'")
    assert window.texts("#count") == ["12 dialogues"]
    complaints, asked = window.logs()
    assert complaints == []
    assert all(url.startswith((address_of(server), "data:")) for url in asked)


def test_the_place_of_an_entry_follows_what_has_been_read_and_what_is_filtered(tmp_path, window):
    rows = [replace(graded()[i % 2], id=f"d{i}") for i in range(100)]
    with serving(opened(write_rows(tmp_path / "many.jsonl", rows))) as server:
        window.open(address_of(server))
        window.wait("document.getElementById('count').textContent === '100 dialogues'")
        assert window.texts("#position") == ["1 of 100"]
        window.click('[data-show="solved"]')
        assert window.texts("#position") == ["1 of 50"]
        window.click('[data-show="unsolved"]')
        assert window.texts("#position") == ["not among those shown"]


def test_other_hosts_and_other_sites_are_refused(served):
    for headers in (
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "script"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Dest": "empty"},
    ):
        for path in ("/", "/index?from=0", "/entry/0", "/search?q=a"):
            assert ask(served[0], path, **headers)[0] == 403, (headers, path)


def test_a_link_from_elsewhere_opens_the_page_and_only_the_page(served):
    followed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"}
    assert ask(served[0], "/", **followed)[0] == 200
    assert ask(served[0], "/entry/0", **followed)[0] == 403
    assert ask(served[0], "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="iframe")[0] == 403


def test_no_other_address_leads_anywhere(served):
    for path in (
        "/../graded.jsonl", "/graded.jsonl", "//etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/entry/../../x",
        "/entry/-1", "/entry/99", "/entry/1e3", "/entry/0x1", "/index?from=../x", "/index?from=-1", "/picture/../x",
        "/picture/0123456789abcdef", "/entry/%30", "http://evil.example/",
        "http://[::1/", "//[::1/", "//[x]/?from=0", "*",
    ):  # fmt: skip
        status, body = ask(served[0], path)
        assert status == 404 and len(body) < 100, path


def test_only_reading_is_answered_and_the_file_stays_as_it_is(served):
    server, folder = served
    before = (folder / "graded.jsonl").read_bytes()
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert ask(server, "/entry/0", method=method)[0] == 501, method
    assert (folder / "graded.jsonl").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["graded.jsonl"]


def test_it_listens_on_this_machine_only(served):
    assert served[0].server_address[0] == "127.0.0.1"
    assert served[0].socket.getsockname()[0] == "127.0.0.1"


def test_the_served_page_has_the_policy_of_the_shell_and_its_answers_the_headers_that_keep_others_out(served):
    server, _ = served
    _, body, headers = answer_of(server, "/")
    assert body.decode() == shell("graded.jsonl", "", served=True) and "connect-src 'self'" in body.decode()
    for path in ("/", "/entry/0", "/nothing"):
        headers = answer_of(server, path)[2]
        kept = {name: headers[name] for name in PROTECTION}
        assert kept == PROTECTION and "Access-Control-Allow-Origin" not in headers
    assert headers["Cache-Control"] == "no-store" and headers["Server"].strip() == "sweet_rl"


def test_a_bad_line_is_refused_by_its_number_before_anything_is_served(tmp_path):
    path = write_rows(tmp_path / "bad.jsonl", graded()[:2])
    with open(path, "a") as file:
        file.write('{"task": 3, "dialogue_history": []}\n')
    with pytest.raises(UserError, match="bad.jsonl, line 3: the field 'task' is 3"):
        opened(path)


def test_a_port_that_is_taken_is_said(served):
    with pytest.raises(UserError, match="--port"):
        make_server(opened(served[1] / "graded.jsonl"), port=served[0].server_address[1])


def test_rows_are_there_while_the_scan_goes_on(tmp_path):
    path = write_rows(tmp_path / "graded.jsonl", graded())
    collection = opened(path)
    scan, go = collection.scan, threading.Event()

    def slowly():
        for number, entry in enumerate(scan()):
            if number == 5:
                go.wait(60)
            yield entry

    collection.scan = slowly
    with serving(collection) as server:
        index = json.loads(ask(server, "/index?from=0")[1])
        assert len(index["rows"]) == 5 and not index["done"]
        assert json.loads(ask(server, "/entry/4")[1])["id"] == graded()[4].id
        go.set()
        end = time.monotonic() + 60
        while not index["done"]:
            assert time.monotonic() < end
            index = json.loads(ask(server, "/index?from=5")[1])
        assert len(index["rows"]) == 7
