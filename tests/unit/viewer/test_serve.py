"""Text search over many entries, against the plain way."""

import random

from sweet_rl.viewer import serve
from sweet_rl.viewer.serve import SearchText, words_of


def test_words_and_phrases_of_a_query():
    assert words_of('Two "Whole Phrase" x"') == ["two", "whole phrase", 'x"']


def test_it_finds_what_a_plain_search_finds_whatever_the_blocks(monkeypatch):
    draw = random.Random(1)
    letters = "abcé ß\n\U0001f600\ud83d"
    entries = [["".join(draw.choices(letters, k=draw.randrange(30))) for _ in range(2)] for _ in range(300)]
    for block in (1, 64, 1 << 22):
        monkeypatch.setattr(serve, "BLOCK", block)
        texts = SearchText()
        for entry in entries:
            texts.add(entry)
        for query in ("a", "ab c", "É", '"a b"', "ss", "\U0001f600", "zz", "", "a a"):
            plain = [
                number
                for number, entry in enumerate(entries)
                if all(any(word in text.casefold() for text in entry) for word in words_of(query))
            ]
            assert texts.find(query) == plain, (block, query)
        texts.close()


def test_a_phrase_does_not_reach_from_one_text_into_the_next():
    texts = SearchText()
    texts.add(["one", "two"])
    assert texts.find('"one two"') == texts.find('"one\ntwo"') == [] and texts.find("one two") == [0]
    texts.close()
