"""Draws hostile pages on a machine where every packet is seen; prints one JSON line per page.

    unshare -Urnm python -m tests.support.trap

Each page is drawn once, by one browser, which is replaced if the page fails; after each follows an honest page.

In a network namespace of its own every address is this machine (`ip route add local default`), the name server too:
a connection to anywhere arrives here, and a packet socket counts it. With the argument `plain` no namespace is
needed, and only a server on 127.0.0.1 counts. The first lines are controls: the trap sees a socket and a browser that
nothing confines.
"""

import hashlib
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

from sweet_rl.rendering.browser import find_browser
from sweet_rl.rendering.rendered import DrawingFailed, Rendered
from sweet_rl.rendering.renderer import PageRenderer
from tests.support.hostile_pages import ENDLESS, hostile_pages

LIMIT = 0.5  # seconds per page that never ends
PATIENCE = 60.0  # seconds per other page, however busy the machine is
HONEST = """<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">
<body class="bg-gray-100"><h1 style="padding:20px;color:#b91c1c">An honest page</h1>
<a href="">link</a><img src="https://picsum.photos/id/48/300/200"></body>"""


class Trap:
    """Counts TCP connections and UDP packets to its port and, in a namespace, every packet to another machine."""

    def __init__(self, namespace: bool) -> None:
        self.seen: list[str] = []
        datagrams = socket.socket(type=socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", 0))
        self.port = datagrams.getsockname()[1]
        threading.Thread(target=self._receive, args=(datagrams,), daemon=True).start()
        for host in ("127.0.0.1", "::1") if socket.has_ipv6 else ("127.0.0.1",):
            try:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                streams = socket.create_server((host, self.port), family=family)
            except OSError:
                continue  # a machine without this family
            threading.Thread(target=self._accept, args=(streams,), daemon=True).start()
        if namespace:
            packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            threading.Thread(target=self._sniff, args=(packets,), daemon=True).start()

    def _accept(self, streams: socket.socket) -> None:
        while True:
            connection, _ = streams.accept()
            connection.settimeout(0.3)
            try:
                self.seen.append(f"connection: {connection.recv(200)!r}")
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>from outside")
            except OSError:
                self.seen.append("connection without a request")
            connection.close()

    def _receive(self, datagrams: socket.socket) -> None:
        while True:
            self.seen.append(f"datagram: {datagrams.recv(200)!r}")

    def _sniff(self, packets: socket.socket) -> None:
        while True:
            packet, (_, kind, direction, *_) = packets.recvfrom(65535)
            if direction != socket.PACKET_OUTGOING:
                continue
            if kind == 0x0800:
                target, protocol = socket.inet_ntoa(packet[16:20]), packet[9]
                start = 4 * (packet[0] & 15)
            elif kind == 0x86DD:
                target, protocol, start = socket.inet_ntop(socket.AF_INET6, packet[24:40]), packet[6], 40
            else:
                self.seen.append(f"a frame of kind {kind:#x}")
                continue
            if target not in ("127.0.0.1", "::1") or protocol != socket.IPPROTO_TCP:  # other packets drive the browser
                ports = struct.unpack(">HH", packet[start : start + 4]) if protocol in (6, 17) else ()
                if protocol == socket.IPPROTO_ICMPV6 and target.startswith("ff02"):
                    continue  # the kernel itself, finding out who is there
                self.seen.append(f"packet to {target} {ports} protocol {protocol}")


def enter_namespace() -> None:
    """Makes every address this machine's own; needs the namespaces of `unshare -Urnm`."""
    for command in ("link set lo up", "route add local default dev lo", "-6 route add local default dev lo"):
        subprocess.run(["ip", *command.split()], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as names:
        names.write("nameserver 203.0.113.53\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", names.name, "/etc/resolv.conf"], check=True)


def open_unconfined(port: int, folder: str) -> None:
    """Opens a page that links outside in a browser without our settings."""
    options = webdriver.ChromeOptions()
    options.binary_location = find_browser()
    for flag in ("--headless=new", "--disable-dev-shm-usage", "--no-sandbox", f"--user-data-dir={folder}/profile"):
        options.add_argument(flag)
    page = Path(folder, "page.html")
    page.write_text(f'<body><img src="http://127.0.0.1:{port}/a"><img src="http://trap{port}.example.com/b">')
    with webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver"))) as driver:
        driver.set_page_load_timeout(3)
        try:
            driver.get(page.as_uri())
        except WebDriverException:
            pass  # where its links lead nowhere, the page may never have loaded
        time.sleep(0.5)


def main(plain: bool) -> None:
    """Prints the controls, a line for each page, and one for what came after the last."""
    if not plain:
        enter_namespace()
    trap = Trap(namespace=not plain)
    try:
        socket.getaddrinfo("control.example.com", 80)
    except OSError:
        pass
    with socket.create_connection(("127.0.0.1", trap.port)) as own:
        own.sendall(b"control")
    time.sleep(0.5)
    print(json.dumps({"name": "control", "seen": trap.seen[:10]}), flush=True)
    trap.seen.clear()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        open_unconfined(trap.port, folder)
    print(json.dumps({"name": "unconfined", "seen": trap.seen[:20]}), flush=True)
    time.sleep(1)
    trap.seen.clear()

    with (
        tempfile.TemporaryDirectory() as folder,
        PageRenderer(1, width=640, height=480, max_height=2000, cache=0) as renderer,
    ):
        Path(folder, "secret.html").write_text("<body style='background:#f0f'>SECRET")
        Path(folder, "secret.css").write_text("html,body{background:#f0f !important}")
        make_picture(Path(folder, "secret.png"))
        (worker,) = renderer._free.queue

        def draw(page: str, limit: float = PATIENCE) -> Rendered:
            try:
                return worker.draw(page, limit)
            except DrawingFailed as failed:
                return Rendered(None, 0, 0, {"kind": failed.kind, "message": str(failed)})

        honest = draw(HONEST)
        assert honest.png, honest.failure
        left = set(os.listdir(Path.home()))
        for name, page in hostile_pages(trap.port, folder).items():
            started = time.monotonic()
            drawn = draw(page, LIMIT if name in ENDLESS else PATIENCE)
            seconds = time.monotonic() - started
            after = draw(HONEST)
            line = {
                "name": name,
                "seconds": round(seconds, 2),
                "failure": drawn.failure,
                "picture": drawn.png and hashlib.sha256(drawn.png).hexdigest(),
                "magenta": drawn.png is not None and shows_magenta(drawn.png),
                "seen": trap.seen[:10],
                "honest_unchanged": after.png == honest.png,
                "honest_failure": after.failure,
            }
            print(json.dumps(line), flush=True)
            trap.seen.clear()
        last = draw(HONEST)
    time.sleep(0.5)
    left = sorted(set(os.listdir(Path.home())) - left)
    line = {"name": "at the end", "seen": trap.seen[:10], "left": left, "honest_unchanged": last.png == honest.png}
    print(json.dumps(line | {"honest_failure": last.failure}), flush=True)


def make_picture(path: Path) -> None:
    Image.new("RGB", (50, 50), (255, 0, 255)).save(path)


def shows_magenta(png: bytes) -> bool:
    colours = Image.open(io.BytesIO(png)).convert("RGB").getcolors(1 << 24)
    return any(colour == (255, 0, 255) for _, colour in colours)


if __name__ == "__main__":
    main(plain="plain" in sys.argv[1:])
