"""Progress in a file is whole lines, seldom."""

import io

import pytest

from sweet_rl.runs.progress import progress_bar


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_a_file_gets_a_few_lines_at_first_then_one_per_half_minute_and_one_at_the_end(clock):
    file = io.StringIO()
    with progress_bar(total=100, desc="turns", unit="turn", file=file) as bar:
        for _ in range(90):
            clock[0] += 1
            bar.update()
            bar.set_postfix_str("failed 0")
    lines = file.getvalue().splitlines()
    assert "\r" not in file.getvalue()
    assert [line.split(" [")[0].split("| ")[-1] for line in lines] == [
        "turns:   2% 2/100", "turns:   6% 6/100", "turns:  14% 14/100", "turns:  30% 30/100",
        "turns:  60% 60/100", "turns:  90% 90/100", "turns:  90% 90/100",
    ]  # fmt: skip
    assert "1.00turn/s" in lines[0] and lines[0].endswith("failed 0]")


def test_a_loop_over_items_counts_each_once(clock):
    file = io.StringIO()
    for _ in progress_bar(range(90), file=file, desc="steps"):
        clock[0] += 1
    found = [line.split(" [")[0].split("| ")[-1].split()[-1] for line in file.getvalue().splitlines()]
    assert found == ["2/90", "6/90", "14/90", "30/90", "60/90", "90/90", "90/90"]


def test_items_pass_through_and_a_run_with_nothing_to_do_writes_nothing():
    file = io.StringIO()
    assert list(progress_bar([1, 2], file=file, desc="pairs")) == [1, 2]
    assert file.getvalue().startswith("pairs: 100% 2/2")
    silent = io.StringIO()
    assert list(progress_bar([], file=silent)) == []
    with progress_bar(total=5, initial=5, file=silent):
        pass
    assert list(progress_bar([1], file=silent, disable=True)) == [1]
    assert silent.getvalue() == ""


def test_items_done_before_are_not_part_of_the_speed(clock):
    file = io.StringIO()
    with progress_bar(total=100, initial=40, file=file) as bar:
        clock[0] += 10
        bar.update(20)
    assert "60/100" in file.getvalue() and "2.00it/s" in file.getvalue()


def test_a_process_that_is_told_to_be_quiet_writes_neither_lines_nor_a_bar(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    file = io.StringIO()
    assert list(progress_bar([1, 2], file=file)) == [1, 2] and file.getvalue() == ""
    assert list(progress_bar([1], file=file, disable=False)) == [1] and "1/1" in file.getvalue()
