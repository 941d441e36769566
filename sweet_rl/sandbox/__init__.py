"""Run untrusted Python and get plain data back: what is promised, how, and what is not.

The threat: an answer is a program that a language model wrote, and training rewards whatever passes the tests. Assume
that it wants to read the expected results, forge its own, change how other answers are graded, read or change files,
reach the network, start processes, or use up the machine.

How it works. `sandbox.py` runs in the grading process. It starts a warm process (`warm.py`), which loads modules,
confines itself (`confine.py`) and sees no answer. For each answer the warm process forks a child. Only the child holds
the text of the answer: it compiles it and calls it once per test, each time in a fresh module. Each value leaves the
child as text (`encode.py`); the grading process decodes it as JSON and compares it with the value of the reference
solution (`values.py`). `pool.py` keeps warm processes for the next answer.

`--sandbox auto`, the default, takes the first of strict, seccomp and limits that the system offers, and the evaluation
prints which one it is. `--sandbox strict` refuses anything less. Evidence: benchmarks/attacks.md, a table of attacks of
which none succeeds at strict, and tests/integration/sandbox/test_attacks.py.

What holds on every level:

1. One answer per process, always. A child runs the tests of one answer and exits. The warm process that later children
   are forked from has never held anything of an answer. No analysis of the code decides this.
2. Expected results are never in a process that runs an answer, nor in the warm process that it is forked from.
   Nor are constants of the reference, except arguments of the calls. Reference solutions run in warm processes of
   their own.
3. Only data comes out. The grading process never parses, unpickles or executes anything of an answer, and calls none of
   its methods: it decodes bounded JSON and compares trees. A forged result is a wrong or a right value, nothing else.
4. Limits per test: CPU time of all threads, time by the clock. Limits per child: memory, threads (64 with the main one,
   each other with a stack of 2 MB), open files (32), file size (16 MB), size of a result (8 MB). A child that exceeds a
   time limit is killed. After two such tests the other tests of the answer are not run.
5. The environment (but for constants of `sandbox.ENVIRONMENT`), the command line and inherited descriptors are gone.
   The only connection of a child leads to the grading process.

What each level adds:

strict (Linux with user namespaces): own user, mount, pid, network, IPC and host-name namespaces. The root is a
    read-only tmpfs. In it are, read-only and at their own paths, the folders that an import reads: the standard
    library, the folders of `sys.path` named site-packages or dist-packages, the time zones. Nothing beside or above
    them is there, and no link leads out. A scratch folder of 16 MB is replaced by a new one if a child leaves anything
    in it. A child has no capability (the warm process keeps the one to mount that folder), and a system-call filter
    allows only the calls listed in `confine.py`: no new process, no signal, no socket but a local pair. The child
    cannot outlive its tests.
seccomp (Linux without user namespaces, for example in default Docker): no namespaces, but the filter also refuses every
    call that takes a path, so there are no files at all.
limits (macOS and others): nothing. The answer CAN read and write files (the file of tasks with its reference solutions
    too), reach the network and start processes. A process that it starts in a new session CAN outlive its test, and
    it can end its warm process. Memory limits are unreliable on macOS. Use a container.

Time. A test may use `timeout` seconds of CPU time, all threads together, and three times that (at least 1 s) by the
clock. At strict and seccomp, time in which the child was ready to run but had to wait for a CPU is not counted (Linux
reports it in /proc/PID/task/*/schedstat). An answer cannot use this to look like a victim of the machine: time in which
it sleeps or blocks is counted, sched_yield does nothing, and a thread that gave up its CPU 200 times or more gets no
time back.

Whose fault it is. How a child ends is the answer's doing: it exits, crashes, is killed at a limit. If ten clock limits
have passed and neither budget is used up, or if the warm process ends, the answer is run again in a new process while
no other answer is graded. If it gets no CPU then either, it has no reward; it is not graded 0. If the new process ends
too, a job without an answer runs in another one. If that one works, the answer has ended its process and is graded so;
otherwise it was the machine. A warm process takes the next answer only when it has reported that it has cleared up.

Not covered:

- Tests of the same answer share a process, so an earlier test can leave something in memory for a later one. That tells
  the answer nothing about expected results. If a test leaves a file or a new name in a loaded module, the tests after
  it run in a new child.
- Side channels: timing, CPU load, addresses of objects. Faults of the kernel.
- Modules of the installed Python: an answer may read and call them, at strict those on the disk too.
- Time in which a process loads what an answer imports, before it is confined. It is that of at most 32 imports; at
  strict an answer does all others in its own time.
- Memory of the machine: it must hold `workers` answers of `memory_mb` each. An answer that the kernel kills for want of
  memory has failed.
"""
