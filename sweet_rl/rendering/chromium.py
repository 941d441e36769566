"""One Chromium that draws one page after another, over the DevTools protocol.

Pages without scripts share a tab without a cache: none of their code runs, so nothing of one is left when the next one
opens. A page with scripts gets a profile of its own, which is deleted after it; where its own scripts run, it is drawn
twice and refused if the pictures differ. A page is the response to an intercepted request
(`Fetch`) for an address that does not exist; every other request gets a response from `outside` or fails inside the
browser. Behind this stand the page's Content-Security-Policy (`scripts.policy`), and names that resolve to nothing and
a proxy that does not exist (`driver.CHROMIUM_FLAGS`).

Why not Selenium's WebDriver BiDi interception: tried with Chromium 156 and Selenium 4.51 on the 60 development pages
of ColBench. The pixels of the 20 pictures that were compared were the same; the bytes of all 60 differed (BiDi has no
choice of the PNG encoder's speed), at the same number of pages per second. BiDi also has no virtual time (a page with
scripts would differ from run to run), no layout, and no event for a crashed page, and Selenium handles each event
in a new thread without a deadline. All of these would need the DevTools connection again, beside BiDi.
"""

import base64
import json
import math
import time
import urllib.request
from collections.abc import Callable

from sweet_rl.rendering import moving, scripts
from sweet_rl.rendering.browser import DrawingFailed, Rendered, Settings
from sweet_rl.rendering.connection import Connection
from sweet_rl.rendering.driver import START_SECONDS, Driver
from sweet_rl.rendering.outside import ADDRESS, Serving

SCRIPT_TIME = (
    3001  # milliseconds of virtual time that a page's scripts run; a prime, so no interval of a page ends with it
)
PAUSES = 12  # of the virtual clock in the second drawing of a page with scripts, which must give the same picture
PAUSE_SECONDS = 0.02  # of real time, more than a frame of the screen
MAX_WAITS = 3  # times SCRIPT_TIME, for a page that has not loaded by then
ELEMENT = 1  # type of a node of the DOM
MAX_NODES = 100_000  # elements and texts of a page whose layout is asked for
LAYOUT_STYLES = ("visibility", "opacity", "color", "background-color", "background-image", "font-size")
ICON = f"{ADDRESS}favicon.ico"  # which the browser asks for when a page has loaded
START_OF_TIME = 1_700_000_000  # virtual clock when a page opens, in seconds since 1970


