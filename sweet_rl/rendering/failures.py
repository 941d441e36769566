"""Why a page could not be drawn."""


class DrawingFailed(Exception):
    """A page that gave no picture; `kind` is one of `KINDS`."""

    KINDS = ("empty", "too_large", "timeout", "crashed", "memory")

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message
