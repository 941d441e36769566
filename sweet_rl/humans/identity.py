"""The name and the hash of a simulated human. Figures of different humans cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.records import content_id
from sweet_rl.runs.manifest import hash_input


@dataclass(frozen=True)
class HumanIdentity:
    """Which human replied in a dialogue.

    Attributes:
        name: for people; two humans may have the same.
        hash: 16 hex digits of all that the replies depend on: model, prompt, sampling, limits.
    """

    name: str
    hash: str

    @classmethod
    def of_model(
        cls, name: str | None, model: str, folder: str | None, prompt: str, source: Path | None, **settings: Any
    ) -> HumanIdentity:
        """The identity of a human that a model plays.

        Args:
            name: default: the last part of the model's name.
            model: name of the model.
            folder: folder of the model, whose content is hashed instead of the name; None if it is not on this disk.
            prompt: the human's instructions.
            source: the file of the domain that defines the human; None in the package.
            settings: everything else that its replies depend on, JSON values.
        """
        weights = model if folder is None else hash_input(folder)
        facts = {"model": weights, "prompt": prompt, "source": _content(source), **settings}
        return cls(name or Path(model).name, content_id(facts))

    @classmethod
    def of_script(cls, name: str | None, script: str, revision: int, source: Path | None) -> HumanIdentity:
        """The identity of a human without a model.

        Args:
            name: default: `script`.
            script: its name in the domain.
            revision: of its replies.
            source: the file of the domain that defines it; None in the package.
        """
        return cls(name or script, content_id({"script": script, "revision": revision, "source": _content(source)}))

    def as_dict(self) -> dict[str, str]:
        """The value of the field `human` of a trajectory."""
        return {"name": self.name, "hash": self.hash}


def _content(source: Path | None) -> str | None:
    return None if source is None else hash_input(source)
