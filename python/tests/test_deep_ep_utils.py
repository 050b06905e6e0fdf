"""deep_ep.utils on CPU tensors."""

import os
import pathlib
import socket
import subprocess
import sys
import time
import unittest

import torch

import deep_ep
from deep_ep import EventHandle, EventOverlap
from deep_ep.utils import e4m3, math, testing


class MathTest(unittest.TestCase):
    def test_e4m3_encodes_each_of_its_values(self):
        codes = torch.tensor([c for c in range(256) if c & 127 != 127], dtype=torch.uint8)
        self.assertTrue(torch.equal(e4m3.encoded(e4m3.decoded(codes)), codes))

    def test_e4m3_rounds_to_nearest_and_ties_to_even(self):
        numbers = torch.tensor([448.0, -448.0, 1.0625, 1.1875, 1.07, 2.0**-10, 1.5 * 2.0**-9, 0.0])
        wanted = torch.tensor([448.0, -448.0, 1.0, 1.25, 1.125, 0.0, 2.0**-8, 0.0])
        self.assertTrue(torch.equal(e4m3.decoded(e4m3.encoded(numbers)), wanted))

    def test_casts_keep_rows_within_the_precision_of_fp8(self):
        torch.manual_seed(1)
        for hidden in (128, 256, 200):
            x = torch.randn(9, hidden).bfloat16()
            codes, scales = math.per_token_cast_to_fp8(x)
            self.assertEqual((codes.shape, scales.shape), (x.shape, (9, -(-hidden // 128))))
            back = math.per_token_cast_back(codes, scales)
            largest = x.float().abs().max()
            self.assertLess(float((back.float() - x.float()).abs().max()), float(largest) / 16)
            self.assertLess(math.calc_diff(back, x), 9e-4)
        powers = torch.full((9, 2), 0.25)
        words = (
            (powers.view(torch.int32) >> 23)
            .to(torch.uint8)
            .repeat(1, 2)
            .contiguous()
            .view(torch.int32)
        )
        codes = torch.full((9, 512), 0x38, dtype=torch.uint8)  # 1.0
        self.assertTrue((math.per_token_cast_back(codes.view(math.FP8), words) == 0.25).all())
        self.assertEqual(
            math.per_token_cast_back(codes[:0].view(math.FP8), words[:0]).shape, (0, 512)
        )

    def test_bytes_and_quotients(self):
        words, halves = torch.zeros(3, 2), torch.zeros(5).bfloat16()
        self.assertEqual(math.count_bytes(words, None, (halves, [words, None])), 24 + 10 + 24)
        self.assertEqual((math.safe_div(3, 4), math.safe_div(0, 0)), (0.75, 0))
        with self.assertRaises(ZeroDivisionError):
            math.safe_div(1, 0)

    def test_unique_leaves_each_id_once(self):
        x = torch.tensor([[0, 0, 3, -1], [-1, -1, -1, -1], [1, 2, 1, 3]])
        math.inplace_unique(x, 4)
        self.assertEqual(x.tolist(), [[3, 0, -1, -1], [-1, -1, -1, -1], [3, 2, 1, -1]])
        narrow = torch.tensor([[1, 1, 0]])
        math.inplace_unique(narrow, 2)
        self.assertEqual(narrow.tolist(), [[1, 0, -1]])

    def test_grouped_scores_are_zero_outside_of_their_groups(self):
        scores = torch.ones(2, 6)
        grouped = math.create_grouped_scores(scores, torch.tensor([[0, 2], [1, 1]]), 3)
        self.assertEqual(grouped.tolist(), [[1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0]])

    def test_differences_and_hashes(self):
        x = torch.randn(8, 8)
        self.assertAlmostEqual(math.calc_diff(x, x), 0.0, places=12)
        self.assertGreater(math.calc_diff(x, -x - 2), 0.1)
        other = x.clone()
        other[3, 3] += 1
        self.assertEqual(math.hash_tensor(x), math.hash_tensor(x.t().contiguous().t()))
        self.assertNotEqual(math.hash_tensor(x), math.hash_tensor(other))
        both = math.hash_tensor(x) ^ math.hash_tensor(other)
        self.assertEqual(math.hash_tensors(x, None, [(other,), 3]), both)
        self.assertEqual(math.hash_tensors(), 0)
        self.assertEqual((math.align(5, 4), math.ceil_div(8, 4)), (8, 2))


class VersionTest(unittest.TestCase):
    def test_the_version_of_the_interface_is_marked(self):
        self.assertRegex(deep_ep.__version__, r"^2\.\d+\.\d+\+ep4j$")


class EventTest(unittest.TestCase):
    def test_events_wait_call_hooks_once_and_release(self):
        calls = []
        event = EventOverlap(EventHandle(), (torch.zeros(1),))
        event.register_hook_after_wait(lambda: calls.append(1))
        with event(release_handle=True):
            self.assertEqual(calls, [])
        self.assertEqual(calls, [1])
        self.assertIsNone(event.event)
        self.assertIsNone(event.extra_tensors)
        event.current_stream_wait()
        self.assertEqual(calls, [1])


class StartTest(unittest.TestCase):
    @unittest.skipIf(torch.cuda.is_available(), "init_dist takes the GPU")
    def test_a_rank_starts_with_gloo_where_there_is_no_gpu(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        program = """
import torch
from deep_ep.utils.envs import dist_print, get_global_seed, get_local_seed, init_dist, init_seed
rank, ranks, group = init_dist(0, 1, seed=3)
assert (get_global_seed(), get_local_seed()) == (3, 3)
first = torch.rand(4)
init_seed(3)
assert torch.equal(first, torch.rand(4)) and first.dtype == torch.bfloat16
assert (rank, ranks, group.rank(), group.size()) == (0, 1, 0, 1)
dist_print("started", once_in_node=True)
"""
        for name in ("WORLD_SIZE", "RANK"):
            self.assertNotIn(name, os.environ)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=dict(os.environ, MASTER_PORT=str(port)),
            cwd=pathlib.Path(__file__).resolve().parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, "started" in done.stdout), (0, True), done.stdout)


class BenchTest(unittest.TestCase):
    def test_bench_times_calls(self):
        calls = []
        average, least, most = testing.bench(
            lambda: (calls.append(0), time.sleep(0.002)),
            num_warmups=2,
            num_tests=5,
            post_fn=lambda: calls.append(1),
        )
        self.assertEqual((calls.count(0), calls.count(1)), (7, 5))
        self.assertTrue(0.002 <= least <= average <= most)

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_bench_kineto_needs_a_gpu(self):
        with self.assertRaisesRegex(RuntimeError, "use bench"):
            testing.bench_kineto(lambda: None, "dispatch")


if __name__ == "__main__":
    unittest.main()
