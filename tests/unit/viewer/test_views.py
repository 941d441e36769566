"""Which candidate a pair's text is."""

from sweet_rl.viewer.views import _is_candidate


def test_a_pair_s_text_is_its_candidate_with_or_without_a_marker_and_no_other():
    assert _is_candidate("Why?", "Why?") and _is_candidate("Why?<|eot_id|>", "Why?") and _is_candidate("[x]", "[x]")
    assert not _is_candidate("<|eot_id|>", "Why?") and not _is_candidate("Why? Really?", "Why?")
