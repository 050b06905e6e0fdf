"""Start and end of a process, forks, signals and lost ranks, in processes of their own."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from support import HOME, PACKAGES, ROOT, POOL, environment, free_port, needs_engine, run

# Time between the report of a program that hangs, and its end.
REPORT = 5

# Before each program of ProcessTest: `pair` opens the buffers of a group of two ranks.
PRELUDE = """
import faulthandler, os, signal, sys, threading, time
# A shell that starts the tests in the background lets them ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A program that hangs prints the stacks of its threads.
faulthandler.dump_traceback_later({limit}, exit=True)
import ep4j, torch
CONFIG = ep4j.BufferConfig(hidden=512, top_k=3, experts=8, max_tokens=8, timeout=30.0)
x = torch.ones(5, 512).bfloat16()
topk_idx = torch.arange(15).reshape(5, 3) % 8
def pair():
    groups = ep4j.Group.in_process(2)
    others = []
    opened = threading.Event()
    def be_rank_1():
        try:
            others.append(ep4j.Buffer(groups[1], CONFIG))
        finally:
            opened.set()
        threading.Event().wait()  # The rank lives as long as its thread.
    threading.Thread(target=be_rank_1, daemon=True).start()
    buffer = ep4j.Buffer(groups[0], CONFIG)
    opened.wait()
    return [buffer, *others]
def interrupt_after(seconds):
    def act():
        time.sleep(seconds)
        interrupt_after.at = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=act, daemon=True).start()
"""


@needs_engine
class StartTest(unittest.TestCase):
    START = (
        "import ep4j\n"
        "try:\n"
        "    ep4j.Group.from_environment().close()\n"
        "    print('started')\n"
        "except ep4j.Error as error:\n"
        "    print(type(error).__name__, error.code, error)\n"
    )

    def start(self, **changes):
        return run(self.START, **changes).stdout.strip()

    def test_the_directory_of_the_package_is_the_home(self):
        if HOME != ROOT:
            self.skipTest("the jars are those of EP4J_HOME")
        self.assertEqual(self.start(EP4J_HOME=None), "started")
        self.assertEqual(self.start(EP4J_HOME=""), "started")

    def test_no_home(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = os.path.join(directory, "python", "ep4j")
            shutil.copytree(os.path.join(PACKAGES, "ep4j"), copy)
            said = subprocess.run(
                [sys.executable, "-c", self.START],
                env=dict(environment(EP4J_HOME=None), PYTHONPATH=os.path.dirname(copy)),
                capture_output=True,
                text=True,
                cwd=directory,
            ).stdout
        self.assertRegex(said, "^SystemFailure 6130 EP4J-6130: EP4J_HOME is not set, and ")
        said = self.start(EP4J_HOME="/nowhere")
        self.assertRegex(said, "^SystemFailure 6130 .*EP4J_HOME = /nowhere; it must hold")

    def test_a_colon_in_the_home(self):
        with tempfile.TemporaryDirectory(suffix=":") as directory:
            os.mkdir(os.path.join(directory, "lib"))
            open(os.path.join(directory, "lib", "ep4j-c-1.jar"), "w").close()
            said = self.start(EP4J_HOME=directory)
        self.assertRegex(said, "^SystemFailure 6130 .* has a ':'")

    def test_no_jvm(self):
        said = self.start(EP4J_HOME=HOME, EP4J_JAVA_HOME="/nowhere")
        self.assertRegex(said, "^SystemFailure 6131 .*EP4J_JAVA_HOME = /nowhere, and ")
        if not os.path.exists(os.path.join(HOME, "runtime")):
            said = self.start(EP4J_JAVA_HOME=None, JAVA_HOME=None)
            self.assertRegex(said, "^SystemFailure 6131 .*neither EP4J_JAVA_HOME nor JAVA_HOME")
        with tempfile.TemporaryDirectory() as directory:
            server = os.path.join(directory, "lib", "server")
            os.makedirs(server)
            with open(os.path.join(server, "libjvm.so"), "w", encoding="ascii") as file:
                file.write("no library")
            said = self.start(EP4J_JAVA_HOME=directory)
        self.assertRegex(said, "^SystemFailure 6131 .*is not the library of a JVM")

    def test_wrong_options(self):
        said = self.start(EP4J_JVM_OPTIONS="-XX:NoSuchOption")
        self.assertRegex(said, "(?m)^SystemFailure 6132 .*EP4J_JVM_OPTIONS = '-XX:NoSuchOption'")
        # Many options, cut at spaces only.
        many = " ".join(f"-Dproperty{i}={i}" for i in range(600)) + "  -Xlog:disable"
        self.assertEqual(self.start(EP4J_JVM_OPTIONS=many), "started")

    def test_a_jvm_without_the_jars_and_one_with_them(self):
        program = (
            "import os\n"
            "from ep4j import _jvm\n"
            "create = _jvm._load(_jvm._find_jvm(_jvm.home()))\n"
            "options = [o for o in os.environ['OPTIONS'].split('|') if o]\n"
            "assert _jvm._create_with(create, options)[2] == 0\n"
        ) + self.START
        said = run(program, OPTIONS="").stdout
        self.assertRegex(said, "^SystemFailure 6133 .*process has already does not load")
        jars = subprocess.run(
            [sys.executable, "-c", "from ep4j import _jvm; print(_jvm._jars(_jvm.home()))"],
            env=environment(),
            capture_output=True,
            text=True,
        ).stdout.strip()
        path = ":".join(os.path.join(jars, n) for n in os.listdir(jars) if n.endswith(".jar"))
        options = f"-Djava.class.path={path}|--add-modules=jdk.incubator.vector|-Xrs"
        self.assertEqual(run(program, OPTIONS=options).stdout.strip(), "started")

    def test_version_and_group_need_no_torch(self):
        said = run(
            "import sys, ep4j\n"
            "print(ep4j.version())\n"
            "ep4j.Group.from_environment().close()\n"
            "assert 'torch' not in sys.modules"
        )
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertRegex(said.stdout, r"^\d+\.\d+")


@needs_engine
class ProcessTest(unittest.TestCase):
    def check(self, program, code=0, limit=60):
        started = time.monotonic()
        done = run(PRELUDE.replace("{limit}", str(limit - REPORT)) + program, limit)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, time.monotonic() - started

    def check_times(self, said, *names):
        """A program printed, for each name, the seconds from a signal to the end of a call."""
        lines = [line.split() for line in said.splitlines()]
        self.assertEqual([name for name, _ in lines], list(names))
        for name, seconds in lines:
            # Within a second on a machine with free cores; a lost signal takes 30 s or more.
            self.assertLess(float(seconds), 5, name)

    def test_a_forked_child_is_refused_and_can_end(self):
        self.check(
            """
