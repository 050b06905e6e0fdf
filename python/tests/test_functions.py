"""The package uses every function of the table, and a program reaches every one."""

import glob
import os
import re
import unittest

from support import PACKAGES

from ep4j import _abi

# Functions without a method of their own: torch copies tensors.
NOT_NEEDED = {"tensor_read", "tensor_write"}


def _text(pattern):
    texts = []
    for path in sorted(glob.glob(os.path.join(PACKAGES, pattern))):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


class FunctionsTest(unittest.TestCase):
    def test_the_package_calls_every_function(self):
        text = _text("ep4j/*.py").replace(_text("ep4j/_abi.py"), "")
        called = set(re.findall(r"\.(\w+)\(", text)) | set(re.findall(r'"(\w+)"', text))
        called |= set(re.findall(r"enter\(\)\.(\w+)", text))
        names = {name for name, _ in _abi.FUNCTIONS}
        self.assertEqual(names - called, NOT_NEEDED)

    def test_the_tests_call_every_public_method(self):
        text = _text("tests/*.py")
        for module in ("group", "buffer", "throughput", "low_latency", "dense"):
            source = _text(f"ep4j/{module}.py")
            for name in re.findall(r"^ {0,4}def ([a-z]\w+)\(", source, re.M):
                with self.subTest(f"{module}.{name}"):
                    self.assertRegex(text, rf"\b{name}\b")


if __name__ == "__main__":
    unittest.main()
