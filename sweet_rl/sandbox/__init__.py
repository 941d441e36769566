"""Run untrusted Python and get plain data back.

The threat: an answer is a program that a language model wrote, and training rewards whatever passes the tests. Assume
that it wants to read the expected results, forge its own, change how other answers are graded, read or change files,
reach the network, start processes, or use up the machine.

How it works. `sandbox.py` runs in the grading process. It starts a fork server (`fork_server.py`), which loads modules
(`modules.py`, `warm_up.py`), drops its rights (`confine.py`) and sees no answer. For each answer the server forks a
child. Only the child holds the text of the answer: under a system-call filter it calls the answer once per test, each
time in a fresh module. Each value leaves the child as text (`encode.py`); the grading process decodes it as JSON and
compares it with the value of the reference solution (`values.py`).

What holds (Linux with seccomp, root or not, in containers too; `benchmarks/attacks.md`):

1. One answer per process. The server that later children are forked from has never held anything of an answer.
2. Expected results are never in a process that runs an answer, nor in the server that it is forked from. Nor are
   constants of the reference, except arguments of the calls. References run on servers of their own.
3. Only data comes out. The grading process never executes or unpickles anything of an answer, and calls none of its
   methods. A forged result is a wrong or a right value, nothing else.
4. The filter allows a list of calls. None of them opens a file, a connection, a thread or another process.
5. Limits per test: `timeout` seconds of CPU time; ten times as many by the clock. Limits per answer:
   memory, 32 descriptors, 8 MB of a result. After two tests that ran out of time the others are not run.
6. The environment (except the hash seed and `sandbox.ENVIRONMENT`), command line and inherited descriptors are gone.

If a server ends while it runs an answer, the answer is run once more on a new one. An answer that needs a module that
is not there fails with `missing module`; one that needs a file, a thread or an event loop (`asyncio.run`) with
`forbidden`. The summary of an evaluation counts both; `--sandbox none` in a container lets them run.

`--sandbox none` runs answers as plain processes: points 4 to 6 do not hold, except for the time, and an answer can do
what you can do. Every grade records it.

Not covered: faults of the kernel; side channels (timing, CPU load); notes that one test of an answer leaves in memory
for the next (a test that leaves a name in a loaded module makes the next one run in a new child); the memory of the
machine, which must hold `workers` answers of `memory_mb` each.
"""
