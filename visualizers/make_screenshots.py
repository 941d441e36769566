"""The README's pictures of the viewers, from dialogues of the tiny agents: nothing to download, no outside data.

    python visualizers/make_screenshots.py --output_dir visualizers/screenshots

Plays, grades, samples and ranks a few mini tasks (two minutes), makes the pages and takes their pictures in headless
Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sweet_rl.cli import run
from sweet_rl.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"desk": (1360, 850), "phone": (390, 780)}
COLORS = 128


def main(output_dir: str = "visualizers/screenshots", work_dir: str | None = None, num_tasks: int = 24) -> None:
    """Make the pages and take their pictures.

    Args:
        output_dir: where the PNG files go
        work_dir: keep the data and the pages here, and use what is there already; default: a temporary folder
        num_tasks: mini tasks that are played
    """
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(work_dir or temporary)
        work.mkdir(parents=True, exist_ok=True)
        pages = make_pages(work, num_tasks)
        take_pictures(pages, Path(output_dir))


def script(name: str, **flags) -> None:
    """Runs a script of the repository; what is complete already is passed over by the script itself."""
    words = [word for key, value in flags.items() for word in ([f"--{key}"] if value is True else [f"--{key}", value])]
    command = [sys.executable, str(ROOT / name), *map(str, words)]
    if subprocess.run(command, cwd=ROOT).returncode:
        raise UserError(f"{name} did not work; its message is above.")


def make_pages(work: Path, num_tasks: int) -> dict[str, Path]:
    """Plays and looks at the mini tasks; the tiny agent itself, shown the solution, is the critic."""
    tasks, played, graded = work / "tasks", work / "trajectories.jsonl", work / "dialogues.jsonl"
    candidates, ranked, pairs = work / "candidates.jsonl", work / "ranked.jsonl", work / "turn_pairs.jsonl"
    script("scripts/make_mini_tasks.py", num_train=num_tasks, num_test=1, output_dir=tasks)
    mini = {"agent_model": "mini", "env_model": "mini", "max_tokens": 100, "input_path": tasks / "train.jsonl"}
    script("scripts/simulate_interactions.py", **mini, output_path=played, best_of_n=2)
    script("scripts/evaluate_code.py", input_path=played, output_path=graded)
    script("scripts/simulate_interactions.py", **mini, output_path=work / "second.jsonl", best_of_n=2, seed=1)
    script("scripts/evaluate_code.py", input_path=work / "second.jsonl", output_path=work / "second_graded.jsonl")
    sampling = {"best_of_n": 8, "data_fraction": 0.25, "max_tokens": 100}
    script("scripts/sample_best_of_n.py", model_id="mini", input_path=graded, output_path=candidates, **sampling)
    critic = {"reference": "sampled"}
    script("scripts/rank_best_of_n.py", model_id="mini", input_path=candidates, output_path=ranked, **critic)
    script("scripts/generate_random_pairs_from_ranks.py", input_path=ranked, output_path=pairs, num_pairs=4)
    pages = {name: work / f"{name}.html" for name in ("dialogues", "candidates", "compare")}
    viewer = "visualizers/visualize_dialogue_histories.py"
    critic |= {"critic": "mini", "reference_model_id": "mini", "overwrite": True}
    script(viewer, input_path=graded, output=pages["dialogues"], **critic)
    script(viewer, input_path=ranked, pair_path=pairs, output=pages["candidates"], overwrite=True)
    second = {"compare_path": work / "second_graded.jsonl", "names": "seed 0,seed 1"}
    script(viewer, input_path=graded, output=pages["compare"], overwrite=True, **second)
    pages["designs"] = make_designs(work)
    return pages


def make_designs(work: Path) -> Path:
    """The same for dialogues of the tiny page agent with the scripted designer."""
    tasks, played, graded, page = (work / name for name in ("pages", "drafts.jsonl", "designs.jsonl", "designs.html"))
    script("scripts/make_mini_tasks.py", task_type="html", num_train=12, num_test=1, output_dir=tasks)
    config = "configs/mini/html/collection.yaml"
    playing = {"input_path": tasks / "train.jsonl", "output_path": played, "best_of_n": 2}
    script("scripts/simulate_interactions.py", config=config, agent_model="mini_html", **playing)
    grading = {"config": "configs/mini/html/grading.yaml", "input_path": played, "output_path": graded}
    script("scripts/evaluate_html.py", **grading)
    window = {"page_width": 480, "page_height": 360, "image_encoder": "efficientnet-lite0"}
    viewer = "visualizers/visualize_design_dialogue_histories.py"
    script(viewer, input_path=graded, output=page, overwrite=True, **window)
    return page


def take_pictures(pages: dict[str, Path], folder: Path) -> None:
    """One PNG a view, with few colours, so that they stay small."""
    folder.mkdir(parents=True, exist_ok=True)
    window = browser()
    hover = "hover(1);"
    views = {
        "dialogue": ("dialogues", "show=unsolved&min=0.5&sort=turns&down=1", "light", "desk", hover),
        "candidates": ("candidates", "", "dark", "desk", "document.querySelector('.m-agent').scrollIntoView();"),
        "comparison": ("compare", "sort=difference&down=1", "light", "desk", ""),
        "design": ("designs", "sort=turns&down=1&turn=1&mode=overlay", "dark", "desk", ""),
        "phone": ("dialogues", "show=unsolved&min=0.5&sort=turns&down=1", "dark", "phone", "open(0);"),
    }
    try:
        for name, (page, address, theme, size, script_text) in views.items():
            width, height = SIZES[size]
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            window.get("about:blank")
            window.get(f"{pages[page].resolve().as_uri()}#{address}")
            window.execute_script(f"document.documentElement.dataset.theme = '{theme}'")
            wait(window)
            time.sleep(0.5)
            window.execute_script(HELPERS + script_text)
            time.sleep(0.3)
            target = folder / f"{name}.png"
            window.save_screenshot(str(target))
            shrink(target)
            print(f"{target}: {target.stat().st_size / 1000:.0f} kB")
    finally:
        window.quit()


HELPERS = """
    const hover = (n) => { const box = document.querySelectorAll('.tokens')[n]; box.focus({preventScroll: true});
      const right = () => box.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
      right(); right(); };
    const open = (n) => document.querySelectorAll('.row')[n].click();
"""


def wait(window) -> None:
    end = time.monotonic() + 30
    while not window.execute_script("return document.documentElement.dataset.shown"):
        if time.monotonic() > end:
            raise UserError("the page did not open within 30 seconds.")
        time.sleep(0.05)


def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    driver = shutil.which("chromedriver")
    options.binary_location = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), "")
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver) if driver else None)


def shrink(path: Path) -> None:
    from PIL import Image

    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    run(main)
