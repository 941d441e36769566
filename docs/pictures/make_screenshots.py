"""The pictures of the viewers in README and manual, from dialogues of the tiny agents: nothing to download.

    python docs/pictures/make_screenshots.py

Plays and grades a few mini tasks (a minute), makes the pages and takes their pictures in headless
Chromium, each in light and in dark.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory, read_records

ROOT = Path(__file__).resolve().parents[2]
COLORS = 256
FIRST = "document.querySelector('article').scrollIntoView();"
# Only one dialogue, without the list beside it.
ALONE = """
    document.querySelector('nav').hidden = true;
    document.body.style.display = 'block';
    document.querySelector(':target').scrollIntoView();
"""


def main(output_dir: str = "docs/pictures", work_dir: str | None = None, num_tasks: int = 24) -> None:
    """Make the pages and take their pictures.

    Args:
        output_dir: Folder of the PNG files.
        work_dir: Folder in which the data and the pages are kept and found again; by default a temporary one.
        num_tasks: Number of mini tasks that are played.
    """
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(work_dir or temporary)
        work.mkdir(parents=True, exist_ok=True)
        pages = make_pages(work, num_tasks)
        take_pictures(pages, short_dialogue(work / "dialogues.jsonl"), Path(output_dir))


def script(name: str, **flags) -> None:
    """Run a script. What is complete already is passed over by the script itself."""
    words = [word for key, value in flags.items() for word in ([f"--{key}"] if value is True else [f"--{key}", value])]
    if subprocess.run([sys.executable, str(ROOT / name), *map(str, words)], cwd=ROOT).returncode:
        raise UserError(f"{name} did not work; its message is above.")


def make_pages(work: Path, num_tasks: int) -> dict[str, Path]:
    """Plays and looks at the mini tasks; the tiny agent itself, shown the solution, is the critic."""
    tasks, played, graded = work / "tasks", work / "trajectories.jsonl", work / "dialogues.jsonl"
    script("scripts/make_mini_tasks.py", num_train=num_tasks, num_test=1, output_dir=tasks)
    mini = {"agent_model": "mini", "env_model": "mini", "max_tokens": 100, "input_path": tasks / "train.jsonl"}
    script("scripts/simulate_interactions.py", **mini, output_path=played, best_of_n=2)
    script("scripts/evaluate_code.py", input_path=played, output_path=graded)
    page = work / "dialogues.html"
    critic = {"critic": "mini", "reference": "seed_without_c", "reference_model_id": "mini", "overwrite": True}
    script("visualizers/visualize_dialogue_histories.py", input_path=graded, output=page, **critic)
    return {"dialogues": page, "designs": make_designs(work)}


def make_designs(work: Path) -> Path:
    """The same for dialogues of the tiny page agent with the scripted designer."""
    played, graded, page = (work / name for name in ("drafts.jsonl", "designs.jsonl", "designs.html"))
    window = {"page_width": 480, "page_height": 360}
    here = {"task_type": "lab/pages/domain.py", **window}
    playing = {"agent_model": "lab/pages/agent", "env_model": "designer", "best_of_n": 2, "max_tokens": 64, **here}
    tasks = "lab/pages/tasks/train.jsonl"
    script("scripts/simulate_interactions.py", **playing, max_turns=8, input_path=tasks, output_path=played)
    encoder = {"image_encoder": "efficientnet-lite0"}
    script("scripts/evaluate_html.py", **here, **encoder, input_path=played, output_path=graded)
    viewer = "visualizers/visualize_design_dialogue_histories.py"
    script(viewer, input_path=graded, output=page, overwrite=True, **window, **encoder)
    return page


def short_dialogue(path: Path) -> str:
    """The id of the first solved dialogue of at most six turns that begins with a useful and a useless question."""
    for trajectory in read_records(path, Trajectory):
        words = [message.get("oracle") for message in trajectory.dialogue_history if message["role"] == "assistant"]
        if trajectory.reward == 1.0 and len(words) <= 6 and {"useful", "useless"} == set(words[:2]):
            return trajectory.id
    raise UserError("no short dialogue is solved and begins with a useful and a useless question; raise --num_tasks.")


def take_pictures(pages: dict[str, Path], dialogue: str, folder: Path) -> None:
    """Two PNGs per view, light and dark, with 1.5 times the pixels and few colours, so that they stay small."""
    folder.mkdir(parents=True, exist_ok=True)
    window = browser()
    views = {
        "dialogue": (pages["dialogues"], f"d-{dialogue}", (800, 585), ALONE),
        "viewer": (pages["dialogues"], f"d-{dialogue}", (1280, 760), ""),
        "design": (pages["designs"], "", (1280, 760), FIRST),
    }
    try:
        for name, (page, address, (width, height), script_text) in views.items():
            for theme in ("light", "dark"):
                metrics = {"width": width, "height": height, "deviceScaleFactor": 1.5, "mobile": False}
                window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
                feature = {"name": "prefers-color-scheme", "value": theme}
                window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
                window.get("about:blank")
                window.get(f"{page.resolve().as_uri()}#{address}")
                window.execute_script(script_text)
                target = folder / f"{name}-{theme}.png"
                window.save_screenshot(str(target))
                shrink(target)
                print(f"{target}: {target.stat().st_size / 1000:.0f} kB")
    finally:
        window.quit()


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
