"""A Chromium that Selenium drives: found, started, confined, and killed with all its processes.

It reaches nothing but the page server: every host and port is mapped to it, literal addresses too, and there is no
proxy. What peer connections would send by UDP past this map is shut by a flag and by the policy of each page.
"""

import base64
import logging
import math
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from urllib3.exceptions import HTTPError

from sweet_rl.rendering.rendered import DrawingFailed, Rendered
from sweet_rl.rendering.scripts import may_run_scripts
from sweet_rl.rendering.server import PageServer
from sweet_rl.runs.errors import UserError

MAX_MEMORY = 3 << 30  # bytes of data of one process of the browser
START_SECONDS = 60
POLL_SECONDS = 0.005  # between two looks at whether the page has loaded
INSTALL = (
    "apt-get install -y --no-install-recommends chromium chromium-driver fonts-liberation fonts-dejavu-core "
    "fonts-wqy-zenhei fonts-noto-color-emoji\n"
    "(on macOS: Google Chrome; Selenium itself fetches its driver)."
)
PROGRAMS = (  # last the name that on Ubuntu is a stub, which only says that a snap is needed
    "chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)  # fmt: skip
FLAGS = (
    "--headless=new",
    "--no-proxy-server",  # also of the environment
    "--ignore-certificate-errors",  # the server has one certificate for all hosts
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--incognito",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-lcd-text",
    "--disable-site-isolation-trials",
    "--disable-smooth-scrolling",
    "--disable-features=BackForwardCache,HttpsUpgrades,HttpsFirstBalancedMode,MediaRouter,OptimizationHints,Prerender2,"
    "SpareRendererForSitePerProcess,Translate,WebRtcHideLocalIpsWithMdns",
    "--blink-settings=lazyLoadEnabled=false,imageAnimationPolicy=2",  # moving pictures stand at their start
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
    "--lang=en-US",
)
# Runs before the scripts of a page: the only thing in a tab that one host leaves to the next.
FORGET = "if (top === self) name = ''"
# Not document.readyState, which is "loading" again for ever if a page writes itself anew when it has loaded.
LOADED = "performance.timing.loadEventEnd > 0"
# Runs when the page has loaded; beside scripts of the page in a world of its own, which they cannot change. What they
# do after that (Tailwind's play script writes its styles then) is waited for. Animations as in Playwright's pictures:
# those with an end are finished, the others cancelled.
SETTLE = """(async () => {
  if (!performance.timing.loadEventEnd) return null;  // the driver saw the page before
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  if (document.scripts.length) {
    let changed = performance.now();
    const last = changed + 3000;
    const observer = new MutationObserver(() => { changed = performance.now() });
    observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    while (performance.now() < Math.min(changed + 300, last)) await pause(50);
    observer.disconnect();
  }
  await document.fonts.ready;
  document.activeElement?.blur();  // a caret blinks
  for (const animation of document.getAnimations()) {
    try { animation.finish() } catch { animation.cancel() }
  }
  return [location.origin, document.contentType];
})()"""

logger = logging.getLogger(__name__)


def find_browser() -> str:
    """The program of Chromium or Chrome.

    Raises:
        UserError: There is none; the message has the command that installs one.
    """
    for program in PROGRAMS:
        if path := shutil.which(program):
            return path
    raise UserError(f"Pages are drawn by Chromium, which was not found on this machine. Install it:\n  {INSTALL}")


class Browser:
    """A running Chromium, for one thread. It must be ended after a DrawingFailed.

    Args:
        program: Path of Chromium.
        width, height: Size of the viewport in CSS pixels.
        max_height: Height at which a picture is cut.
        server: Server that answers all its requests.

    Raises:
        UserError: It does not start.
    """

    def __init__(self, program: str, width: int, height: int, max_height: int, server: PageServer) -> None:
        # Not in TMPDIR, because the path of Chromium's socket has to be short.
        self._folder = tempfile.mkdtemp(prefix="sweet_rl_browser_", dir="/tmp")
        self._width, self._height, self._max_height, self._server = width, height, max_height, server
        self._service: webdriver.ChromeService | None = None
        self._watcher: subprocess.Popen | None = None
        timer = threading.Timer(START_SECONDS, self.kill)
        timer.start()
        try:
            data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
            Path(self._folder, "fonts").symlink_to(Path(data, "fonts"))  # of the user
            self._driver = self._start(program)
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            self._devtools("Emulation.setDeviceMetricsOverride", **size)
            self._devtools("Page.addScriptToEvaluateOnNewDocument", source=FORGET)
        except (WebDriverException, HTTPError, OSError) as error:
            self.end()
            raise UserError(
                f"{program} was found but did not start: {_first_line(error)}\n"
                f"It and its driver are installed together by:\n  {INSTALL}"
            ) from error
        except BaseException:
            self.end()
            raise
        finally:
            timer.cancel()

    def draw(self, page: str, limit: float) -> Rendered:
        """The picture of a page (HTML).

        Raises:
            DrawingFailed: There is none, or the page took more than `limit` seconds.
        """
        late = threading.Event()

        def kill() -> None:
            late.set()
            self.kill()

        timer = threading.Timer(limit, kill)
        timer.start()
        try:
            with self._server.serving(page) as origin:
                return self._draw(origin, may_run_scripts(page))
        except (WebDriverException, HTTPError, OSError) as error:
            if late.is_set():
                raise DrawingFailed("timeout", f"the page was not drawn within {limit:g} s") from error
            raise DrawingFailed("crashed", f"the browser gave no picture: {_first_line(error)}") from error
        finally:
            timer.cancel()

    def _draw(self, origin: str, scripted: bool) -> Rendered:
        if scripted:  # other pages cannot read history and cookies
            self._devtools("Page.resetNavigationHistory")
            self._devtools("Network.clearBrowserCookies")
        self._devtools("Page.navigate", url=f"{origin}/")
        while not self._evaluate(LOADED):
            time.sleep(POLL_SECONDS)
        world = {}
        if scripted:
            frame = self._devtools("Page.getFrameTree")["frameTree"]["frame"]["id"]
            world["contextId"] = self._devtools("Page.createIsolatedWorld", frameId=frame)["executionContextId"]
        if self._evaluate(SETTLE, awaitPromise=True, returnByValue=True, **world) != [origin, "text/html"]:
            raise DrawingFailed("left", "the page left its address")
        content = self._devtools("Page.getLayoutMetrics")["cssContentSize"]
        height = min(max(math.ceil(content["height"]), self._height), self._max_height)
        shot = self._devtools(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            optimizeForSpeed=True,
            clip={"x": 0, "y": 0, "width": self._width, "height": height, "scale": 1},
        )
        return Rendered(base64.b64decode(shot["data"]), self._width, height, None)

    def kill(self) -> None:
        """Kills all processes of the browser; ends what another thread waits for."""
        process = getattr(self._service, "process", None)
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the browser and its driver, whatever state they are in, and removes their files."""
        self.kill()
        process = getattr(self._service, "process", None)
        if process is not None:
            process.wait()
            vars(self._service)["process"] = None  # otherwise Selenium's finaliser would try to stop it
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()  # closes its input and waits for its end
        shutil.rmtree(self._folder, ignore_errors=True)

    def _devtools(self, command: str, **parameters: Any) -> dict:
        return self._driver.execute_cdp_cmd(command, parameters)

    def _evaluate(self, expression: str, **parameters: Any) -> Any:
        return self._devtools("Runtime.evaluate", expression=expression, **parameters)["result"].get("value")

    def _start(self, program: str) -> webdriver.Chrome:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        options.ignore_local_proxy_environment_variables()
        options.unhandled_prompt_behavior = "dismiss"
        options.page_load_strategy = "none"  # else the driver looks for a pending load around every command
        options.add_experimental_option("prefs", {"download_restrictions": 3})  # none
        options.add_argument(f"--user-data-dir={self._folder}")
        options.add_argument(f"--host-resolver-rules=MAP * 127.0.0.1:{self._server.server_port}")
        for flag in FLAGS:
            options.add_argument(flag)
        if os.geteuid() != 0:  # Chromium's own sandbox does not start for root
            try:
                return self._start_driver(options)
            except WebDriverException:
                self.kill()
                logger.warning("Chromium does not start here with its own sandbox (containers often forbid namespaces)")
        options.add_argument("--no-sandbox")
        return self._start_driver(options)

    def _start_driver(self, options: webdriver.ChromeOptions) -> webdriver.Chrome:
        own = dict.fromkeys(("TMPDIR", "CHROME_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"), self._folder)
        self._service = webdriver.ChromeService(
            executable_path=shutil.which("chromedriver"),
            # No place and language of the machine, and no folder of the user.
            env={**os.environ, **own, "TZ": "UTC", "LANGUAGE": "en_US", "LC_ALL": "C.UTF-8"},
            # A process group of its own, so that Ctrl-C does not reach it and all of it can be killed.
            popen_kw={"start_new_session": True, "preexec_fn": _limit_memory},
        )
        driver = webdriver.Chrome(options=options, service=self._service)
        self._watch(self._service.process.pid)
        return driver

    def _watch(self, group: int) -> None:
        """Starts a shell that kills the process group if this process dies, and removes the files."""
        self._watcher = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; kill -s KILL -- "-$1" 2>/dev/null; rm -rf -- "$0"', self._folder, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))


def _first_line(error: Exception) -> str:
    text = (getattr(error, "msg", None) or str(error)).strip()
    return text.splitlines()[0] if text else type(error).__name__
