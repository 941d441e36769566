"""Look at frontend dialogues: the page of every turn as a picture, with its similarity to the reference page.

    python visualizers/visualize_design_dialogue_histories.py --input_path graded.jsonl --output designs.html

The input are frontend trajectories, graded or not. A browser on this machine draws the pages offline; the HTML file
holds them as pictures and source text only.
"""

from typing import Annotated

from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.released import VISUALIZE_DESIGN
from sweet_rl.viewer.show import ViewSettings, show


def main(
    view: ViewSettings,
    pages: Annotated[BrowserSettings, prefix("", browser_workers="workers", page_timeout=None)],
    image_encoder: str | None = None,
    no_similarity: bool = False,
) -> None:
    """Make a page of a file's frontend dialogues.

    Args:
        image_encoder: Image encoder of the similarity per turn; by default that of evaluate_html.py.
        no_similarity: Draw pages without their similarity.
    """
    from sweet_rl.dialogues.frontend.encoders import load_encoder
    from sweet_rl.rendering.renderer import PageRenderer
    from sweet_rl.viewer.designs import Pictures

    with PageRenderer.from_settings(pages) as renderer:
        encoder = None if no_similarity else load_encoder(image_encoder)
        show(view, pictures=Pictures(renderer, encoder))


if __name__ == "__main__":
    run(main, released=VISUALIZE_DESIGN)
