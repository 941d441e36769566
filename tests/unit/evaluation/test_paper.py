"""The paper's rows beside one's own: what both were measured with, and which figures are refused."""

import json

import pytest

from sweet_rl.dialogues.frontend.encoders import CLIP
from sweet_rl.evaluation.paper import paper_lines
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import call, write_rows
from tests.support.tables import unpadded

CODE = "Llama-3.1-70B-Instruct (12345678)"
PAGES = "Qwen2-VL-72B-Instruct (12345678)"


def run(name="zero-shot", humans=(CODE,), protocols=("released",)):
    return {"name": name, "humans": list(humans), "protocols": list(protocols)}


def backend(*runs, tasks=1000, **grader):
    return {
        "measure": "success",
        "tasks": tasks,
        "grader": {"paper_grader": True, **grader},
        "runs": list(runs) or [run()],
    }


def frontend(encoder=CLIP, **more):
    grader = {"kind": "page", "encoder": encoder, "paper_grader": True}
    return {"measure": "similarity", "tasks": 500, "grader": grader, "runs": [run(humans=[PAGES])]} | more


def test_one_line_says_what_the_paper_was_measured_with_and_one_what_the_runs_were():
    published, here = paper_lines(backend())
    assert published == (
        "paper: protocol released, human meta-llama/Llama-3.1-70B-Instruct, the released rules of grading, 1,000 tasks"
    )
    assert here == f"here: protocol released, human {CODE}, the released rules of grading, 1,000 tasks"
    published, here = paper_lines(frontend())
    assert f"human Qwen/Qwen2-VL-72B-Instruct, the released rules of grading, encoder {CLIP}, 500 tasks" in published
    assert here == f"here: protocol released, human {PAGES}, the released rules of grading, encoder {CLIP}, 500 tasks"
    found = backend(run(humans=["mini (3279c8a8)"], protocols=["sweet_rl"]), tasks=400, paper_grader=False)
    assert paper_lines(found)[1] == "here: protocol sweet_rl, human mini (3279c8a8), the rules of sweet_rl, 400 tasks"


def test_similarities_by_another_encoder_are_refused_and_say_what_to_do():
    for encoder in ("efficientnet-lite0", "openai/clip-vit-large-patch14", "clip-vit-base-patch16@12345678"):
        with pytest.raises(UserError, match=f"by {encoder}.*another scale.*--image_encoder {CLIP}.*leave out --paper"):
            paper_lines(frontend(encoder))
    with pytest.raises(UserError, match="not recorded"):
        paper_lines(frontend(grader={"kind": "page"}))


def test_clip_from_a_folder_or_in_another_format_is_shown_and_named():
    for encoder in ("clip-vit-base-patch32@12345678", f"{CLIP} in bfloat16"):
        assert f"encoder {encoder}," in paper_lines(frontend(encoder))[1]


def test_a_domain_with_a_reward_of_its_own_has_no_row_in_the_paper():
    with pytest.raises(UserError, match="graded by its own reward"):
        paper_lines(backend() | {"measure": "reward"})


def graded_file(path, protocol, human, settings, grade, tasks=2):
    history = [{"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant")]
    rows = []
    for i in range(tasks):
        task = Task(f"task {i}", f"def f(): return {i}", {"test1": "f()"}, id=f"t{i}")
        human_facts = {"name": human, "hash": "12345678" * 2}
        row = Trajectory(task, history, "x", 0.5, ending="answered", grade=grade, human=human_facts, protocol=protocol)
        rows.append(row.to_dict())
    write_rows(path, rows)
    manifest = {"status": "finished", "settings": settings, "inputs": {}}
    path.with_name(path.name + ".manifest.json").write_text(json.dumps(manifest))
    return path


def test_the_command_reads_them_from_the_graded_files_and_names_the_papers_models(tmp_path):
    grade = {"failure": None, "level": "strict", "tests": []}
    path = graded_file(tmp_path / "a.jsonl", "sweet_rl", "gpt-4o-mini", {"paper_grader": False}, grade)
    outputs = {"markdown_path": tmp_path / "a.md", "output_path": tmp_path / "a.json", "latex_path": tmp_path / "a.tex"}
    done = call("compare_runs.py", runs=f"zero-shot={path}", paper="table2", **outputs)
    assert done.code == 0, done.err
    markdown = outputs["markdown_path"].read_text()
    here = "here: protocol sweet_rl, human gpt-4o-mini (12345678), the rules of sweet_rl, 2 tasks"
    for text in (done.out, markdown, outputs["latex_path"].read_text()):
        assert here in text and "paper: protocol released, human meta-llama/Llama-3.1-70B-Instruct" in text
    heading, _, zero_shot, *others = unpadded(markdown).splitlines()
    assert heading.endswith("| paper: tests passed % | paper: success % | paper: model |")
    assert zero_shot.startswith("| zero-shot |") and zero_shot.endswith("| 34.2 | 22.4 | Llama-3.1-8B-Instruct |")
    models = [line.split(" | ")[-1] for line in others[:10]]
    assert sum("Llama-3.1-8B-Instruct" in model for model in models) == 4 and "GPT-4o |" in models
    facts = json.loads(outputs["output_path"].read_text())
    assert facts["runs"][0]["protocols"] == ["sweet_rl"]

    name = "meta-llama/Llama-3.1-70B-Instruct"
    by_the_release = grade | {"rules": "paper"}
    path = graded_file(tmp_path / "b.jsonl", "released", name, {"paper_grader": True}, by_the_release, tasks=1000)
    same = call("compare_runs.py", runs=f"zero-shot={path}", paper="table2")
    assert f"here: protocol released, human {name} (12345678), the released rules of grading, 1,000 tasks" in same.out
    assert "paper" not in call("compare_runs.py", runs=f"zero-shot={path}").out