buffers = pair()
event = None
child = os.fork()
if child == 0:
    for call in (ep4j.Group.from_environment, lambda: buffers[0].dispatch(x, topk_idx),
                 lambda: ep4j.BufferConfig(512, 3, 8, 8).sizes(1), buffers[0].close,
                 buffers[0].statistics):
        try:
            call()
            os._exit(1)
        except ep4j.InvalidUse as error:
            if error.code != 2010 or "forked from" not in str(error):
                os._exit(2)
    if signal.set_wakeup_fd(-1) != -1:
        os._exit(3)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
thread = threading.Thread(target=buffers[1].dispatch, args=(x, topk_idx))
thread.start()
assert buffers[0].dispatch(x, topk_idx).rows > 0
thread.join()
"""
        )

    def test_the_exit_code_stays_with_operations_in_flight(self):
        for end in ("sys.exit(7)", "threading.Timer(0.2, int).start(); raise SystemExit(7)"):
            with self.subTest(end):
                _, seconds = self.check(
                    f"""
buffers = pair()
buffers[0].dispatch(x, topk_idx, async_finish=True)
{end}
""",
                    7,
                    30,
                )
                self.assertLess(seconds, 25)

    def test_tensors_of_operations_in_flight_outlive_buffer_and_interpreter(self):
        said, _ = self.check(
            """
import weakref
reports = []
def tensor(name):
    # Reports its end; a callback that used names of this program would keep them alive.
    rows = torch.ones(5, 512).bfloat16()
    names = {"write": os.write, "name": name.encode()}
    reports.append(weakref.ref(rows, eval("lambda _: write(1, name)", names)))
    return rows
def use(closing):
    buffer, other = pair()
    buffer.dispatch(tensor("closed " if closing else "open "), topk_idx, async_finish=True)
    if closing:
        other.dispatch(x, topk_idx)
        buffer.close()
use(True)
use(False)
print("end", flush=True)
# The reports outlive the interpreter.
import ctypes
ctypes.pythonapi.Py_IncRef(ctypes.py_object(reports))
"""
        )
        self.assertEqual(said.split(), ["closed", "end"])

    def test_a_daemon_thread_that_waits_does_not_hold_the_exit(self):
        self.check(
            """
buffers = pair()
threading.Thread(target=buffers[0].dispatch, args=(x, topk_idx), daemon=True).start()
time.sleep(0.5)
sys.exit(7)
""",
            7,
            25,
        )

    def test_ctrl_c_ends_waits(self):
        said, _ = self.check(
            f"""
# The JVM starts here, which no signal interrupts.
buffers = pair()
interrupt_after(0.5)
try:
    ep4j.Group.join(rank=0, ranks=2, secret="s" * 32, port={free_port()})
