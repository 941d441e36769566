"""One Chromium that draws one page after another, each from an origin of its own and without a network.

The page is given to the browser by `Fetch` interception as the answer to an address that does not exist; every other
request of the page is answered from `outside.resolve` or fails before it leaves the browser. Behind that stand, each
by itself enough: names that resolve to nothing, a proxy that is not there, and the page's Content-Security-Policy.
"""

import base64
import math
import time

from sweet_rl.grading.pages import layout, outside
from sweet_rl.grading.pages.devtools import DevTools
from sweet_rl.grading.pages.driver import Driver
from sweet_rl.grading.pages.failures import DrawingFailed
from sweet_rl.grading.pages.settings import MAX_MEMORY, Drawing, Settings

ADDRESS = "http://page.invalid/"
POLICY = (
    "default-src 'none'; img-src http: https: data: blob:; style-src http: https: data: 'unsafe-inline'; "
    "font-src data:; media-src data: blob:; frame-src 'none'; object-src 'none'; connect-src 'none'; "
    "worker-src 'none'; form-action 'none'; webrtc 'block'"
)
STATIC_POLICY = f"{POLICY}; sandbox"
SCRIPTED_POLICY = (
    f"{POLICY}; script-src http: https: data: blob: 'unsafe-inline' 'unsafe-eval'; sandbox allow-scripts"
)


class Chromium:
    """A running Chromium. Not for several threads at once; after a DrawingFailed of `FATAL` kind it must be ended."""

    def __init__(self, program: str, settings: Settings) -> None:
        self.settings = settings
        self._page = ""
        self._page_wanted = False  # until the browser has asked for it
        self._loaded: set[str] = set()
        self._driver = Driver("chromium", program)
        try:
            capabilities = self._driver.selenium.capabilities
            address = capabilities["goog:chromeOptions"]["debuggerAddress"]
            page = self._driver.selenium.current_window_handle
            self._devtools = DevTools(f"ws://{address}/devtools/page/{page}", self._on_event, self._check_memory)
            self._prepare()
        except BaseException:
            self._driver.end()
            raise

    def _prepare(self) -> None:
        call = self._devtools.call
        for domain in ("Page", "Inspector", "DOM", "DOMSnapshot"):
            call(f"{domain}.enable")
        call("Page.setLifecycleEventsEnabled", enabled=True)
        call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        call("Emulation.setScriptExecutionDisabled", value=not self.settings.javascript)
        call("Browser.setDownloadBehavior", behavior="deny")
        call(
            "Emulation.setDeviceMetricsOverride",
            width=self.settings.width,
            height=self.settings.height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def draw(self, html: str, with_layout: bool, deadline: float) -> Drawing:
        """The page's picture (and boxes). Raises DrawingFailed."""
        devtools = self._devtools
        devtools.deadline = deadline
        devtools.forget_answers()
        self._page, self._page_wanted = html, True
        self._loaded.clear()
        opened = devtools.call("Page.navigate", url=ADDRESS)
        if "errorText" in opened:
            raise DrawingFailed("crashed", f"the browser did not open the page: {opened['errorText']}")
        devtools.wait(lambda: opened["loaderId"] in self._loaded)
        size = devtools.call("Page.getLayoutMetrics")["cssContentSize"]
        width = self.settings.width
        height = min(max(math.ceil(size["height"]), self.settings.height), self.settings.max_height)
        shot = devtools.call(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            optimizeForSpeed=True,
            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
        )
        found = None
        if with_layout:
            found = layout.boxes(
                devtools.call("DOMSnapshot.captureSnapshot", computedStyles=layout.STYLES, includePaintOrder=True)
            )
        return Drawing(base64.b64decode(shot["data"]), width, height, found)

    def _on_event(self, method: str, event: dict) -> None:
        if method == "Fetch.requestPaused":
            self._answer(event)
        elif method == "Page.lifecycleEvent" and event["name"] == "load":
            self._loaded.add(event["loaderId"])
        elif method == "Page.javascriptDialogOpening":
            self._devtools.send("Page.handleJavaScriptDialog", accept=False)
        elif method == "Inspector.targetCrashed":
            raise DrawingFailed("crashed", "the page crashed the browser")

    def _answer(self, event: dict) -> None:
        request, number = event["request"], event["requestId"]
        if self._page_wanted and request["url"] == ADDRESS and event["resourceType"] == "Document":
            policy = SCRIPTED_POLICY if self.settings.javascript else STATIC_POLICY
            self._page_wanted = False
            body = self._page.encode("utf-8", "replace")
            self._fulfil(number, "text/html; charset=utf-8", body, {"Content-Security-Policy": policy})
            return
        resource = None
        if event["resourceType"] in ("Stylesheet", "Image"):
            resource = outside.resolve(request["url"], None if self.settings.javascript else self._page)
        if resource is None:
            navigation = event["resourceType"] == "Document"
            reason = "Aborted" if navigation else "AddressUnreachable"
            self._devtools.send("Fetch.failRequest", requestId=number, errorReason=reason)
        else:
            self._fulfil(number, resource.media_type, resource.body, {"Access-Control-Allow-Origin": "*"})

    def _fulfil(self, number: str, media_type: str, body: bytes, headers: dict[str, str]) -> None:
        self._devtools.send(
            "Fetch.fulfillRequest",
            requestId=number,
            responseCode=200,
            responseHeaders=[
                {"name": name, "value": value} for name, value in {"Content-Type": media_type, **headers}.items()
            ],
            body=base64.b64encode(body).decode(),
        )

    def _check_memory(self) -> None:
        if self._driver.memory() > MAX_MEMORY:
            raise DrawingFailed("memory", f"the page made the browser use more than {MAX_MEMORY >> 20} MB")

    def alive(self) -> bool:
        """Whether the browser still answers."""
        try:
            self._devtools.deadline = time.monotonic() + 5
            self._devtools.call("Page.getFrameTree")
        except DrawingFailed:
            return False
        return True

    def end(self) -> None:
        """Ends the browser, whatever state it is in."""
        self._devtools.close()
        self._driver.end()
