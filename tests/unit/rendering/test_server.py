"""What the server of pages answers, asked as a browser asks it."""

import http.client
import ssl

import pytest

from sweet_rl.rendering.server import PageServer

TAILWIND = "/npm/tailwindcss@2.2.19/dist/tailwind.min.css"


@pytest.fixture
def server():
    made = PageServer()
    yield made
    made.close()


def ask(server, host, path="/", tls=False, **headers):
    """Status, body and headers of the response for an address of `host`."""
    if tls:
        trusting = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", server.server_port, timeout=60, context=trusting)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", path, headers={"Host": host, **headers})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body, response.headers


def test_a_page_is_at_its_own_address_only_and_only_while_it_is_drawn(server):
    with server.serving("<p>reference") as reference, server.serving("<p>answer") as answer:
        assert reference != answer
        host = answer.removeprefix("http://")
        status, body, headers = ask(server, host)
        assert (status, body, headers["Content-Type"]) == (200, b"<p>answer", "text/html; charset=utf-8")
        assert ask(server, host, "/other")[0] == ask(server, "page.invalid")[0] == 404
    assert ask(server, host)[0] == 404


@pytest.mark.parametrize(
    "page, scripts",
    [
        ("<p class=x>", ""),
        ("<script>1</script>", " allow-scripts"),
        ("<body onload='f()'>", " allow-scripts"),
        ("<iframe srcdoc='&lt;script>1&lt;/script>'>", " allow-scripts"),
    ],
)
def test_a_page_may_run_its_scripts_but_open_nothing(server, page, scripts):
    with server.serving(page) as origin:
        policy = ask(server, origin.removeprefix("http://"))[2]["Content-Security-Policy"]
    assert policy == f"sandbox allow-same-origin{scripts}; webrtc 'block'"


@pytest.mark.parametrize("tls", [False, True])
def test_every_other_host_and_address_gives_the_package_s_files_or_nothing(server, tls):
    assert ask(server, "cdn.jsdelivr.net", TAILWIND, tls)[1].startswith(b"/*! tailwindcss v2.2.19")
    assert ask(server, "picsum.photos:8443", "/30/20", tls)[1].startswith(b"<svg")
    for host, path in {"example.com": "/", "127.0.0.1:80": "/etc/passwd", "[::1]": "/", "localhost": "/"}.items():
        assert ask(server, host, path, tls)[:2] == (404, b"")
