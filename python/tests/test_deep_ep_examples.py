"""The example programs run on two ranks, with CPU tensors."""

import os
import pathlib
import socket
import subprocess
import sys
import unittest

PYTHON = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = PYTHON.parent / "ep4j-examples" / "src" / "main" / "python"
RANKS, STEPS = 2, 3


class ExamplesTest(unittest.TestCase):
    def run_example(self, name):
        """Starts the ranks as torchrun does."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = []
        for rank in range(RANKS):
            environment = dict(
                os.environ,
                PYTHONPATH=str(PYTHON),
                CUDA_VISIBLE_DEVICES="",
                OMP_NUM_THREADS="1",
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                WORLD_SIZE=str(RANKS),
                RANK=str(rank),
                LOCAL_RANK=str(rank),
            )
            environment.setdefault("EP4J_JVM_OPTIONS", "-XX:TieredStopAtLevel=1")
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(EXAMPLES / name)],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        try:
            for process in processes:
                output, _ = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, output)
                self.assertEqual(output.count("error"), STEPS, output)
        finally:
            for process in processes:
                process.kill()
                process.communicate()

    @unittest.skipUnless(EXAMPLES.is_dir(), "the examples are not beside the package")
    def test_prefill(self):
        self.run_example("prefill.py")

    @unittest.skipUnless(EXAMPLES.is_dir(), "the examples are not beside the package")
    def test_decode(self):
        self.run_example("decode.py")


if __name__ == "__main__":
    unittest.main()
