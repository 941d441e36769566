"""One Chromium that draws one page after another.

Pages without scripts share a tab: nothing of one is left when the next one opens, because nothing of it could run or
store anything. A page with scripts gets a profile of its own that is thrown away after it. Behind each tab's own guard
stand names that resolve to nothing and a proxy that is not there (`driver.CHROMIUM_FLAGS`), and
the page's Content-Security-Policy (`scripts.policy`).
"""

import json
import time
import urllib.request

from sweet_rl.rendering import scripts
from sweet_rl.rendering.connection import Connection
from sweet_rl.rendering.driver import Driver
from sweet_rl.rendering.failures import DrawingFailed
from sweet_rl.rendering.settings import MAX_MEMORY, Drawing, Settings
from sweet_rl.rendering.tab import Tab

START_SECONDS = 60


class Chromium:
    """A running Chromium. Not for several threads at once; after a DrawingFailed it must be ended."""

    def __init__(self, program: str, settings: Settings) -> None:
        self.settings = settings
        self._driver = Driver("chromium", program)
        try:
            self._host = self._driver.selenium.capabilities["goog:chromeOptions"]["debuggerAddress"]
            deadline = time.monotonic() + START_SECONDS
            without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with without_proxy.open(f"http://{self._host}/json/version", timeout=10) as answer:
                address = json.load(answer)["webSocketDebuggerUrl"]
            self._devtools = Connection(address, deadline, lambda method, event: None, self._check_memory)
            self._devtools.call("Browser.setDownloadBehavior", behavior="deny")
            self._static = self._tab(self._driver.selenium.current_window_handle, scripted=False, deadline=deadline)
        except BaseException:
            self._driver.end()
            raise

    def draw(self, page: str, with_layout: bool, deadline: float) -> Drawing:
        """The page's picture (and boxes). Raises DrawingFailed, after which this browser must be ended."""
        if not self.settings.javascript and not scripts.uses_play_script(page):
            return self._static.draw(page, with_layout, deadline)
        self._devtools.deadline = deadline
        profile = self._devtools.call("Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        self._devtools.call("Browser.setDownloadBehavior", behavior="deny", browserContextId=profile)
        target = self._devtools.call("Target.createTarget", url="about:blank", browserContextId=profile)["targetId"]
        tab = self._tab(target, scripted=True, deadline=deadline)
        drawing = tab.draw(page, with_layout, deadline)
        tab.close()
        self._devtools.call("Target.disposeBrowserContext", browserContextId=profile)
        return drawing

    def _tab(self, target: str, scripted: bool, deadline: float) -> Tab:
        return Tab(f"ws://{self._host}/devtools/page/{target}", self.settings, scripted, deadline, self._check_memory)

    def _check_memory(self) -> None:
        if self._driver.memory() > MAX_MEMORY:
            raise DrawingFailed("memory", f"the page made the browser use more than {MAX_MEMORY >> 20} MB")

    def end(self) -> None:
        """Ends the browser, whatever state it is in."""
        self._driver.end()
