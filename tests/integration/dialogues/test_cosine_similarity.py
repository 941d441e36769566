"""Pages compared with a real browser and the packaged encoder."""

import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
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


def black_png(side: int) -> bytes:
    """A PNG of black pixels, written by hand: 8 bits of grey, each line after the number of its filter."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    lines = zlib.compress(bytes(side * (1 + side)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


@pytest.mark.slow
def test_by_the_released_rules_an_answer_without_a_page_is_as_alike_as_a_black_picture(encoder):
    with PageGrader(renderer_or_skip(workers=1, timeout=60), encoder, paper_grader=True) as grader:
        none, page = grader.grade_many([(Task("", PAGE), "I give up."), (Task("", PAGE), OTHER)])
        black, own = encoder.embed([black_png(224), grader.renderer.render(PAGE).png])
    cosine = sum(a * b for a, b in zip(black.tolist(), own.tolist(), strict=True))
    assert none.evidence["similarity"] == pytest.approx(cosine, abs=1e-5) and none.failure == "no page"
    assert none.reward == none.evidence["similarity"] > 0 and page.failure is None


@pytest.mark.slow
@pytest.mark.skipif(not FRONTEND_DEV.is_file(), reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder")
def test_pages_of_colbench_are_like_themselves_and_less_like_each_other(encoder):
    pages = [json.loads(line)["ground_truth"] for line in FRONTEND_DEV.read_text("utf-8").splitlines()[:6]]
    with PageGrader(renderer_or_skip(workers=2, timeout=60), encoder) as grader:
        own = list(grader.grade_many((Task("", page), page) for page in pages))
        vectors = encoder.embed([rendered.png for rendered in grader.renderer.render_all(pages)])
    assert [grade.evidence["similarity"] for grade in own] == [1.0] * len(pages)
    others = (vectors @ vectors.T)[~np.eye(len(pages), dtype=bool)]
    assert others.max() < 0.99
