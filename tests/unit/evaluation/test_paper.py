"""The paper's rows beside one's own: which differences are named, and which figures are refused."""

import json

import pytest

from sweet_rl.dialogues.frontend.encoders import CLIP
from sweet_rl.evaluation.paper import check_paper, differences_from_paper, paper_label, paper_lines
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import call, write_rows

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


def test_a_run_as_in_the_paper_has_no_difference_and_the_line_says_what_is_not_compared():
    for found in (backend(), frontend()):
        check_paper(found)
        assert differences_from_paper(found) == {} and paper_label(found) == "the paper (its own models)"
        (line,) = paper_lines(found)
        assert "All of these are the same here" in line and "sampling" in line
    assert "the human meta-llama/Llama-3.1-70B-Instruct" in paper_lines(backend())[0]
    assert "1,000 tasks" in paper_lines(backend())[0] and "500 tasks" in paper_lines(frontend())[0]
    assert "the human Qwen/Qwen2-VL-72B-Instruct" in paper_lines(frontend())[0] and CLIP in paper_lines(frontend())[0]


def test_every_difference_is_named_with_what_is_there_instead():
    found = backend(run(humans=["mini (3279c8a8)"], protocols=["sweet_rl"]), tasks=400, paper_grader=False)
    assert differences_from_paper(found) == {
        "protocol": "sweet_rl (simulate_interactions.py --protocol released)",
        "human": "mini (3279c8a8)",
        "grader": "the rules of sweet_rl (evaluate_code.py --paper_grader)",
        "number of tasks": "400",
    }
    first, *lines = paper_lines(found)
    assert first.endswith("1,000 tasks. Not the same here:") and lines[1] == "- human: mini (3279c8a8)"
    assert paper_label(found) == (
        "the paper (its own models; not the same here: protocol, human, grader, number of tasks)"
    )


def test_what_a_file_does_not_say_is_not_taken_for_the_same():
    old = {"measure": "success", "runs": [{"name": "a", "humans": ["not recorded"]}]}
    assert differences_from_paper(old) == {
        "protocol": "not recorded (simulate_interactions.py --protocol released)",
        "human": "not recorded",
        "grader": "not recorded (evaluate_code.py --paper_grader)",
        "number of tasks": "not recorded",
    }


def test_a_difference_of_some_runs_names_them():
    found = backend(run("a", protocols=["sweet_rl"]), run("b"), run("c", humans=["gpt-4o (1)"], protocols=["sweet_rl"]))
    assert differences_from_paper(found) == {
        "protocol": "sweet_rl in a; c (simulate_interactions.py --protocol released)",
        "human": "gpt-4o (1) in c",
    }


def test_a_human_is_the_papers_wherever_it_is_served_and_a_run_without_one_has_no_other():
    for name in ("Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b-instruct"):
        assert "human" not in differences_from_paper(backend(run(humans=[f"{name} (12345678)"])))
    for name in ("Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct", PAGES):
        assert "human" in differences_from_paper(backend(run(humans=[f"{name} (12345678)"])))
    assert differences_from_paper(backend(run(humans=[]))) == {}
    found = backend(run("single turn", humans=[]), run("a", humans=["b (1)"]), run("c", humans=["b (1)"]))
    assert differences_from_paper(found) == {"human": "b (1)"}


def test_similarities_by_another_encoder_are_refused_and_say_what_to_do():
    for encoder in ("efficientnet-lite0", "openai/clip-vit-large-patch14", "clip-vit-base-patch16@12345678"):
        with pytest.raises(UserError, match=f"by {encoder}.*--image_encoder {CLIP}.*leave out --paper"):
            check_paper(frontend(encoder))
        with pytest.raises(UserError, match="another scale"):
            paper_label(frontend(encoder))
    with pytest.raises(UserError, match="not recorded"):
        check_paper(frontend(grader={"kind": "page"}))


def test_clip_from_a_folder_or_in_another_format_is_shown_and_named():
    for encoder in ("clip-vit-base-patch32@12345678", f"{CLIP} in bfloat16"):
        check_paper(frontend(encoder))
        assert differences_from_paper(frontend(encoder)) == {"encoder": encoder}


def test_a_domain_with_a_reward_of_its_own_has_no_row_in_the_paper():
    with pytest.raises(UserError, match="graded by its own reward"):
        check_paper(backend() | {"measure": "reward"})


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
    named = ["- protocol: sweet_rl", "- human: gpt-4o-mini (12345678)", "- grader: the rules of sweet_rl"]
    for text in (done.out, markdown, outputs["latex_path"].read_text()):
        assert all(line in text for line in [*named, "- number of tasks: 2"])
    heading, _, zero_shot, *others = markdown.splitlines()
    assert heading.endswith("| paper: tests passed % | paper: success % | paper: model |")
    assert zero_shot.startswith("| zero-shot |") and zero_shot.endswith("| 34.2 | 22.4 | Llama-3.1-8B-Instruct |")
    models = [line.split(" | ")[-1] for line in others[:10]]
    assert sum("Llama-3.1-8B-Instruct" in model for model in models) == 4 and "GPT-4o |" in models
    facts = json.loads(outputs["output_path"].read_text())
    assert facts["runs"][0]["protocols"] == ["sweet_rl"]
    assert list(facts["differences_from_paper"]) == ["protocol", "human", "grader", "number of tasks"]

    name = "meta-llama/Llama-3.1-70B-Instruct"
    by_the_release = grade | {"rules": "paper"}
    path = graded_file(tmp_path / "b.jsonl", "released", name, {"paper_grader": True}, by_the_release, tasks=1000)
    same = call("compare_runs.py", runs=f"zero-shot={path}", paper="table2")
    assert "All of these are the same here" in same.out and "Not the same" not in same.out
    assert "paper" not in call("compare_runs.py", runs=f"zero-shot={path}").out


def test_the_command_refuses_the_papers_rows_beside_another_encoder(tmp_path):
    grade = {"failure": None, "similarity": 0.5, "encoder": "efficientnet-lite0"}
    path = graded_file(tmp_path / "a.jsonl", "released", "Qwen2-VL-72B-Instruct", {}, grade)
    refused = call("compare_runs.py", runs=f"mine={path}", paper="table2", output_path=tmp_path / "out.json")
    assert refused.code == 2 and "efficientnet-lite0" in refused.err and f"--image_encoder {CLIP}" in refused.err
    assert not (tmp_path / "out.json").exists()
    assert call("compare_runs.py", runs=f"mine={path}").code == 0
