"""The pool: roles apart, processes reused, a second try alone for what the machine failed."""

import threading

import pytest

from sweet_rl.sandbox.pool import MAX_IMPORTS, MAX_NAMES, Pool, _Turns
from sweet_rl.sandbox.sandbox import Job, Sandbox, SandboxUnavailable, pack_tests

MACHINE = ("machine", "ran out of wall time")
ONE = ("value", b"1")


class FakeSandbox:
    """Gives the outcomes that `script` holds, one list per run, and says what ran where."""

    script: list = []
    made: list = []
    clean = True

    def __init__(self, level, timeout, memory_mb, modules=(), hash_seed=0):
        self.modules, self.seed, self.jobs = modules, hash_seed, []
        FakeSandbox.made.append(self)

    def run(self, job):
        self.jobs.append(job)
        outcome = FakeSandbox.script.pop(0) if FakeSandbox.script else [ONE] * job.count
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def ready(self):
        return self.clean

    def close(self):
        pass


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr("sweet_rl.sandbox.pool.Sandbox", FakeSandbox)
    FakeSandbox.script, FakeSandbox.made = [], []
    pool = Pool("strict", 1.0, 64, workers=2)
    yield pool
    pool.close()


JOB = Job(["def f(): return 1"], b"", 2)


def test_a_job_that_the_machine_failed_is_run_again_alone(pool, monkeypatch):
    alone = []
    monkeypatch.setattr(pool._turns, "alone", lambda original=pool._turns.alone: alone.append(1) or original())
    FakeSandbox.script = [[ONE, MACHINE], [ONE, ONE]]
    assert pool.run("answer", 0, JOB, set()) == [ONE, ONE] and alone == [1]
    assert pool.run("answer", 0, JOB, set()) == [ONE, ONE] and alone == [1]


def test_a_job_that_the_machine_fails_twice_keeps_the_outcome_of_the_machine(pool):
    FakeSandbox.script = [[MACHINE, MACHINE], [ONE, MACHINE]]
    assert pool.run("answer", 0, JOB, set()) == [ONE, MACHINE] and FakeSandbox.script == []


def test_a_warm_process_that_ends_is_replaced_and_no_fault_of_the_answer(pool):
    FakeSandbox.script = [EOFError(), [ONE, ONE]]
    assert pool.run("answer", 0, JOB, set()) == [ONE, ONE] and len(FakeSandbox.made) == 2


@pytest.mark.parametrize(("control", "reason"), [([ONE], "exited"), (EOFError(), "machine")])
def test_an_answer_has_ended_its_process_if_that_ends_again_and_one_without_the_answer_does_not(pool, control, reason):
    FakeSandbox.script = [EOFError(), EOFError(), control]
    assert [reason for reason, _ in pool.run("answer", 0, JOB, set())] == [reason, reason]
    assert [[job.texts for job in sandbox.jobs] for sandbox in FakeSandbox.made] == [[JOB.texts], [JOB.texts], [[""]]]


def test_the_second_run_is_in_a_new_process(pool):
    pool._idle[("answer", 0, ())] = [FakeSandbox(*[0] * 3), FakeSandbox(*[0] * 3)]
    FakeSandbox.script = [[ONE, MACHINE], [ONE, ONE]]
    assert pool.run("answer", 0, JOB, set()) == [ONE, ONE]
    assert [len(sandbox.jobs) for sandbox in FakeSandbox.made] == [0, 1, 1]


def test_a_process_that_has_not_cleared_up_is_not_used_again(pool):
    pool.run("answer", 0, JOB, set())
    FakeSandbox.made[0].clean = False
    assert pool.run("answer", 0, JOB, set()) == [ONE, ONE]
    assert [len(sandbox.jobs) for sandbox in FakeSandbox.made] == [1, 1]


def test_references_and_answers_and_hash_seeds_never_meet_in_a_process(pool):
    for _ in range(2):
        for role, seed in (("reference", 0), ("reference", 1), ("answer", 0)):
            pool.run(role, seed, Job([role], b"", 1), set())
    assert [(sandbox.seed, {job.texts[0] for job in sandbox.jobs}) for sandbox in FakeSandbox.made] == [
        (0, {"reference"}), (1, {"reference"}), (0, {"answer"}),
    ]  # fmt: skip


