"""The steps of lab/pages/run.sh with their settings, on a handful of pages, in one process."""

import pytest

from lab.pages.pages import read_page
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import ROOT, call, read_rows

HERE = ROOT / "lab" / "pages"
AGENT = HERE / "agent"


def done(script, config=None, **flags):
    words = ["--config", str(HERE / "configs" / f"{config}.yaml")] if config else []
    result = call(script, *words, **flags)
    assert result.code == 0, result.err[-3000:]
    return result.out


@pytest.mark.slow
def test_every_step_runs_on_pages_and_the_results_are_one_table(tmp_path, monkeypatch):
    renderer_or_skip(workers=1).close()
    pytest.importorskip("efficientnet_lite_pytorch", reason="pages need: pip install -e '.[frontend]'")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(ROOT)
    at = tmp_path.joinpath

    done("lab.pages.make_page_tasks", num_train=4, num_test=3, output_dir=tmp_path)
    play = {"agent_model": AGENT, "browser_workers": 1}
    done("simulate_interactions.py", "collection", input_path=at("train.jsonl"), output_path=at("all.jsonl"), **play)
    assert all(row["ending"] != "failed" for row in read_rows(at("all.jsonl")))
    out = done(
        "evaluate_html.py", "grading", input_path=at("all.jsonl"), output_path=at("rewarded.jsonl"), k=4,
        best_path=at("best.jsonl"), preference_path=at("pairs.jsonl"), min_gap=0.001, browser_workers=1,
        ground_truth_preference_path=at("pairs_with_c.jsonl"),
    )  # fmt: skip
    assert "efficientnet-lite0" in out and len(read_rows(at("best.jsonl"))) == 4
    done("train_sft.py", "rejection_fine_tuning", pretrain=AGENT, dataset=at("best.jsonl"), save_path=at("rft"))
    done("train_dpo.py", "critic", pretrain=AGENT, dataset=at("pairs_with_c.jsonl"), save_path=at("critic"))
    done(
        "sample_best_of_n.py", "sampling", model_id=AGENT, input_path=at("rewarded.jsonl"), best_of_n=4,
        output_path=at("candidates.jsonl"), data_fraction=0.5,
    )  # fmt: skip
    done(
        "rank_best_of_n.py", "ranking", model_id=at("critic"), input_path=at("candidates.jsonl"),
        output_path=at("ranked.jsonl"),
    )  # fmt: skip
    done(
        "generate_random_pairs_from_ranks.py", "turn_pairs", input_path=at("ranked.jsonl"),
        output_path=at("turn_pairs.jsonl"),
    )  # fmt: skip
    done("train_dpo.py", "actor", pretrain=AGENT, dataset=at("turn_pairs.jsonl"), save_path=at("sweet"))
    runs = []
    for name, model in {"zero-shot": AGENT, "rejection fine-tuning": at("rft"), "SWEET-RL": at("sweet")}.items():
        test, graded = at(f"{name}.test.jsonl"), at(f"{name}.graded.jsonl")
        done(
            "simulate_interactions.py", "evaluation", agent_model=model, input_path=at("test.jsonl"), output_path=test,
            browser_workers=1,
        )  # fmt: skip
        done(
            "evaluate_html.py", "grading", input_path=test, output_path=graded, browser_workers=1,
        )  # fmt: skip
        runs.append(f"{name}={graded}")
        assert all(read_page(row["task"]["ground_truth"]) is not None for row in read_rows(graded))
    table = done("compare_runs.py", runs=",".join(runs), baselines="zero-shot")
    assert "similarity by efficientnet-lite0" in table and "SWEET-RL" in table