class Chromium(Driver):
    """A running Chromium, for one thread. It must be ended after a DrawingFailed."""

    def __init__(self, program: str, settings: Settings) -> None:
        super().__init__("chromium", program)
        self.settings, self._icon_refused = settings, False
        try:
            self._host = self.selenium.capabilities["goog:chromeOptions"]["debuggerAddress"]
            deadline = time.monotonic() + START_SECONDS
            without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with without_proxy.open(f"http://{self._host}/json/version", timeout=10) as answer:
                address = json.load(answer)["webSocketDebuggerUrl"]
            self._devtools = Connection(address, deadline, lambda method, event: None, self.check)
            self._devtools.call("Browser.setDownloadBehavior", behavior="deny")
            self._static = self._tab(self.selenium.current_window_handle, scripted=False, deadline=deadline)
        except BaseException:
            self.end()
            raise

    def draw(self, page: str, with_layout: bool, limit: float, patience: float = 1.0) -> Rendered:
        """The page's picture, and its layout if `with_layout`.

        Args:
            page: HTML.
            with_layout: Whether the layout is wanted.
            limit: Seconds that the page may take.
            patience: Multiple of `limit` that a page gets which has not used that much CPU time.

        Raises:
            DrawingFailed: no picture; this browser must be ended.
        """
        if not self.settings.javascript and not scripts.uses_play_script(page):
            return self._static.draw(page, with_layout, self.start_page(limit, patience))
        if not self._icon_refused:  # an icon's request moves a page's clock by 10 ms; a browser refused once never asks
            self._draw_with_scripts("<title>", False, self.start_page(START_SECONDS, 1.0))
            self._icon_refused = True
        drawing = self._draw_with_scripts(page, with_layout, self.start_page(limit, patience))
        if self.settings.javascript and drawing.png is not None:
            again = self._draw_with_scripts(page, False, self.start_page(limit, patience), pauses=PAUSES)
            if again.png != drawing.png:
                return moving.refusal("the page's scripts do not draw the same picture twice")
        return drawing

    def _draw_with_scripts(self, page: str, with_layout: bool, deadline: float, pauses: int = 0) -> Rendered:
        self._devtools.start(deadline)
        profile = self._devtools.call("Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        self._devtools.call("Browser.setDownloadBehavior", behavior="deny", browserContextId=profile)
        target = self._devtools.call("Target.createTarget", url="about:blank", browserContextId=profile)["targetId"]
        tab = self._tab(target, scripted=True, deadline=deadline)
        drawing = tab.draw(page, with_layout, deadline, pauses)
        tab.close()
        self._devtools.call("Target.disposeBrowserContext", browserContextId=profile)
        return drawing

    def _tab(self, target: str, scripted: bool, deadline: float) -> "_Tab":
        return _Tab(f"ws://{self._host}/devtools/page/{target}", self.settings, scripted, deadline, self.check)


class _Tab:
    """A tab that draws pages whose scripts do not run, one after another, or one page whose scripts do."""

    def __init__(
        self, address: str, settings: Settings, scripted: bool, deadline: float, check: Callable[[], None]
    ) -> None:
        self.settings, self._scripted = settings, scripted
        self._serving = Serving(settings.javascript)
        self._loaded: set[str] = set()
        self._loading: set[str] = set()  # requests without an end
        self._drawings: list[dict] = []  # SVG pictures of the page: the events of their responses
        self._frames = False  # whether the page holds other pages
        self._time_is_up = False
        self._devtools = Connection(address, deadline, self._on_event, check)
        self._prepare()

    def _prepare(self) -> None:
        call = self._devtools.call
        for domain in ("Page", "Inspector", "DOM", "DOMSnapshot", "Animation", "Network"):
            call(f"{domain}.enable")
        call("Page.setLifecycleEventsEnabled", enabled=True)
        call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        call("Network.setCacheDisabled", cacheDisabled=True)  # what an earlier page loaded would be there sooner
        call("Animation.setPlaybackRate", playbackRate=0)
        call("Emulation.setFocusEmulationEnabled", enabled=True)
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

    def draw(self, page: str, with_layout: bool, deadline: float, pauses: int = 0) -> Rendered:
        """The page's picture (and layout). Raises DrawingFailed, after which the tab must not be used again.

        Args:
            page: HTML.
            with_layout: Whether the layout is wanted.
            deadline: Time limit (of time.monotonic()).
            pauses: Number of times that the virtual clock stands for `PAUSE_SECONDS` while real time goes on.
        """
        devtools = self._devtools
        devtools.start(deadline)
        self._open(page, pauses)
        if self._scripted:  # no script sees what follows
            devtools.send("Emulation.setScriptExecutionDisabled", value=True)
            devtools.send("Page.stopLoading")  # a refresh that still waits
        steady_fonts = self._settle()
        devtools.wait(lambda: not self._loading)  # for what the end of an animation shows
        if not steady_fonts or not self._stands_still():
            return moving.refusal("the page has a style or a font that is drawn or not by the moment")
        size = devtools.call("Page.getLayoutMetrics")["cssContentSize"]
        if self._scripted:  # with a clock that stands the picture sometimes never comes
            devtools.send("Emulation.setVirtualTimePolicy", policy="advance")
        width = self.settings.width
        height = min(max(math.ceil(size["height"]), self.settings.height), self.settings.max_height)
        shot = devtools.call(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            optimizeForSpeed=True,
            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
        )
        if self._may_have_moved():
            return moving.refusal(moving.DRAWING)
        layout = None
        if with_layout:
            layout = devtools.call("DOMSnapshot.captureSnapshot", computedStyles=LAYOUT_STYLES)
            if len(layout["documents"][0]["nodes"]["nodeType"]) > MAX_NODES:
                raise DrawingFailed("too_large", f"the page has more than {MAX_NODES:,} elements and texts", True)
        return Rendered(base64.b64decode(shot["data"]), width, height, None, layout)

    def _open(self, page: str, pauses: int) -> None:
        self._serving.open(page)
        self._loaded.clear()
        self._loading.clear()
        self._drawings.clear()
        self._frames = False
        opened = self._devtools.call("Page.navigate", url=ADDRESS)
        if "errorText" in opened:
            raise DrawingFailed("crashed", f"the browser did not open the page: {opened['errorText']}")
        if not self._scripted:
            self._devtools.wait(lambda: opened["loaderId"] in self._loaded)
            return
        for _ in range(MAX_WAITS):  # a page whose script tries to leave may never have loaded
            for _ in range(pauses + 1):
                self._time_is_up = False
                budget = SCRIPT_TIME / (pauses + 1)
                self._devtools.send(
                    "Emulation.setVirtualTimePolicy", policy="pauseIfNetworkFetchesPending", budget=budget
                )
                self._devtools.wait(lambda: self._time_is_up)
                time.sleep(PAUSE_SECONDS if pauses else 0)
            if opened["loaderId"] in self._loaded:
                return

    def _settle(self) -> bool:
        """Stops all movement, in every frame; returns whether all fonts are drawn in any case.

        An isolated world is needed only if scripts of the page ran.
        """
        if not self._scripted and not self._frames:
            return self._run_settle()
        frames, steady = [self._devtools.call("Page.getFrameTree")["frameTree"]], True
        for frame in frames:
            frames.extend(frame.get("childFrames", []))
            world = self._devtools.call("Page.createIsolatedWorld", frameId=frame["frame"]["id"])["executionContextId"]
            steady &= self._run_settle(contextId=world)
        return steady

    def _run_settle(self, **where: int) -> bool:
        answer = self._devtools.call(
            "Runtime.evaluate", expression=scripts.SETTLE, awaitPromise=True, silent=True, **where
        )
        return answer["result"].get("value") is True

    def _stands_still(self) -> bool:
        """Whether the properties of `scripts.STILL` have its values, also in pseudo-elements and inside controls."""
        snapshot = self._devtools.call(  # deprecated; its successor leaves out what is inside controls
            "DOMSnapshot.getSnapshot", computedStyleWhitelist=list(scripts.STILL), includeUserAgentShadowTree=True
        )
        nodes, styles = snapshot["domNodes"], snapshot["computedStyles"]
        if any(node.get("shadowRootType") in ("open", "closed") for node in nodes):
            return False  # `scripts.SETTLE` does not reach into it
        used = {  # not those of texts, which keep what does not concern them
            drawn["styleIndex"]
            for drawn in snapshot["layoutTreeNodes"]
            if "styleIndex" in drawn and nodes[drawn["domNodeIndex"]]["nodeType"] == ELEMENT
        }
        return all(
            style["value"] in scripts.STILL[style["name"]] for number in used for style in styles[number]["properties"]
        )

    def _may_have_moved(self) -> bool:
        """Whether an SVG picture of the page may move: it is a document of its own, which nothing here can stop."""
        self._devtools.call("Page.getLayoutMetrics")  # an answer of the page, after the events of what was drawn
        for event in self._drawings:
            answer = self._devtools.call("Network.getResponseBody", requestId=event["requestId"])
            body = base64.b64decode(answer["body"]) if answer["base64Encoded"] else answer["body"].encode()
            if moving.moves(body, event["response"].get("charset", "")):
                return True
        return False

    def _on_event(self, method: str, event: dict) -> None:
        if method == "Fetch.requestPaused":
            self._respond(event)
        elif method == "Network.responseReceived" and event["response"]["mimeType"] == "image/svg+xml":
            if not event["response"]["url"].startswith("http"):  # these are of `outside`
                self._drawings.append(event)
        elif method == "Network.requestWillBeSent":
            self._loading.add(event["requestId"])
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            self._loading.discard(event["requestId"])
        elif method == "Page.lifecycleEvent" and event["name"] == "load":
            self._loaded.add(event["loaderId"])
        elif method == "Page.frameNavigated" and "parentId" not in event["frame"]:
            self._loading &= {event["frame"]["loaderId"]}  # an icon of the page before may never end
            self._drawings.clear()
        elif method == "Page.frameAttached":
            self._frames = True
        elif method == "Emulation.virtualTimeBudgetExpired":
            self._time_is_up = True
        elif method == "Page.javascriptDialogOpening":
            self._devtools.send("Page.handleJavaScriptDialog", accept=False)
        elif method == "Inspector.targetCrashed":
            raise DrawingFailed("crashed", "the page crashed the browser")

    def _respond(self, event: dict) -> None:
        number, kind = event["requestId"], event["resourceType"].lower().replace("stylesheet", "style")
        resource = self._serving.answer(event["request"]["url"], kind)
        if resource is None and event["request"]["url"] == ICON:
            self._devtools.send("Fetch.fulfillRequest", requestId=number, responseCode=404)  # it is not asked for again
            return
        if resource is None:
            reason = "Aborted" if kind == "document" else "AddressUnreachable"  # Aborted: the present page stays
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
