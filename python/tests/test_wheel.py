"""tools/wheel: a tree goes in, what pip and the package need comes out."""

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import ROOT

TOOL = os.path.join(ROOT, "tools", "wheel")
INFO = "ep4j-1.2.0.dev0.dist-info"


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


@unittest.skipUnless(os.path.exists(TOOL), "no tools/wheel: this is not a clone")
class WheelTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = directory.name
        self.tree = os.path.join(self.place, "tree")
        write(self.inside("python/ep4j/__init__.py"), "")
        write(self.inside("python/ep4j/__main__.py"), "def main():\n    print('called')\n")
        write(self.inside("lib/ep4j-c-1.2.0-SNAPSHOT.jar"), "jar")
        write(self.inside("lib/ep4j-core-1.2.0-SNAPSHOT.jar"), "core")
        write(self.inside("ep4j"), "#!/bin/sh\n", 0o755)
        write(self.inside("LICENSE"), "terms")

    def inside(self, name):
        return os.path.join(self.tree, name)

    def pack(self, output="out"):
        """Runs the tool; returns the path that it prints."""
        directory = os.path.join(self.place, output)
        os.makedirs(directory, exist_ok=True)
        done = subprocess.run(
            [sys.executable, TOOL, self.tree, directory], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        wheel = done.stdout.strip()
        self.assertEqual(os.listdir(directory), [os.path.basename(wheel)])
        return wheel

    def test_files_lie_where_the_package_finds_them(self):
        wheel = self.pack()
        self.assertRegex(os.path.basename(wheel), r"^ep4j-1\.2\.0\.dev0-py3-none-manylinux2014_\w+\.whl$")
        with zipfile.ZipFile(wheel) as archive:
            self.assertIsNone(archive.testzip())
            modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
            metadata = archive.read(INFO + "/METADATA").decode()
            self.assertEqual(archive.read("ep4j/_home/lib/ep4j-core-1.2.0-SNAPSHOT.jar"), b"core")
            self.assertEqual(archive.read(INFO + "/LICENSE"), b"terms")
        self.assertEqual(modes["ep4j/_home/ep4j"], 0o100755)
        self.assertEqual(modes["ep4j/__init__.py"], 0o100644)
        self.assertFalse([name for name in modes if name.startswith("ep4j/_home/python")])
        self.assertIn("\nVersion: 1.2.0.dev0\n", metadata)
        self.assertIn("\nLicense-File: LICENSE\n", metadata)

    def test_the_record_names_every_file_with_its_digest(self):
        with zipfile.ZipFile(self.pack()) as archive:
            record = INFO + "/RECORD"
            rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
            self.assertEqual(sorted(row[0] for row in rows), sorted(archive.namelist()))
            for name, digest, length in rows:
                if name != record:
                    content = archive.read(name)
                    expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
                    self.assertEqual(digest, "sha256=" + expected.rstrip(b"=").decode())
                    self.assertEqual(int(length), len(content))

    def test_equal_trees_make_equal_wheels(self):
        first = self.pack()
        for directory, _, files in os.walk(self.tree):
            for name in files:
                os.utime(os.path.join(directory, name), (1e9, 1e9))
        second = self.pack("again")
        times = set()
        for wheel in first, second:
            with zipfile.ZipFile(wheel) as archive:
                times.update(entry.date_time for entry in archive.infolist())
        # All of them: that of the clock would be equal in most runs.
        self.assertEqual(len(times), 1)
        with open(first, "rb") as one, open(second, "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_links_become_what_they_name(self):
        os.symlink("LICENSE", self.inside("NOTICE"))
        os.symlink("lib", self.inside("jars"))
        with zipfile.ZipFile(self.pack()) as archive:
            self.assertEqual(archive.read("ep4j/_home/NOTICE"), b"terms")
            self.assertEqual(archive.read("ep4j/_home/jars/ep4j-c-1.2.0-SNAPSHOT.jar"), b"jar")

    def test_a_tree_without_jars(self):
        os.remove(self.inside("lib/ep4j-c-1.2.0-SNAPSHOT.jar"))
        done = subprocess.run(
            [sys.executable, TOOL, self.tree, self.place], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("EP4J-8102", done.stderr)

    def test_pip_installs_it(self):
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
            self.skipTest("no pip")
        site = os.path.join(self.place, "site")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", site]
        done = subprocess.run([*pip, self.pack()], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.access(os.path.join(site, "ep4j", "_home", "ep4j"), os.X_OK))
        said = subprocess.run(
            [os.path.join(site, "bin", "ep4j")],
            env=dict(os.environ, PYTHONPATH=site),
            capture_output=True,
            text=True,
        )
        self.assertEqual(said.stdout, "called\n", said.stderr)


if __name__ == "__main__":
    unittest.main()
