"""Pages compared with a real browser and the packaged encoder."""

import os
from pathlib import Path

import pytest

from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader
from sweet_rl.dialogues.frontend.encoders import load_encoder
from sweet_rl.runs.records import Task
from tests.support.browsers import renderer_or_skip

FRONTEND_DEV = Path(os.environ.get("SWEET_RL_COLBENCH", "")) / "frontend_dev.jsonl"
PAGE = "<html><body style='background:#204080'><h1 style='color:white'>Hello</h1></body></html>"
OTHER = "<html><body><p>Something else</p><div style='width:600px;height:400px;background:red'></div></body></html>"


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("efficientnet_lite_pytorch", reason="the offline encoder needs: pip install -e '.[frontend]'")
    return load_encoder("efficientnet-lite0")


@pytest.mark.slow
def test_the_same_page_is_worth_one_another_less_and_a_page_without_a_picture_nothing(encoder):
    huge = "<html><body>" + "x" * 4_000_001 + "</body></html>"
    with PageGrader(renderer_or_skip(workers=1, timeout=60), encoder) as grader:
        same, other = grader.grade_many([(Task("", PAGE), f"```html\n{PAGE}\n```"), (Task("", PAGE), OTHER)])
        vectors = encoder.embed([grader.renderer.render(page).png for page in (PAGE, OTHER)])
        assert "efficientnet-lite0" in grader.describe() and grader.renderer.browser in grader.describe()
        assert grader.grade(Task("", PAGE), huge).failure == "too long"
        broken = grader.grade(Task("", huge), PAGE)
    assert (same.reward, same.evidence) == (1.0, {"similarity": 1.0, "encoder": "efficientnet-lite0"})
    assert other.evidence["similarity"] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    assert 0 < other.reward < 0.95
    assert (broken.reward, broken.failure, broken.ungradable) == (None, None, "too_large")
    with pytest.raises(RuntimeError, match="closed"):
        grader.renderer.render(PAGE)
