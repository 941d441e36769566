"""The wheel has the scripts, the settings and the command; they run where there is no repository."""

import os
import subprocess
import sys
import zipfile

import yaml

from tests.support.command_line import ROOT, read_rows, write_rows

RUN = "import sys; from sweet_rl.commands import main; sys.argv = ['sweet-rl', *sys.argv[1:]]; main()"


def test_a_wheel_runs_its_scripts_with_its_settings_in_an_empty_folder(tmp_path):
    # 1. The wheel is built, without writing to the repository.
    build = ["egg_info", "-e", tmp_path, "build", "-b", tmp_path / "build", "bdist_wheel", "-d", tmp_path / "wheel"]
    (tmp_path / "wheel").mkdir()
    subprocess.run([sys.executable, "setup.py", "-q", *map(str, build)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (entry,) = (tmp_path / "site").glob("*.dist-info/entry_points.txt")
    assert "sweet-rl = sweet_rl.commands:main" in entry.read_text()

    # 2. It holds every file of the library, every script and every file of settings.
    package = tmp_path / "site" / "sweet_rl"
    folders = {"sweet_rl": ".", "scripts": "commands", "visualizers": "visualizers", "configs": "configs"}
    for folder, name in folders.items():
        files = [
            path for path in (ROOT / folder).rglob("*.*") if "__pycache__" not in path.parts and path.suffix != ".sh"
        ]
        missing = [str(path) for path in files if not (package / name / path.relative_to(ROOT / folder)).exists()]
        assert files and missing == []
    assert "sweet_rl.integrations.verifiers import" in (package.parent / "sweet_rl_colbench/__init__.py").read_text()

    # 3. It runs without the repository, with settings by their packaged name.
    place = tmp_path / "empty"
    place.mkdir()
    row = {"input": "p", "older_output": "a", "additional_outputs": list("abcdefgh"), "judge_result": list(range(8))}
    write_rows(place / "ranked.jsonl", [row])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    words = "generate_random_pairs_from_ranks --config mini/turn_pairs.yaml --input_path ranked.jsonl --eos_text |"
    words += " --output_path made.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words.split()], cwd=place, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    settings = yaml.safe_load((ROOT / "configs" / "mini" / "turn_pairs.yaml").read_text())
    assert len(read_rows(place / "made.jsonl")) == settings["num_pairs"]
