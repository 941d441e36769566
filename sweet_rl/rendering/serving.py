"""What a browser is given while it draws a page: the page itself, once, and then what `outside` has."""

from sweet_rl.rendering import outside, scripts
from sweet_rl.rendering.outside import Resource

ADDRESS = "http://page.invalid/"  # where the page is said to be; no such host can exist


class Serving:
    """Answers the requests of one page after another."""

    def __init__(self, javascript: bool) -> None:
        self._javascript = javascript
        self._page, self._wanted = "", False

    def open(self, page: str) -> None:
        """Makes `page` the answer to the next request for ADDRESS."""
        self._page, self._wanted = page, True

    def answer(self, url: str, kind: str) -> Resource | None:
        """The answer to a request for `url` as a `kind` ("document", "style", "image", ...); None: it fails."""
        if self._wanted and url == ADDRESS and kind == "document":
            self._wanted = False
            headers = {"Content-Security-Policy": scripts.policy(self._page, self._javascript)}
            return Resource("text/html; charset=utf-8", self._page.encode("utf-8", "replace"), headers)
        return outside.resolve(url, kind, None if self._javascript else self._page)
