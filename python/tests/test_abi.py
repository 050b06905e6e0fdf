"""ctypes structures, constants and the table against ep4j.h."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from support import HEADER

from ep4j import _abi, errors

STRUCTURES = {
    "ep4j_tensor": _abi.Tensor,
    "ep4j_execution": _abi.Execution,
    "ep4j_error": _abi.Error,
    "ep4j_group_config": _abi.GroupConfig,
    "ep4j_group_info": _abi.GroupInfo,
    "ep4j_rank_state": _abi.RankState,
    "ep4j_buffer_config": _abi.BufferConfig,
    "ep4j_buffer_info": _abi.BufferInfo,
    "ep4j_buffer_sizes": _abi.BufferSizes,
    "ep4j_statistics": _abi.Statistics,
    "ep4j_observation": _abi.Observation,
    "ep4j_verdict": _abi.Verdict,
    "ep4j_wire_path": _abi.WirePath,
    "ep4j_dispatch_args": _abi.DispatchArgs,
    "ep4j_dispatch_result": _abi.DispatchResult,
    "ep4j_combine_args": _abi.CombineArgs,
    "ep4j_combine_result": _abi.CombineResult,
    "ep4j_layout_result": _abi.LayoutResult,
    "ep4j_low_latency_dispatch_args": _abi.LowLatencyDispatchArgs,
    "ep4j_low_latency_dispatch_result": _abi.LowLatencyDispatchResult,
    "ep4j_low_latency_combine_args": _abi.LowLatencyCombineArgs,
    "ep4j_low_latency_combine_result": _abi.LowLatencyCombineResult,
}
PARAMETERS = {
    ctypes.c_uint64: "number",
    ctypes.c_void_p: "pointer",
    ctypes.c_int32: "int32",
    ctypes.c_int64: "int64",
}


def declarations():
    """The header up to its implementation, without comments."""
    with open(HEADER, encoding="utf-8") as file:
        text = file.read().split("defined(EP4J_IMPLEMENTATION) && !defined(EP4J_IMPLEMENTED)")[0]
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def structures(text):
    """Field names of each structure but the table."""
    found = {}
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.S):
        if name != "ep4j_api":
            fields = [field.strip() for field in body.split(";") if field.strip()]
            found[name] = [re.search(r"(\w+)(\[\w+\])?$", field).group(1) for field in fields]
    return found


def functions(text):
    """Name and kinds of the parameters of each function, in order."""
    body = re.search(r"typedef struct ep4j_api \{(.*?)\} ep4j_api;", text, re.S).group(1)
    result = []
    for name, parameters in re.findall(r"int32_t \(\*(\w+)\)\((.*?)\);", body, re.S):
        kinds = []
        for parameter in parameters.split(","):
            kind = "pointer" if "*" in parameter else parameter.split()[0]
            kinds.append({"int32_t": "int32", "int64_t": "int64"}.get(kind, kind))
        objects = ("ep4j_", "uint64")
        kinds = ["number" if kind.startswith(objects) else kind for kind in kinds]
        result.append((name, tuple(kinds)))
    return result


@unittest.skipUnless(os.path.exists(HEADER), "no ep4j.h: this is not a clone")
class AbiTest(unittest.TestCase):
    def test_structures_have_the_fields_of_the_header(self):
        for name, fields in structures(declarations()).items():
            with self.subTest(name):
                mine = [field.rstrip("_") for field, *_ in STRUCTURES[name]._fields_]
                self.assertEqual(mine, fields)

    @unittest.skipUnless(shutil.which("gcc"), "no gcc")
    def test_structures_have_the_layout_that_a_compiler_gives_them(self):
        lines = []
        for name, fields in structures(declarations()).items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            for field in fields:
                lines.append(
                    f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}),'
                    f" sizeof((({name} *)0)->{field}));"
                )
        lines.append('printf("table %zu\\n", sizeof(ep4j_api));')
        program = f'#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{ {" ".join(lines)} }}'
        with tempfile.TemporaryDirectory() as directory:
            source = os.path.join(directory, "layout.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(program)
            binary = os.path.join(directory, "layout")
            subprocess.run(["gcc", source, "-o", binary], check=True)
            printed = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
        expected = []
        for name in structures(declarations()):
            structure = STRUCTURES[name]
            expected.append(f"{name} {ctypes.sizeof(structure)}")
            for field, *_ in structure._fields_:
                place = getattr(structure, field)
                expected.append(f"{name}.{field.rstrip('_')} {place.offset} {place.size}")
        expected.append(f"table {_abi.table_size()}")
        self.assertEqual(printed.splitlines(), expected)

    def test_functions_are_those_of_the_header(self):
        mine = [
            (name, tuple(PARAMETERS[parameter] for parameter in parameters))
            for name, parameters in _abi.FUNCTIONS
        ]
        self.assertEqual(mine, functions(declarations()))

    def test_constants_are_those_of_the_header(self):
        text = declarations()
        constants = dict(re.findall(r"EP4J_(\w+) = (\d+)", text))
        kinds = {n[len("ERROR_") :]: int(v) for n, v in constants.items() if n.startswith("ERROR_")}
        self.assertEqual({kind.name: int(kind) for kind in errors.ErrorKind}, kinds)
        self.assertEqual(set(errors.CLASSES), set(kinds.values()))
        for name, value in constants.items():
            if not name.startswith("ERROR_"):
                with self.subTest(name):
                    self.assertEqual(getattr(_abi, name), int(value))
        self.assertIn(f"#define EP4J_ABI_VERSION {_abi.ABI_VERSION}\n", text)
        self.assertIn(f"#define EP4J_HOST ({_abi.HOST})\n", text)


if __name__ == "__main__":
    unittest.main()
