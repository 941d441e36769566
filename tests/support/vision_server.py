"""A vision server on 127.0.0.1 that checks what it is sent: the pictures pixel by pixel, the task, the history."""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Callable

import numpy as np
from PIL import Image

from tests.support.api_server import ApiServer, Reply, chat_reply, refusal

CONVERSATION = re.compile(r"<conversation>\n(.*?)\n?</conversation>", re.DOTALL)
REQUEST = re.compile(r"<request>\n(.*?)\n</request>", re.DOTALL)


class VisionServer:
    """Plays the client. What is wrong with a request is answered with an error and kept in `complaints`.

    references: reference page by description. drafts: page by the words that stand before it in the agent's message.
    draw: a page's PNG. say: a reply from (description, the conversation as lines); a reply once sent must stand in
    the history of the next request about the same draft's dialogue.
    """

    def __init__(
        self,
        references: dict[str, str],
        drafts: Callable[[str], str | None],
        draw: Callable[[str], bytes],
        say: Callable[[str, list[str]], str],
    ) -> None:
        self.references, self.drafts, self.draw, self.say = references, drafts, draw, say
        self.complaints: list[str] = []
        self.sent: set[str] = set()
        self.seen: list[tuple[str, list[str], int]] = []  # description, conversation, pictures
        self._lock = threading.Lock()
        self.api = ApiServer(self._answer)

    def _answer(self, body: dict) -> Reply:
        try:
            with self._lock:
                return chat_reply(self._checked(body))
        except Exception as error:  # whatever it is, the test hears of it
            self.complaints.append(repr(error))
            return refusal(400, repr(error))

    def _checked(self, body: dict) -> str:
        (message,) = body["messages"]
        assert message["role"] == "user", "one message of the user was expected"
        texts = [part["text"] for part in message["content"] if part["type"] == "text"]
        pictures = [picture(part["image_url"]["url"]) for part in message["content"] if part["type"] == "image_url"]
        description = REQUEST.search(texts[0])[1]
        assert description in self.references, f"an unknown task: {description!r}"
        assert self.references[description] not in "".join(texts), "the reference page's source was sent"
        turns = [turn.strip() for turn in CONVERSATION.search(texts[0])[1].split("\n\n")]
        assert turns and turns[-1].startswith("Designer: "), f"the designer speaks last: {turns}"
        assert [turn.split(":")[0] for turn in turns] == (["Designer", "You"] * len(turns))[: len(turns)], turns
        for turn in turns[1::2]:
            assert turn.removeprefix("You: ") in self.sent, f"never said: {turn!r}"
        assert not re.search(r"<html|</", "".join(turns)), "pages are pictures here, not text"
        shown = [page for turn in turns[::2] if (page := self.drafts(turn.removeprefix("Designer: "))) is not None]
        expected = [*shown[-1:], self.references[description]]
        assert len(pictures) == len(expected), f"{len(pictures)} pictures, expected {len(expected)}"
        for number, (found, page) in enumerate(zip(pictures, expected, strict=True)):
            same = np.array_equal(found, pixels(self.draw(page)))
            assert same, f"picture {number + 1} of {len(pictures)} is not that of its page: {page[:200]}"
        said = self.say(description, turns)
        self.seen.append((description, turns, len(pictures)))
        self.sent.add(said)
        return said

    def __enter__(self) -> VisionServer:
        self.api.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.api.__exit__(*error)


def picture(url: str) -> np.ndarray:
    """The pixels of a data URL. Raises AssertionError unless it is a real PNG."""
    head, _, data = url.partition(",")
    assert head == "data:image/png;base64", f"not a PNG as a data URL: {head}"
    return pixels(base64.b64decode(data, validate=True))


def pixels(png: bytes) -> np.ndarray:
    assert png.startswith(b"\x89PNG\r\n"), "not a PNG"
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))