def test_code_that_lacks_a_module_is_run_again_with_all_of_them(pool):
    FakeSandbox.script = [[("exception", "ModuleNotFoundError: No module named 'numpy'")], [ONE]]
    assert pool.run("answer", 0, Job(["import math"], b"", 1), {"math"}) == [ONE]
    few, many = (set(sandbox.modules) for sandbox in FakeSandbox.made)
    assert "numpy" in many - few and len(few) < len(many)


def test_idle_processes_are_bounded(pool):
    for seed in range(40):
        pool.run("answer", seed, JOB, set())
    assert sum(map(len, pool._idle.values())) == 6 * 2 + 8


def test_a_job_alone_waits_for_the_others_and_they_wait_for_it():
    turns, order = _Turns(), []
    beside, may_end = threading.Event(), threading.Event()

    def first():
        with turns.beside_others():
            beside.set()
            may_end.wait(60)
            order.append("first ends")

    def alone():
        with turns.alone():
            order.append("alone")

    def second():
        with turns.beside_others():
            order.append("second")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    beside.wait(60)
    threads.append(threading.Thread(target=alone))
    threads[1].start()
    while not turns._want_alone:  # the thread is on its way
        threading.Event().wait(0.001)
    threads.append(threading.Thread(target=second))
    threads[2].start()
    may_end.set()
    for thread in threads:
        thread.join(60)
    assert order == ["first ends", "alone", "second"]


def test_the_second_run_of_a_real_job_is_in_a_living_process():
    pool = Pool("limits", 0.5, 64, workers=1)
    try:
        job = Job(["def f(): return 1"], pack_tests([compile("f()", "test", "eval")]), 1, ["f"])
        assert pool.run("answer", 0, job, set()) == [ONE]
        (sandbox,) = next(idle for key, idle in pool._idle.items() if key[0] == "answer")
        assert isinstance(sandbox, Sandbox)
        sandbox._process.kill()
        sandbox._process.wait()
        assert pool.run("answer", 0, job, set()) == [ONE]
    finally:
        pool.close()


RARE = [
    "asyncio",
    "cmd",
    "colorsys",
    "configparser",
    "fileinput",
    "glob",
    "gzip",
    "logging",
    "netrc",
    "optparse",
    "shelve",
]
INVENTED = [[("exception", "ModuleNotFoundError: " + "; ".join(f"No module named {name!r}" for name in RARE))]]


def test_messages_of_an_answer_name_few_modules(pool):
    FakeSandbox.script = [*INVENTED, [("value", b"true")] * MAX_NAMES, [ONE]]
    assert pool.run("answer", 0, Job([""], b"", 1), set()) == [ONE]
    assert sum(name in FakeSandbox.made[-1].modules for name in RARE) == MAX_NAMES < len(RARE)


def test_a_text_names_few_modules(pool):
    pool.run("answer", 0, JOB, {f"numpy.m{number}" for number in range(100)})
    assert sum(name.startswith("numpy.m") and name != "numpy.ma" for name in FakeSandbox.made[0].modules) == MAX_IMPORTS


def test_messages_of_an_answer_name_no_modules_that_its_process_could_read(pool):
    FakeSandbox.script = [*INVENTED, [("value", b"true")] + [("value", b"false")] * (MAX_NAMES - 1), [ONE]]
    assert pool.run("answer", 0, Job([""], b"", 1), set()) == [ONE]
    assert [name for name in RARE if name in FakeSandbox.made[-1].modules] == RARE[:1]


@pytest.mark.parametrize("name", ["nowhere_to_be_found", "", ".", "__main__", "sys"])
def test_what_is_not_installed_is_not_asked_for(pool, name):
    FakeSandbox.script = [[("exception", f"ModuleNotFoundError: No module named {name!r}")]] * 2
    assert pool.run("answer", 0, Job([""], b"", 1), {"os"})[0][0] == "exception" and len(FakeSandbox.script) == 1


def test_an_answer_that_reads_the_disk_makes_no_process_load_what_it_names():
    try:
        pool = Pool("strict", 1.0, 128, workers=1)
        code = "def f(): raise ModuleNotFoundError(\"No module named 'numpy'; No module named 'colorsys'\")"
        job = Job([code], pack_tests([compile("f()", "test", "eval")]), 1, ["f"])
        assert pool.run("answer", 0, job, set())[0][0] == "exception"
    except SandboxUnavailable:
        pytest.skip("strict is not available here")
    else:
        assert not {"numpy", "colorsys"} & {module for _, _, modules in pool._idle for module in modules}
    finally:
        pool.close()