except KeyboardInterrupt:
    print("join", time.monotonic() - interrupt_after.at)
interrupt_after(0.5)
try:
    buffers[0].dispatch(x, topk_idx)
except KeyboardInterrupt:
    print("dispatch", time.monotonic() - interrupt_after.at)
thread = threading.Thread(target=buffers[1].reset)
thread.start()
buffers[0].reset()
thread.join()
event = buffers[0].dispatch(x, topk_idx, async_finish=True).event
interrupt_after(0.5)
try:
    event.wait()
except KeyboardInterrupt:
    print("wait", time.monotonic() - interrupt_after.at)
buffers[1].dispatch(x, topk_idx)
assert event.wait(20)
"""
        )
        self.check_times(said, "join", "dispatch", "wait")

    def test_a_ctrl_c_just_before_a_call_ends_it(self):
        # As a signal that arrives when Python has looked for signals the last time before a call:
        # written to the descriptor only, in a function that the package calls before that call.
        said, _ = self.check(
            """
buffers = pair()
from ep4j import interrupts, throughput
arrive = throughput.arrive
last_steps = '''
def last_steps():
    arrive()
    os.write(interrupts._watcher._target, bytes([signal.SIGINT]))
    time.sleep(0.2)  # The watcher takes it.
'''
for place in ("ep4j.throughput", "elsewhere"):
    names = dict(globals(), __name__=place)
    exec(last_steps, names)
    throughput.arrive = names["last_steps"]
    began = time.monotonic()
    try:
        buffers[0].dispatch(x, topk_idx)
    except ep4j.Interrupted:
        print(place, time.monotonic() - began)
    throughput.arrive = arrive
    thread = threading.Thread(target=buffers[1].reset)
    thread.start()
    buffers[0].reset()
    thread.join()
"""
        )
        self.check_times(said, "ep4j.throughput", "elsewhere")

    def test_a_ctrl_c_just_after_a_handled_one_ends_a_call(self):
        # The watcher is slow: the second signal comes before it has taken the first.
        said, _ = self.check(
            """
buffers = pair()
from ep4j import interrupts
watcher = interrupts._watcher
read = os.read
def slow_read(*arguments):
    if threading.current_thread().name == "ep4j-interrupts":
        time.sleep(0.5)
    return read(*arguments)
os.read = slow_read
os.write(watcher._target, bytes([signal.SIGINT]))
time.sleep(0.1)
interrupt_after(0.3)
try:
    buffers[0].dispatch(x, topk_idx)
except KeyboardInterrupt:
    print("dispatch", time.monotonic() - interrupt_after.at)
"""
        )
        self.check_times(said, "dispatch")

    def test_a_ctrl_c_that_no_call_waits_for_harms_none(self):
        self.check(
            """
buffers = pair()
from ep4j import interrupts
for turn in range(20):
    thread = threading.Timer(0.1, buffers[1].dispatch, (x, topk_idx))
    thread.start()
    if turn % 2:
        # As a signal that Python has handled and the thread has not seen yet.
        os.write(interrupts._watcher._target, bytes([signal.SIGINT]))
    else:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            pass
    assert buffers[0].dispatch(x, topk_idx).rows > 0
    thread.join()
"""
        )

    def test_a_program_with_handlers_of_its_own_is_left_alone(self):
        self.check(
            """
import asyncio, socket
mine, target = socket.socketpair()
target.setblocking(False)
signal.set_wakeup_fd(target.fileno())
buffers = pair()
assert signal.set_wakeup_fd(target.fileno()) == target.fileno()
signal.set_wakeup_fd(-1)
ep4j.Group.from_environment().close()
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
interrupt_after(0.3)
threading.Timer(1.0, buffers[1].dispatch, (x, topk_idx)).start()
assert buffers[0].dispatch(x, topk_idx).rows > 0
assert seen == [1]

async def caught():
    loop = asyncio.get_running_loop()
    got = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, got.set)
    ep4j.Group.from_environment().close()
    interrupt_after(0.1)
    await asyncio.wait_for(got.wait(), 10)
asyncio.run(caught())
"""
        )


@needs_engine
class LostRankTest(unittest.TestCase):
    def test_a_killed_rank_is_reported_and_the_others_go_on(self):
        import ranks_faults

        results = POOL.call(ranks_faults.killed, 3)
        self.assertIsNone(results[2])
        for seconds in results[:2]:
            self.assertLess(seconds, 10)

    def test_a_killed_rank_comes_back(self):
        import ranks_faults

        port = free_port()
        results = POOL.call(ranks_faults.replaced, 2, port)
        self.assertEqual(results, ["readmitted [1]", None])

    def test_a_rank_that_calls_something_else(self):
        import ranks_faults

        POOL.call(ranks_faults.mismatch, 2)


if __name__ == "__main__":
    unittest.main()
