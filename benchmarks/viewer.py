"""The viewer on files of the release's size: what opening, searching and memory cost in a real browser.

    python benchmarks/viewer.py                 # 20,000 dialogues served, 1,000 in one file (0.8 GB of disk)
    python benchmarks/viewer.py --dialogues 2000 --in_file 200

The dialogues are made up, with the fields and sizes of the released rows (10 messages each, the prompt of every turn in
its row). Served: from the command to the address; from there to the first dialogue in the browser while the file is
still being read, and again once it has been read; searches typed into the page; the server's greatest memory. In one
file: its size, and from opening it to the first dialogue. The peer of the search is what one would do without it: read
the file's lines as JSON and look through what was said. Printed last: how many times faster the search is.

Recorded on two cores (Python 3.11, Chromium 156): one file 2.02 MB, opened in 0.17 s, first search 0.15 s; served:
address after 0.35 s, first view 0.46 s while the file was being read (4.9 s in all), 0.34 s after, searches 0.28 to
0.29 s, 147 MB of memory, half of it for scipy; plain search 0.98 s, served search 8.7 times as fast. On cores shared
with others (load 20): opened in 0.61 s, first views 1.3 to 1.6 s and 0.75 to 0.98 s, searches 0.5 to 1.9 s.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from selenium import webdriver

from sweet_rl.runs.cli import run

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "visualizers" / "visualize_dialogue_histories.py"
WORDS = (
    "value list input order return when empty none string count sum first last key date user each total where".split()
)
RARE = "zyzzyva"


def main(dialogues: int = 20_000, in_file: int = 1_000, seed: int = 0) -> None:
    """Measure.

    Args:
        dialogues: in the served file
        in_file: in the page that is one file
        seed: of the dialogues' words
    """
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "dialogues.jsonl", Path(folder) / "small.jsonl"
        make(path, dialogues, seed)
        make(small, in_file, seed)
        print(
            f"{dialogues} dialogues, {path.stat().st_size / 1e6:.0f} MB; {in_file}, {small.stat().st_size / 1e6:.1f} MB"
        )
        window = browser()
        try:
            one_file(window, small, Path(folder) / "page.html")
            plain = plain_search(path)
            served = serve(window, path)
        finally:
            window.quit()
        print(f"plain search (JSON line by line): {plain:.2f} s")
        print(f"served search over plain search: {plain / served:.1f} times as fast")


def make(path: Path, count: int, seed: int) -> None:
    """Writes made-up dialogues with the released fields; one in a hundred holds a rare word."""
    draw = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(draw.choices(WORDS, k=words))

    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            task = {
                "problem_description": f"{text(60)} def f{number}(x)",
                "ground_truth": f"def f{number}(x):\n" + "".join(f"    y = {text(4)!r}\n" for _ in range(20)),
                "test_cases": {f"test{i}": f"f{number}({i})" for i in range(10)},
            }
            history = [{"role": "user", "content": text(220)}]
            prompt = f"<|begin_of_text|>{history[0]['content']}"
            for turn in range(8):
                said = text(50) + (f" {RARE}" if number % 100 == 50 and turn == 3 else "")
                history.append({"role": "assistant", "content": said, "input": prompt, "output": said})
                history.append({"role": "user", "content": text(35)})
                prompt += f"{said}<|eot_id|>{history[-1]['content']}<|eot_id|>"
            answer = f"def f{number}(x):\n    return {number}"
            history.append({"role": "assistant", "content": f"I WANT TO ANSWER:\n{answer}", "input": prompt})
            row = {"task": task, "dialogue_history": history, "answer": answer, "reward": draw.choice([0, 0.5, 1])}
            file.write(json.dumps(row) + "\n")


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(flag)
    driver = shutil.which("chromedriver")
    options.binary_location = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), "")
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver) if driver else None)


def shown(window: webdriver.Chrome, address: str) -> float:
    """Seconds from asking for the address to the first dialogue on the page."""
    window.get("about:blank")
    start = time.monotonic()
    window.get(address)
    wait(window, "document.documentElement.dataset.shown")
    return time.monotonic() - start


def wait(window: webdriver.Chrome, condition: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not window.execute_script(f"return {condition}"):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        time.sleep(0.005)


def search(window: webdriver.Chrome, word: str) -> tuple[float, str]:
    """Seconds from the last key to the list of what was found, and what the page says of it."""
    box = window.find_element("id", "f-q")
    box.clear()
    wait(window, "!document.getElementById('count').textContent.startsWith('Searching')")
    box.send_keys(word[:-1])
    time.sleep(2)
    start = time.monotonic()
    box.send_keys(word[-1])
    wait(window, f"document.documentElement.dataset.searched === {word!r}")
    return time.monotonic() - start, window.find_element("id", "count").text


def one_file(window: webdriver.Chrome, path: Path, page: Path) -> None:
    start = time.monotonic()
    command = [sys.executable, str(SCRIPT), "--input_path", str(path), "--output", str(page)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    print(f"one file: {page.stat().st_size / 1e6:.2f} MB, written in {time.monotonic() - start:.1f} s")
    times = sorted(shown(window, page.as_uri()) for _ in range(5))
    print(f"one file: opened in {times[2]:.2f} s (median of 5; {times[0]:.2f} to {times[-1]:.2f})")
    seconds, found = search(window, RARE)
    print(f"one file: first search {seconds:.2f} s ({found})")


def plain_search(path: Path) -> float:
    start = time.monotonic()
    found = 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            found += any(RARE in message["content"].lower() for message in json.loads(line)["dialogue_history"])
    assert found
    return time.monotonic() - start


def serve(window: webdriver.Chrome, path: Path) -> float:
    """Returns the seconds of a search in the server's own time."""
    start = time.monotonic()
    command = [sys.executable, str(SCRIPT), "--input_path", str(path), "--serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        address = re.match(r"http://\S+", server.stdout.readline())[0]
        print(f"served: address after {time.monotonic() - start:.2f} s")
        print(f"served, file being read: first view {shown(window, address):.2f} s")
        wait(window, "!/reading on/.test(document.getElementById('count').textContent)", 600)
        print(f"served: the whole file read after {time.monotonic() - start:.1f} s")
        times = sorted(shown(window, address) for _ in range(5))
        print(f"served, file read: first view {times[2]:.2f} s (median of 5; {times[0]:.2f} to {times[-1]:.2f})")
        wait(window, "!/reading on/.test(document.getElementById('count').textContent)")
        for word in (RARE, "order", "f1999"):
            seconds, found = search(window, word)
            print(f"served: search for {word!r} {seconds:.2f} s ({found})")
        asked = time.monotonic()
        script = "const done = arguments[1]; fetch(`search?q=${arguments[0]}`).then((r) => r.json()).then(done)"
        window.execute_async_script(script, RARE)
        seconds = time.monotonic() - asked
        print(f"served: memory {greatest_memory(server.pid) / 1e6:.0f} MB at most")
        return seconds
    finally:
        server.terminate()
        server.wait()


def greatest_memory(pid: int) -> float:
    """Bytes that a process held at its greatest; what it holds now where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    return psutil.Process(pid).memory_info().rss


if __name__ == "__main__":
    run(main)
