"""A page that scrolls itself smoothly is drawn as one that jumps: the scroll runs on real time, so it must not run."""

import pytest

from tests.support.browsers import page_files_or_skip, renderer_or_skip

PLAY = "<script src='https://cdn.tailwindcss.com'></script>"
REFRESH = "<meta http-equiv=refresh content='1;url=#end'>"
BAR = "<style>i{position:fixed;top:0;left:0;width:100%;height:90px;background:#000}</style><i>x</i>"
LONG = "<p style='height:6000px;background:linear-gradient(red,blue)'>y<p id=end>end<p style='height:900px'>z"
BOX = f"<div id=box style='height:150px;overflow:auto;scroll-behavior:BEHAVIOR'>{LONG}</div>"
ROOT = "<style>html{scroll-behavior:BEHAVIOR}</style>"
PAGES = {
    "refresh": PLAY + REFRESH + ROOT + BAR + LONG,
    "refresh, inner": PLAY + REFRESH + BOX,
}
SCRIPTED = {
    "scrollTo": f"{BAR}{LONG}<script>onload=()=>scrollTo({{top:5000,behavior:'BEHAVIOR'}})</script>",
    "inner scrollBy": BOX.replace("BEHAVIOR", "auto")
    + "<script>onload=()=>box.scrollBy({top:5000,behavior:'BEHAVIOR'})</script>",
    "inner scrollTop": BOX + "<script>setTimeout(()=>{box.scrollTop=4000},900)</script>",
}


@pytest.mark.parametrize("browser", ["chromium", "firefox"])
@pytest.mark.parametrize("javascript", [False, True], ids=["play script", "scripts"])
def test_a_smooth_scroll_is_drawn_as_a_jump(browser, javascript):
    page_files_or_skip()
    with renderer_or_skip(
        workers=1, browser=browser, width=300, height=200, max_height=600, timeout=60, cache=0, javascript=javascript
    ) as renderer:

        def drawn(page: str, behavior: str) -> bytes:
            rendered = renderer.render(page.replace("BEHAVIOR", behavior))
            assert rendered.failure is None, rendered.failure
            return rendered.png

        pages = SCRIPTED if javascript else PAGES
        smooth = {name: drawn(page, "smooth") for name, page in pages.items()}
        jump = {name: drawn(page, "auto") for name, page in pages.items()}
        assert [name for name in pages if smooth[name] != jump[name]] == []
        still = {
            name: drawn(page.replace("#end", "#none").replace("onload=", "let f="), "auto")
            for name, page in list(pages.items())[:1]
        }
        assert [name for name in still if jump[name] == still[name]] == [], "nothing was scrolled"
