"""Answers that attack their grader, by what they are after. The task: f(x) = 982451653 * x + 1, called with 1 and 2.

kinds: forge (marks for a wrong answer), state (change what a later test or answer sees), read (what it should not see:
CANARY_ENV, CANARY_ARG or the file CANARY_FILE in FOLDER, returned), write (a file in FOLDER), network (a connection to
PORT), process (start, signal or outlive), resource (more time or memory than is its due). FOLDER and PORT are replaced.
"""

REFERENCE = "def f(x):\n    return 982451653 * x + 1\n"
CALLS = {"test1": "f(1)", "test2": "f(2)"}
WRONG = "def f(x):\n    return 7\n"

FORGE = {
    "object equal to everything": (
        "class A:\n    def __eq__(self, o): return True\n    __hash__ = int\ndef f(x): return A()"
    ),
    "int that is equal to everything": "class A(int):\n    def __eq__(self, o): return True\ndef f(x): return A(0)",
    "str that is equal to everything": "class A(str):\n    def __eq__(self, o): return True\ndef f(x): return A('')",
    "float, never unequal": (
        "class A(float):\n"
        "    def __eq__(self, o): return True\n"
        "    def __ne__(self, o): return False\n"
        "def f(x): return A(0)"
    ),
    "reflected comparison": (
        "class A(int):\n    def __eq__(self, o): return NotImplemented if o is self else True\ndef f(x): return A(3)"
    ),
    "lying __class__": "class A:\n    __class__ = int\n    def __eq__(self, o): return True\ndef f(x): return A()",
    "metaclass equal to everything": (
        "class M(type):\n"
        "    def __eq__(c, o): return True\n"
        "    __hash__ = type.__hash__\n"
        "class A(metaclass=M): pass\n"
        "def f(x): return A"
    ),
    "lying repr and str": (
        "class A:\n"
        "    def __repr__(s): return '982451654'\n"
        "    __str__ = __repr__\n"
        "    def __eq__(s, o): return str(s) == str(o) or True\n"
        "def f(x): return A()"
    ),
    "number by every protocol": (
        "class A:\n"
        "    def __index__(s): return 982451654\n"
        "    __int__ = __float__ = __index__\n"
        "    def __eq__(s, o): return True\n"
        "def f(x): return A()"
    ),
    "patched builtins": (
        "import builtins\nbuiltins.isinstance = builtins.all = builtins.type = lambda *a: True\ndef f(x): return 0"
    ),
    "patched eval": "import builtins\nreal = builtins.eval\nbuiltins.eval = lambda *a, **k: 5\ndef f(x): return 5",
    "patched exec": (
        "import builtins\nbuiltins.exec = lambda code, space, *a: space.update(f=lambda x: 5)\ndef f(x): return 5"
    ),
    "patched json": "import json\njson.dumps = json.loads = lambda *a, **k: True\ndef f(x): return 0",
    "patched marshal and struct": (
        "import marshal, struct\nmarshal.dumps = struct.pack = lambda *a: b'V982451654'\ndef f(x): return 0"
    ),
    "patched operator and math": (
        "import operator, math\noperator.eq = math.isclose = lambda *a, **k: True\ndef f(x): return 0"
    ),
    "patched alarm handler": (
        "import signal\nsignal.signal = signal.alarm = lambda *a: None\ndef f(x):\n    while True: pass"
    ),
    "printed verdict": "def f(x):\n    print('passed', 'ok', True, 1.0)\n    return 0",
    "exit with success": "import sys\ndef f(x): sys.exit(0)",
    "exit at once": "import os\ndef f(x): os._exit(0)",
    "exit when loaded": "import os\nos._exit(0)\ndef f(x): return 0",
    "raise the verdict": "class Passed(BaseException): pass\ndef f(x): raise Passed(True)",
    "forged result": ("import os\ndef f(x):\n    os.write(3, b'Vtrue\\n')\n    return 0"),
    "many forged results": ("import os\ndef f(x):\n    for n in range(2000): os.write(3, b'V%d\\n' % n)\n    return 0"),
    "forged reason": ('import os\ndef f(x):\n    os.write(3, b\'E"passed","1.0"\\n\')\n    return 0'),
    "bytes that are no text": "import os\ndef f(x):\n    os.write(3, b'\\xff' * 4096 + b'\\n')\n    return 0",
    "half a result": "import os\ndef f(x):\n    os.write(3, b'V98245165')\n    os._exit(0)",
    "every descriptor": (
        "import os\n"
        "def f(x):\n"
        "    for n in range(64):\n"
        "        try: os.write(n, b'Vtrue\\n')\n"
        "        except OSError: pass\n"
        "    return 0"
    ),
    "close every descriptor": "import os\nos.closerange(0, 256)\ndef f(x): return 0",
    "pickle bomb": (
        "class A:\n    def __reduce__(self): return (eval, ('982451654',))\n    x = 1\ndef f(x): return A()"
    ),
    "expected value on the stack": (
        "import sys\n"
        "def f(x):\n"
        "    n = ''.join(reversed('356154289'))\n"
        "    frame = sys._getframe(1)\n"
        "    while frame:\n"
        "        for value in [*frame.f_locals.values()]:\n"
        "            try:\n"
        "                if n in repr(value)[:10**5]: return int(n) * x + 1\n"
        "            except Exception: pass\n"
        "        frame = frame.f_back\n"
        "    return 0"
    ),
    "caller's variables": (
        "import sys\n"
        "def f(x):\n"
        "    frame = sys._getframe(1)\n"
        "    while frame:\n"
        "        for name, value in list(frame.f_locals.items()):\n"
        "            if type(value) is int and value == 982451653 * x + 1:\n"
        "                return value\n"
        "        frame = frame.f_back\n"
        "    return 0"
    ),
    "caller's function": (
        "import sys\n"
        "def f(x):\n"
        "    frame = sys._getframe(1)\n"
        "    while frame:\n"
        "        for space in (frame.f_locals, frame.f_globals):\n"
        "            for value in list(space.values()):\n"
        "                if isinstance(value, dict) and callable(value.get('f')) and value['f'] is not f:\n"
        "                    return value['f'](x)\n"
        "        frame = frame.f_back\n"
        "    return 0"
    ),
    "reference among all objects": (
        "import gc\n"
        "def f(x):\n"
        "    gc.unfreeze()\n"
        "    for o in gc.get_objects():\n"
        "        if type(o).__name__ == 'function' and o.__name__ == 'f' and o is not f:\n"
        "            return o(x)\n"
        "    return 0"
    ),
    "text of the reference in memory": (
        "import gc\n"
        "def f(x):\n"
        "    n = ''.join(reversed('356154289'))\n"
        "    gc.unfreeze()\n"
        "    for o in gc.get_objects():\n"
        "        for r in (o, *gc.get_referents(o)):\n"
        "            if type(r) is str and n in r and 'reversed' not in r: return int(n) * x + 1\n"
        "    return 0"
    ),
    "trace function": (
        "import sys\n"
        "def spy(frame, event, arg):\n"
        "    for k, v in list(frame.f_locals.items()):\n"
        "        if isinstance(v, bool): frame.f_locals[k] = True\n"
        "    return spy\n"
        "sys.settrace(spy); sys.setprofile(spy)\n"
        "def f(x): return 0"
    ),
    "all subclasses": (
        "def f(x):\n"
        "    for c in object.__subclasses__():\n"
        "        try: c.__eq__ = lambda s, o: True\n"
        "        except Exception: pass\n"
        "    class A:\n"
        "        def __eq__(s, o): return True\n"
        "    return A()"
    ),
    "exception with a lying text": (
        "class E(Exception):\n    def __str__(s): return 'V982451654'\n    __repr__ = __str__\ndef f(x): raise E"
    ),
    "exception group": (
        "def f(x):\n"
        "    class E(Exception):\n"
        "        def __str__(s): raise SystemExit(0)\n"
        "    raise ExceptionGroup('x', [E(), E()]) if 'ExceptionGroup' in dir(__builtins__) else E()"
    ),
    "zero becomes one": (
        "import ctypes\ndef f(x):\n    ctypes.memmove(id(982451654 * 0) + 24, b'\\1', 1)\n    return 0"
    ),
    "code of the harness": (
        "import sys\n"
        "def f(x):\n"
        "    code = (lambda *a, **k: b'V982451654').__code__\n"
        "    frame = sys._getframe(1)\n"
        "    for value in list(frame.f_globals.values()):\n"
        "        if type(value) is type(f):\n"
        "            try: value.__code__ = code\n"
        "            except Exception: pass\n"
        "    return 0"
    ),
    "codec that lies": (
        "import codecs\ncodecs.register(lambda n: codecs.lookup('utf-8'))\ndef f(x): return 'x'.encode('nosuch') == 1"
    ),
    "answer's own f in the call": "import builtins\nbuiltins.f = lambda x: 982451653 * 0\ndef f(x): return 1 - 1",
    "dict that compares equal": (
        "class D(dict):\n    def __eq__(s, o): return True\n    def items(s): return [(1, 2)]\ndef f(x): return D()"
    ),
    "NaN that is everything": (
        "class A(float):\n"
        "    def __eq__(s, o): return True\n"
        "    def __hash__(s): return 0\n"
        "def f(x): return {A('nan')} and A('nan')"
    ),
}
STATE = {
    "poisoned builtins": (
        "import builtins\nbuiltins.len = builtins.abs = lambda *a: 0\nbuiltins.int = str\ndef f(x): return 0"
    ),
    "poisoned modules": (
        "import sys, math, json, re\n"
        "for m in list(sys.modules.values()):\n"
        "    for n in list(vars(m)):\n"
        "        if n in ('dumps', 'loads', 'search', 'floor', 'eval'): setattr(m, n, None)\n"
        "def f(x): return 0"
    ),
    "counter between tests": (
        "import math\n"
        "math.seen = getattr(math, 'seen', 0) + 1\n"
        "def f(x): return 982451653 * 2 + 1 if math.seen == 2 else 0"
    ),
    "counter in a file": (
        "import os\n"
        "def f(x):\n"
        "    try: open('seen', 'x').close()\n"
        "    except FileExistsError: return 982451653 * 2 + 1\n"
        "    return 0"
    ),
    "raised recursion limit": "import sys\nsys.setrecursionlimit(5)\ndef f(x): return 0",
    "seeded for all": "import random\nrandom.seed(0)\nrandom.random = lambda: 4\ndef f(x): return 0",
    "changed directory": "import os\nos.chdir('/')\nos.environ.clear()\ndef f(x): return 0",
    "finaliser": (
        "class A:\n"
        "    def __del__(s):\n"
        "        import builtins\n"
        "        builtins.sum = None\n"
        "keep = A()\n"
        "def f(x): return 0"
    ),
    "exit hook": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return 0",
    "swallowed import": (
        "import sys\nsys.modules['math'] = sys.modules['json'] = None\nsys.path.clear()\ndef f(x): return 0"
    ),
}
READ = {
    "environment": "import os\ndef f(x): return str(dict(os.environ))",
    "raw environment": "def f(x): return open('/proc/self/environ').read() + open('/proc/self/cmdline').read()",
    "command line": "import sys\ndef f(x): return str(sys.argv) + str(getattr(sys, 'orig_argv', ''))",
    "environment in C": (
        "import ctypes\n"
        "def f(x):\n"
        "    g = ctypes.CDLL(None).getenv\n"
        "    g.restype = ctypes.c_char_p\n"
        "    return str(g(b'CANARY'))"
    ),
    "a file": "def f(x): return open('FOLDER/canary.txt').read()",
    "a file by dots": "def f(x): return open('../../../../../../../../FOLDER/canary.txt').read()",
    "a file by descriptor": (
        "import os\n"
        "def f(x):\n"
        "    root = os.open('/', os.O_RDONLY)\n"
        "    return os.read(os.open('FOLDER/canary.txt'.lstrip('/'), os.O_RDONLY, dir_fd=root), 99).decode()"
    ),
    "a file by a system call": (
        "import ctypes\n"
        "def f(x):\n"
        "    c = ctypes.CDLL(None)\n"
        "    b = ctypes.create_string_buffer(99)\n"
        "    c.read(c.open(b'FOLDER/canary.txt', 0), b, 99)\n"
        "    return b.value.decode()"
    ),
    "a file by memory map": (
        "import mmap, os\ndef f(x): return bytes(mmap.mmap(os.open('FOLDER/canary.txt', 0), 0, prot=1)[:]).decode()"
    ),
    "the parent's environment": "import os\ndef f(x): return open(f'/proc/{os.getppid()}/environ').read()",
    "the parent's memory": (
        "import os\n"
        "def f(x):\n"
        "    for line in open(f'/proc/{os.getppid()}/maps'):\n"
        "        if 'stack' in line:\n"
        "            a, b = (int(n, 16) for n in line.split()[0].split('-'))\n"
        "            with open(f'/proc/{os.getppid()}/mem', 'rb') as m: m.seek(a); d = m.read(b - a)\n"
        "            i = d.find(b'CANARY')\n"
        "            return str(d[i:i + 60]) if i >= 0 else ''"
    ),
    "inherited descriptors": (
        "import os\n"
        "def f(x):\n"
        "    t = ''\n"
        "    for n in range(4, 64):\n"
        "        try: os.lseek(n, 0, 0); t += os.read(n, 200).decode('latin1')\n"
        "        except OSError: pass\n"
        "    return t"
    ),
}
WRITE = {
    "write a file": "def f(x): return open('FOLDER/escaped', 'w').write('x')",
    "delete a file": "import os\ndef f(x): os.remove('FOLDER/canary.txt')",
    "rename a file": "import os\ndef f(x): os.rename('FOLDER/canary.txt', 'FOLDER/escaped')",
    "link to a file": "import os\ndef f(x): os.symlink('FOLDER/canary.txt', 'l'); open('l', 'a').write('x')",
    "truncate by a system call": "import ctypes\ndef f(x): return ctypes.CDLL(None).truncate(b'FOLDER/canary.txt', 0)",
    "write when it ends": "import atexit\natexit.register(lambda: open('FOLDER/escaped', 'w'))\ndef f(x): return 0",
}
NETWORK = {
    "connect": "import socket\ndef f(x): return socket.create_connection(('127.0.0.1', PORT), 2).fileno()",
    "connect by a library": (
        "import urllib.request\ndef f(x): return urllib.request.urlopen('http://127.0.0.1:PORT', timeout=2).status"
    ),
    "connect by a system call": (
        "import ctypes, struct\n"
        "def f(x):\n"
        "    c = ctypes.CDLL(None)\n"
        "    s = c.socket(2, 1, 0)\n"
        "    return c.connect(s, struct.pack('=HHI8x', 2, (PORT >> 8 | PORT << 8) & 65535, 0x0100007f), 16)"
    ),
}
PROCESS = {
    "kill the parent": "import os\ndef f(x): os.kill(os.getppid(), 9)",
    "kill the group": "import os\ndef f(x): os.killpg(0, 9)",
    "kill everyone": "import os\ndef f(x): os.kill(-1, 9)",
    "stop the parent": "import os, signal\ndef f(x): os.kill(os.getppid(), signal.SIGSTOP)",
    "daemon": (
        "import os, time\n"
        "def f(x):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0: time.sleep(60)\n"
        "        os._exit(0)\n"
        "    return 0"
    ),
    "program": "import subprocess\ndef f(x): subprocess.Popen(['sleep', '60'], start_new_session=True); return 0",
    "fork bomb": "import os, time\ndef f(x):\n    for _ in range(7): os.fork()\n    time.sleep(60)",
    "thread that stays": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\ndef f(x): return 0"
    ),
    "daemon thread that prints": (
        "import threading\n"
        "def spin():\n"
        "    while True: pass\n"
        "threading.Thread(target=spin, daemon=True).start()\n"
        "def f(x): return 0"
    ),
    "exec": "import os\ndef f(x): os.execv('/bin/true', ['true'])",
    "crash": "import ctypes\ndef f(x): return ctypes.string_at(0)",
    "abort": "import os\ndef f(x): os.abort()",
    "trace the parent": (
        "import ctypes, os\n"
        "def f(x):\n"
        "    c = ctypes.CDLL(None)\n"
        "    if c.ptrace(16, os.getppid(), 0, 0) == 0:\n"
        "        os.waitpid(os.getppid(), 0)\n"
        "        os.kill(os.getppid(), 9)\n"
        "    return 0"
    ),
}
RESOURCE = {
    "sleep, to look like a slow machine": "import time\ndef f(x): time.sleep(60)",
    "many short sleeps": "import time\ndef f(x):\n    while True: time.sleep(0.001)",
    "many shorter sleeps": "import time\ndef f(x):\n    while True: time.sleep(1e-9)",
    "a lock that is never released": (
        "import threading\ndef f(x):\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()"
    ),
    "giving its CPU away": "import os\ndef f(x):\n    while True: os.sched_yield()",
    "threads that keep each other from a CPU": (
        "import hashlib, threading, time\n"
        "def burn():\n"
        "    while True: hashlib.sha256(bytes(1 << 20))\n"
        "def f(x):\n"
        "    for _ in range(20): threading.Thread(target=burn, daemon=True).start()\n"
        "    time.sleep(60)"
    ),
    "endless loop": "def f(x):\n    while True: pass",
    "swallowed alarm": (
        "def f(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass"
    ),
    "ignored signals": (
        "import signal\n"
        "for s in range(1, 32):\n"
        "    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except Exception: pass\n"
        "def f(x):\n"
        "    while True: pass"
    ),
    "endless in C": "def f(x): return sum(iter(int, 1))",
    "catastrophic pattern": "import re\ndef f(x): return re.match('(a+)+$', 'a' * 40 + 'b')",
    "sleep": "import time\ndef f(x):\n    try: time.sleep(60)\n    except BaseException: time.sleep(60)",
    "endless when compared": (
        "class A:\n"
        "    def __eq__(s, o):\n"
        "        while True:\n"
        "            try:\n"
        "                while True: pass\n"
        "            except BaseException: pass\n"
        "def f(x): return A()"
    ),
    "endless generator": "def f(x):\n    while True: yield 1",
    "endless __iter__": "class A:\n    def __iter__(s): return s\n    def __next__(s): return 1\ndef f(x): return A()",
    "memory": "def f(x): return len(bytearray(3 << 30))",
    "memory bit by bit": "def f(x):\n    a = []\n    while True: a.append(bytearray(1 << 20))",
    "huge integer": "def f(x): return 7 ** 30_000_000",
    "huge text of an integer": "import sys\nsys.set_int_max_str_digits(0)\ndef f(x): return 7 ** 1_000_000",
    "huge result": "def f(x): return 'x' * 300_000_000",
    "deep result": "def f(x):\n    a = []\n    for _ in range(10**6): a = [a]\n    return a",
    "cyclic result": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "wide from small": "def f(x):\n    a = [1]\n    for _ in range(60): a = [a, a]\n    return a",
    "deep recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x) + 1",
    "deep parentheses": "def f(x): return " + "(" * 5000 + "0" + ")" * 5000,
    "a long text": "def f(x): return 0\ny = [" + "[0]," * 100_000 + "]\n",
    "huge constant": "def f(x): return (1 << (1 << 34)) and 'x' * (1 << 34)",
    "much printing": "def f(x):\n    for _ in range(300_000): print('x' * 1000)\n    return 0",
    "fraction of a decimal": (
        "from decimal import Decimal\n"
        "from fractions import Fraction\n"
        "class A(Fraction):\n"
        "    numerator, denominator = Decimal('1e99999999'), None\n"
        "def f(x): return A()"
    ),
    "forged deep result": (
        "import os\n"
        "def f(x):\n"
        "    d = b'V' + b'[\"l\",' * 4 + b'{\"a\":' * 982 + b'1' + b'}' * 982 + b']' * 4\n"
        "    os.write(3, d + b'\\n')\n"
        "    os._exit(0)"
    ),
    "forged fraction": (
        "import os\n"
        "def f(x):\n"
        '    d = b\'V["fr",["dec","1e99999999"],null]\'\n'
        "    os.write(3, d + b'\\n')\n"
        "    os._exit(0)"
    ),
    "fraction that never ends": (
        "from fractions import Fraction\ndef f(x): return Fraction(3 ** 2_000_000, 2 ** 3_000_000)"
    ),
}
KINDS = {
    "forge": FORGE, "state": STATE, "read": READ, "write": WRITE, "network": NETWORK, "process": PROCESS,
    "resource": RESOURCE,
}  # fmt: skip
ATTACKS = {(kind, name): answer for kind, answers in KINDS.items() for name, answer in answers.items()}
