"""The benchmark that compares systems: each measures and verifies, on CPU tensors."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

from support import LIMIT, PACKAGES, needs_engine

PROGRAM = os.path.join(PACKAGES, "benchmarks", "compare_exchange.py")


def run(*arguments):
    environment = dict(os.environ, PYTHONPATH=PACKAGES)
    return subprocess.run(
        (sys.executable, PROGRAM, *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=LIMIT,
    )


class KernelsOfCallsTest(unittest.TestCase):
    def test_kernels_count_for_the_call_in_which_they_start(self):
        spec = importlib.util.spec_from_file_location("compare_exchange", PROGRAM)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)

        def event(kind, name, ts, dur):
            return dict(cat=kind, name=name, ts=ts, dur=dur)

        events = [
            event("kernel", "barrier", 5, 40),
            event("user_annotation", program.CALL, 100, 50),
            event("gpu_user_annotation", program.CALL, 110, 30),
            event("kernel", "dispatch", 110, 20),
            event("kernel", "copy", 135, 10),
            event("kernel", "barrier", 160, 40),
            event("user_annotation", program.CALL, 300, 50),
            event("kernel", "dispatch", 310, 1000),
            dict(ph="M", name="process_name"),
        ]
        self.assertEqual(program.kernels_of_calls(events), [30, 1000])


@needs_engine
class CompareExchangeTest(unittest.TestCase):
    def test_each_system_has_a_row_for_each_kind_in_one_table(self):
        with tempfile.TemporaryDirectory() as directory:
            files = []
            for system in ("deep_ep", "hybrid_ep", "exchange"):
                files.append(os.path.join(directory, system + ".json"))
                sizes = "--tokens 16 --hidden 512 --experts 8 --topk 2 --iterations 2 --warmup 1"
                measured = run(
                    *("measure", "--system", system, "--name", system, "--json", files[-1]),
                    *("--device", "cpu", "--sms", "24", *sizes.split()),
                )
                self.assertEqual(measured.returncode, 0, measured.stderr)
                with open(files[-1]) as file:
                    rows = json.load(file)["rows"]
                self.assertEqual([row["dtype"] for row in rows], ["bf16", "fp8"])
                self.assertGreater(rows[0]["combine"]["call_us"], 0)
            printed = run("table", *files)
            self.assertEqual(printed.returncode, 0, printed.stderr)
            self.assertEqual(printed.stdout.count("\n| bf16 |"), 3)
            self.assertEqual(printed.stdout.count("\n| fp8 |"), 3)


if __name__ == "__main__":
    unittest.main()
