"""What the tests share: the processes of a group, and why tests are skipped."""

import atexit
import glob
import importlib
import multiprocessing
import os
import secrets
import socket
import subprocess
import sys
import traceback
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.dirname(HERE)
ROOT = os.path.dirname(PACKAGES)
HEADER = os.path.join(ROOT, "ep4j-c/src/main/resources/org/ep4j/c/ep4j.h")

sys.path.insert(0, PACKAGES)

try:
    import torch
except ImportError:
    torch = None

HOME = os.environ.get("EP4J_HOME") or ROOT
_JARS = [
    jar
    for place in ("lib", "ep4j-cli/target/lib", "ep4j-cli/target/quick/lib")
    for jar in glob.glob(os.path.join(HOME, place, "ep4j-c-*.jar"))
]
_JVM = bool(
    os.environ.get("EP4J_JAVA_HOME")
    or os.environ.get("JAVA_HOME")
    or os.path.exists(os.path.join(HOME, "runtime"))
)

if not _JARS:
    MISSING = "no jars: run ./ep4j --version"
elif not _JVM:
    MISSING = "no JVM: set EP4J_JAVA_HOME"
elif torch is None:
    MISSING = "no torch"
else:
    MISSING = None

# Tests that call the engine.
needs_engine = unittest.skipIf(MISSING, MISSING)

# Longest wait for a process, with a machine that others use too.
LIMIT = 90


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def environment(**changes):
    """The environment of a process; None removes a variable."""
    result = dict(os.environ, PYTHONPATH=PACKAGES + os.pathsep + HERE)
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def run(program, limit=LIMIT, **changes):
    """Runs a Python program; returns the completed process with its texts."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=limit,
    )


def _worker(pipe):
    # One process of the pool: receives the names of functions, calls them, and sends the results.
    torch.set_num_threads(1)
    while True:
        try:
            module, name, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            answer = (True, getattr(importlib.import_module(module), name)(*arguments))
        except BaseException as error:
            answer = (False, f"{error!r}\n{traceback.format_exc()}")
        pipe.send(answer)


class _Pool:
    """Processes that are ranks of one group after another: each imports torch once."""

    def __init__(self):
        self._context = multiprocessing.get_context("spawn")
        self._workers = []

    def call(self, function, ranks, *arguments):
        """Calls function(join, *arguments) in `ranks` processes, where join are the arguments of
        Group.join; returns the results by rank. A process that dies returns None.
        """
        secret = secrets.token_hex(16)
        port = free_port()
        workers = [self._worker(rank) for rank in range(ranks)]
        for rank, (_, pipe) in enumerate(workers):
            join = dict(rank=rank, ranks=ranks, port=port, secret=secret, join_timeout=LIMIT)
            pipe.send((function.__module__, function.__name__, (join, *arguments)))
        results = []
        errors = []
        for rank, (process, pipe) in enumerate(workers):
            try:
                if not pipe.poll(LIMIT):
                    process.kill()
                    raise AssertionError(f"rank {rank} did not end within {LIMIT} s")
                done, value = pipe.recv()
            except (EOFError, OSError):
                done, value = True, None  # It died.
            results.append(value)
            if not done:
                errors.append(f"rank {rank}: {value}")
        if errors:
            raise AssertionError("\n".join(errors))
        return results

    def _worker(self, index):
        while len(self._workers) <= index:
            self._workers.append(None)
        held = self._workers[index]
        if held is None or not held[0].is_alive():
            mine, its = self._context.Pipe()
            process = self._context.Process(target=_worker, args=(its,), daemon=True)
            process.start()
            its.close()
            held = self._workers[index] = (process, mine)
        return held

    def end(self):
        for process, pipe in filter(None, self._workers):
            pipe.close()
            process.join(5)
            if process.is_alive():
                process.kill()


POOL = _Pool()
atexit.register(POOL.end)

if MISSING:
    print(f"ep4j: tests that call the engine are skipped: {MISSING}", file=sys.stderr)
