"""Run untrusted Python and get plain data back: what is promised, how, and what is not.

The threat: an answer is a program that a language model wrote, and training rewards whatever passes the tests. Assume
that it wants to read the expected results, forge its own, change how other answers are graded, read or change files,
reach the network, start processes, or use up the machine.

How it works. `sandbox.py` runs in the grading process. It starts a warm process (`warm.py`), which loads modules,
confines itself (`confine.py`) and sees no answer. For each answer the warm process forks a child. Only the child holds
the text of the answer: it compiles it and calls it once per test, each time in a fresh module. Each value leaves the
child as text (`encode.py`); the grading process decodes it as JSON and compares it with the value of the reference
solution (`values.py`). `pool.py` keeps warm processes for the next answer.

What holds on every level:

1. One answer per process, always. A child runs the tests of one answer and exits. The warm process that later children
   are forked from has never held anything of an answer. No analysis of the code decides this.
2. Expected results are never in a process that runs an answer, or in an ancestor of one. Reference solutions run in
   warm processes of their own.
3. Only data comes out. The grading process never parses, unpickles or executes anything of an answer, and calls none of
   its methods: it decodes bounded JSON and compares trees. A forged result is a wrong or a right value, nothing else.
4. Limits per test: CPU time of all threads, time by the clock. Limits per child: memory, threads (64), open files (32),
   file size (16 MB), size of a result (8 MB). A child that exceeds a time limit is killed. After two such tests the
   others are not run.
5. The environment, the command line and inherited descriptors are gone; the only socket leads to the grading process.

What each level adds:

strict (Linux with user namespaces): own user, mount, pid, network, IPC and host-name namespaces. The root is an empty
    read-only tmpfs with one scratch folder of 16 MB that is emptied after each child. No capability is left, and a
    system-call filter allows only the calls listed in `confine.py`: no new process, no signal, no socket but a local
    pair. The child cannot outlive its tests.
seccomp (Linux without user namespaces, for example in default Docker): the filter also refuses every call that takes a
    path, so there are no files at all. Namespaces are missing; what they hide the filter refuses to reach.
limits (macOS and others): only the limits and points 1 to 3 and 5. The answer CAN read and write files, reach the
    network and start processes; one that leaves its session CAN outlive its test, and it can end its warm process.
    Memory limits are unreliable on macOS.

Time. A test may use `timeout` seconds of CPU time and three times that (at least 1 s) by the clock. At strict and
seccomp the time in which the child was ready to run but another process had the CPU does not count, if Linux tells it
(/proc/PID/task/*/schedstat). An answer cannot turn its own delay into a failure of the machine: sleeping and blocking
count; for a thread that gave up its CPU more than 200 times everything counts; sched_yield does nothing; CPU time is
that of all threads together. A test that has spent ten clock limits and exhausted neither budget is a failure of the
machine, and so is a warm process that ended (not at limits). The answer is then run again while no other answer is
graded. If that fails in the same way, its outcomes are `machine` and it gets no reward; it is not graded 0.

Not covered:

- Notes between tests of the same answer, in memory that its tests share. They tell it nothing about expected results.
  For honest code a new child takes over if a test leaves a file or a new name in a loaded module.
- Side channels: timing, CPU load, addresses of objects. Faults of the kernel.
- Modules of the installed Python that are in memory: an answer may read and call them.
- Memory of the machine: it must hold `workers` answers of `memory_mb` each. An answer that the kernel kills for want of
  memory has failed.
"""
