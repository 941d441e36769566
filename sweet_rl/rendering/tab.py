"""One tab of Chromium: a page goes in, is kept from the outside, and its picture comes out.

The page is given to the browser by `Fetch` interception as the answer to an address that does not exist; every other
request of the page is answered by `serving` or fails before it leaves the browser.
"""

import base64
import math
from collections.abc import Callable

from sweet_rl.rendering import layout, scripts
from sweet_rl.rendering.connection import Connection
from sweet_rl.rendering.failures import DrawingFailed
from sweet_rl.rendering.serving import ADDRESS, Serving
from sweet_rl.rendering.settings import Drawing, Settings

SCRIPT_TIME = 3000  # milliseconds that the scripts of a page see go by before its picture is taken
MAX_WAITS = 3  # times that long, for a page that has not loaded by then
MAX_NODES = 100_000  # of a page whose boxes are asked for
START_OF_TIME = 1_700_000_000  # what their clock shows when the page opens, in seconds since 1970


class Tab:
    """A tab that draws pages whose scripts do not run, one after another, or one page whose scripts do."""

    def __init__(
        self, address: str, settings: Settings, scripted: bool, deadline: float, idle: Callable[[], None]
    ) -> None:
        self.settings, self._scripted = settings, scripted
        self._serving = Serving(settings.javascript)
        self._loaded: set[str] = set()
        self._frames = False  # whether the page holds others
        self._time_is_up = False
        self._devtools = Connection(address, deadline, self._on_event, idle)
        self._prepare()

    def _prepare(self) -> None:
        call = self._devtools.call
        for domain in ("Page", "Inspector", "DOM", "DOMSnapshot", "Animation"):
            call(f"{domain}.enable")
        call("Page.setLifecycleEventsEnabled", enabled=True)
        call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        call("Animation.setPlaybackRate", playbackRate=0)
        call(
            "Emulation.setDeviceMetricsOverride",
            width=self.settings.width,
            height=self.settings.height,
            deviceScaleFactor=1,
            mobile=False,
        )
        if self._scripted:
            call("Page.addScriptToEvaluateOnNewDocument", source=scripts.STEADY)
            call("Emulation.setVirtualTimePolicy", policy="pause", initialVirtualTime=START_OF_TIME)
        else:
            call("Emulation.setScriptExecutionDisabled", value=True)

    def draw(self, page: str, with_layout: bool, deadline: float) -> Drawing:
        """The page's picture (and boxes). Raises DrawingFailed, after which the tab is of no more use."""
        devtools = self._devtools
        devtools.deadline = deadline
        devtools.forget_answers()
        self._open(page)
        self._settle()
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
            asked = {"computedStyles": layout.STYLES, "includePaintOrder": True}
            snapshot = devtools.call("DOMSnapshot.captureSnapshot", **asked)
            if len(snapshot["documents"][0]["nodes"]["nodeType"]) > MAX_NODES:
                raise DrawingFailed("too_large", f"the page has more than {MAX_NODES:,} elements and texts")
            found = layout.boxes(snapshot)
        return Drawing(base64.b64decode(shot["data"]), width, height, found)

    def _open(self, page: str) -> None:
        self._serving.open(page)
        self._loaded.clear()
        self._frames = False
        opened = self._devtools.call("Page.navigate", url=ADDRESS)
        if "errorText" in opened:
            raise DrawingFailed("crashed", f"the browser did not open the page: {opened['errorText']}")
        if not self._scripted:
            self._devtools.wait(lambda: opened["loaderId"] in self._loaded)
            return
        for _ in range(MAX_WAITS):  # one that left for elsewhere, in vain, never has loaded
            self._time_is_up = False
            self._devtools.send(
                "Emulation.setVirtualTimePolicy", policy="pauseIfNetworkFetchesPending", budget=SCRIPT_TIME
            )
            self._devtools.wait(lambda: self._time_is_up)
            if opened["loaderId"] in self._loaded:
                return

    def _settle(self) -> None:
        """Stops what moves, in every frame. Where nothing of the page ran, its own world is as good as one apart."""
        if not self._scripted and not self._frames:
            self._devtools.send("Runtime.evaluate", expression=scripts.SETTLE, silent=True)
            return
        frames = [self._devtools.call("Page.getFrameTree")["frameTree"]]
        for frame in frames:
            frames.extend(frame.get("childFrames", []))
            world = self._devtools.call("Page.createIsolatedWorld", frameId=frame["frame"]["id"])["executionContextId"]
            self._devtools.send("Runtime.evaluate", expression=scripts.SETTLE, contextId=world, silent=True)

    def _on_event(self, method: str, event: dict) -> None:
        if method == "Fetch.requestPaused":
            self._answer(event)
        elif method == "Page.lifecycleEvent" and event["name"] == "load":
            self._loaded.add(event["loaderId"])
        elif method == "Page.frameAttached":
            self._frames = True
        elif method == "Emulation.virtualTimeBudgetExpired":
            self._time_is_up = True
        elif method == "Page.javascriptDialogOpening":
            self._devtools.send("Page.handleJavaScriptDialog", accept=False)
        elif method == "Inspector.targetCrashed":
            raise DrawingFailed("crashed", "the page crashed the browser")

    def _answer(self, event: dict) -> None:
        number, kind = event["requestId"], event["resourceType"].lower().replace("stylesheet", "style")
        resource = self._serving.answer(event["request"]["url"], kind)
        if resource is None:
            reason = "Aborted" if kind == "document" else "AddressUnreachable"  # a page stays, a picture is broken
            self._devtools.send("Fetch.failRequest", requestId=number, errorReason=reason)
            return
        headers = {"Content-Type": resource.media_type, **resource.headers}
        self._devtools.send(
            "Fetch.fulfillRequest",
            requestId=number,
            responseCode=200,
            responseHeaders=[{"name": name, "value": value} for name, value in headers.items()],
            body=base64.b64encode(resource.body).decode(),
        )

    def close(self) -> None:
        """Closes the connection to the tab, not the tab."""
        self._devtools.close()
