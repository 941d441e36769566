"""One Firefox that draws one page after another, over WebDriver BiDi.

It is confined as Chromium is: every request is intercepted and gets a response from `outside` or fails, the page's
Content-Security-Policy forbids the rest, and behind both stands a proxy that does not exist
(`driver.FIREFOX_SETTINGS`). Firefox has no virtual time: a page whose scripts run is drawn `SCRIPT_SECONDS` after it
has loaded, and what its scripts show of the clock differs from run to run.
"""

import base64
import binascii
import math
import re
import time
from urllib.parse import unquote_to_bytes

from sweet_rl.rendering import moving, scripts
from sweet_rl.rendering.browser import Rendered, Settings
from sweet_rl.rendering.connection import Connection
from sweet_rl.rendering.driver import START_SECONDS, Driver
from sweet_rl.rendering.outside import ADDRESS, Serving

SCRIPT_SECONDS = 1.0
_EVENTS = ("network.beforeRequestSent", "browsingContext.load", "browsingContext.userPromptOpened")
_HEIGHT = """Math.max(document.documentElement.scrollHeight, document.body ? document.body.scrollHeight : 0)"""


class Firefox(Driver):
    """A running Firefox, for one thread. It must be ended after a DrawingFailed."""

    def __init__(self, program: str, settings: Settings) -> None:
        super().__init__("firefox", program)
        self.settings = settings
        self._serving = Serving(settings.javascript)
        self._loaded: set[str] = set()
        self._drawings: set[str] = set()  # addresses of the SVG pictures that the page holds itself
        try:
            address = self.selenium.capabilities["webSocketUrl"]
            deadline = time.monotonic() + START_SECONDS
            self._bidi = Connection(address, deadline, self._on_event, self.check)
            self._bidi.call("session.subscribe", events=list(_EVENTS))
            self._bidi.call("network.addIntercept", phases=["beforeRequestSent"])
            self._static = self.selenium.current_window_handle
            self._set_viewport(self._static)
        except BaseException:
            self.end()
            raise

    def draw(self, page: str, with_layout: bool, limit: float, patience: float = 1.0) -> Rendered:
        """The page's picture, always without a layout; otherwise as `Chromium.draw`."""
        self._bidi.start(self.start_page(limit, patience))
        if not self.settings.javascript and not scripts.uses_play_script(page):
            return self._draw(self._static, page)
        call = self._bidi.call
        profile = call("browser.createUserContext")["userContext"]
        tab = call("browsingContext.create", type="tab", userContext=profile)["context"]
        self._set_viewport(tab)
        call("script.addPreloadScript", functionDeclaration=f"() => {scripts.STEADY}", contexts=[tab])
        drawing = self._draw(tab, page, wait=SCRIPT_SECONDS)
        call("browser.removeUserContext", userContext=profile)
        return drawing

    def _draw(self, tab: str, page: str, wait: float = 0.0) -> Rendered:
        call = self._bidi.call
        self._serving.open(page)
        self._loaded.clear()
        self._drawings.clear()
        call("browsingContext.navigate", context=tab, url=ADDRESS, wait="none")
        self._bidi.wait(lambda: tab in self._loaded)
        if wait:
            ready = time.monotonic() + wait
            self._bidi.wait(lambda: time.monotonic() >= ready)
        frames = self._frames(call("browsingContext.getTree", root=tab)["contexts"])
        if any([self._evaluate(frame, scripts.SETTLE) is False for frame in frames]):
            return moving.refusal("the page has a style or a font that is drawn or not by the moment")
        width, content = self.settings.width, self._evaluate(tab, _HEIGHT)
        height = min(max(math.ceil(content), self.settings.height), self.settings.max_height)
        clip = {"type": "box", "x": 0, "y": 0, "width": width, "height": height}
        origin = "document" if content > self.settings.height else "viewport"  # a document may be the shorter one
        shot = call(
            "browsingContext.captureScreenshot", context=tab, origin=origin, format={"type": "image/png"}, clip=clip
        )
        if any(map(_may_have_moved, self._drawings)):
            return moving.refusal(moving.DRAWING)
        return Rendered(base64.b64decode(shot["data"]), width, height, None, None)

    def _frames(self, trees: list[dict]) -> list[str]:
        return [name for tree in trees for name in (tree["context"], *self._frames(tree.get("children") or []))]

    def _evaluate(self, tab: str, expression: str) -> float:
        """The value of an expression, in a world that the page's scripts cannot reach; 0 if it is no number or bool."""
        target = {"context": tab, "sandbox": "renderer"}
        answer = self._bidi.call("script.evaluate", expression=expression, target=target, awaitPromise=True)
        value = answer.get("result", {}).get("value", 0)
        return value if isinstance(value, int | float) else 0

    def _set_viewport(self, tab: str) -> None:
        size = {"width": self.settings.width, "height": self.settings.height}
        self._bidi.call("browsingContext.setViewport", context=tab, viewport=size, devicePixelRatio=1)

    def _on_event(self, method: str, event: dict) -> None:
        if method == "network.beforeRequestSent" and event["isBlocked"]:
            self._respond(event["request"])
        elif method == "network.beforeRequestSent" and "svg" in _head(event["request"]["url"]):
            self._drawings.add(event["request"]["url"])
        elif method == "browsingContext.load":
            self._loaded.add(event["context"])
        elif method == "browsingContext.userPromptOpened":
            self._bidi.send("browsingContext.handleUserPrompt", context=event["context"], accept=False)

    def _respond(self, request: dict) -> None:
        resource = self._serving.answer(request["url"], request.get("destination") or "")
        if resource is None:
            self._bidi.send("network.failRequest", request=request["request"])
            return
        headers = {"Content-Type": resource.media_type, **resource.headers}
        self._bidi.send(
            "network.provideResponse",
            request=request["request"],
            statusCode=200,
            reasonPhrase="OK",
            headers=[{"name": name, "value": {"type": "string", "value": value}} for name, value in headers.items()],
            body={"type": "base64", "value": base64.b64encode(resource.body).decode()},
        )


def _head(address: str) -> str:
    """The media type and the encoding of a `data:` address, in lower case; "" for other addresses."""
    return address.partition(",")[0].lower() if address.startswith("data:") else ""


def _may_have_moved(address: str) -> bool:
    """Whether the SVG picture of a `data:` address may move. What is not read here as a browser reads it may."""
    head, drawing = _head(address), unquote_to_bytes(address.partition(",")[2])
    if re.search("; *base64 *$", head):
        drawing = re.sub(rb"[\t\n\f\r ]", b"", drawing)
        try:
            drawing = base64.b64decode(drawing + b"=" * (-len(drawing) % 4), validate=True)
        except binascii.Error:
            return True
    return moving.moves(drawing, head.partition("charset=")[2].partition(";")[0].strip("\"' "))
