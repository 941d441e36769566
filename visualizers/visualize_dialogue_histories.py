"""Look at dialogues, their grades and their credit, in one HTML file.

    python visualizers/visualize_dialogue_histories.py --input_path rewarded.jsonl --output dialogues.html
    python visualizers/visualize_dialogue_histories.py --input_path rewarded.jsonl --critic runs/tour/critic
    python visualizers/visualize_dialogue_histories.py --input_path ranked.jsonl

The input is a file of the pipeline or of the release: trajectories, graded or not; candidates, ranked or not; pairs.
The HTML file needs no network and has no script.
"""

from typing import Annotated

from sweet_rl.method.critics import CriticFlags
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.released import VISUALIZE
from sweet_rl.viewer.show import ViewSettings, show


def main(
    view: ViewSettings,
    credit: Annotated[CriticFlags | None, prefix("", model_id="critic")] = None,
) -> None:
    """Make a page of a file's dialogues, candidates or pairs."""
    show(view, credit and credit.chosen)


if __name__ == "__main__":
    run(main, released=VISUALIZE)
