"""Look at dialogues about web pages: every turn's page as a picture beside, over and against the reference page.

    python visualizers/visualize_design_dialogue_histories.py --input_path graded.jsonl --output designs.html
    python visualizers/visualize_design_dialogue_histories.py --input_path a.jsonl --compare_path b.jsonl
    python visualizers/visualize_design_dialogue_histories.py --input_path large.jsonl --serve

The input are trajectories of Frontend Design, graded or not. Pages are drawn offline by a browser on this machine, and
are in the HTML file as pictures only.
"""

from sweet_rl.cli import run


def main(
    input_path: str,
    output: str | None = None,
    serve: bool = False,
    port: int = 8765,
    compare_path: str | None = None,
    names: list[str] | None = None,
    credit_path: str | None = None,
    ranked_path: str | None = None,
    pair_path: str | None = None,
    image_encoder: str | None = None,
    no_similarity: bool = False,
    browser: str | None = None,
    workers: int = 2,
    page_width: int = 1280,
    page_height: int = 720,
    limit: int | None = None,
    overwrite: bool = False,
) -> None:
    """Make a page of a file's design dialogues.

    Args:
        input_path: trajectories of Frontend Design (JSONL)
        output: the HTML file; default: the input's name with .html
        serve: no file; read rows and draw pages when they are asked for, on 127.0.0.1
        port: of --serve; 0 takes a free one
        compare_path: a second run on the same tasks, shown beside the first
        names: of the two runs, separated by a comma; default: the files' names
        credit_path: a critic's figures, as visualize_dialogue_histories.py --critic keeps them
        ranked_path: ranked candidates of these trajectories, shown at their turns
        pair_path: turn pairs drawn from the ranked candidates: which were chosen and rejected
        image_encoder: of the similarity by turn; default: as evaluate_html.py
        no_similarity: draw pages only
        browser: chromium or firefox; default: whichever is found
        workers: browsers at once
        page_width: of the pictures in pixels
        page_height: least height of the pictures in pixels
        limit: the first records only
        overwrite: replace an output that holds something else
    """
    from sweet_rl.rendering.renderer import PageRenderer
    from sweet_rl.viewer.designs import SERVED_BYTES, Pictures
    from sweet_rl.viewer.show import open_collection, output_of, show

    page = output_of(input_path, output, serve)
    with PageRenderer(workers=workers, browser=browser, width=page_width, height=page_height) as renderer:
        chosen = None
        if not no_similarity:
            from sweet_rl.rewards.encoders import load_encoder

            chosen = load_encoder(image_encoder)
        pictures = Pictures(renderer, chosen, SERVED_BYTES if serve else None)
        collection = open_collection(
            input_path,
            compare_path,
            names,
            credit_path=credit_path,
            ranked_path=ranked_path,
            pair_path=pair_path,
            limit=limit,
            pictures=pictures,
        )
        show(collection, page, serve, port, overwrite, pictures)


if __name__ == "__main__":
    run(main)
