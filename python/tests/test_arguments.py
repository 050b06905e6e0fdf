"""Wrong arguments, and dense routings, with the ranks of a group as threads of this process."""

import pickle
import threading
import unittest

from support import needs_engine, torch

import ep4j

H, K, E, T = 512, 3, 8, 5


@needs_engine
class ArgumentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.group = ep4j.Group.in_process(1)[0]
        config = ep4j.BufferConfig(
            hidden=H, top_k=K, experts=E, max_tokens=8, low_latency_max_tokens=8
        )
        cls.buffer = ep4j.Buffer(cls.group, config)
        cls.x = torch.zeros(T, H).bfloat16()
        cls.topk_idx = torch.arange(T * K).reshape(T, K) % E
        cls.weights = torch.ones(T, K)

    @classmethod
    def tearDownClass(cls):
        cls.buffer.close()
        cls.group.close()

    def refused(self, text, x=None, topk_idx=None, topk_weights=None, again=True, **others):
        with self.assertRaises(ep4j.InvalidArgument) as caught:
            self.buffer.dispatch(
                self.x if x is None else x,
                self.topk_idx if topk_idx is None else topk_idx,
                self.weights if topk_weights is None else topk_weights,
                **others,
            )
        error = caught.exception
        self.assertIn(text, str(error))
        self.assertRegex(str(error), rf"^EP4J-{error.code}: .* it must be .*: .+")
        self.assertEqual(error.kind, ep4j.ErrorKind.ARGUMENT)
        self.assertIsInstance(error, ValueError)
        if again:
            # The buffer works after it.
            received = self.buffer.dispatch(self.x, self.topk_idx, self.weights)
            self.assertEqual(received.rows, T)

    def test_dtype(self):
        self.refused("x.dtype = torch.float64", x=self.x.double())
        self.refused("topkIdx = FP32", topk_idx=self.topk_idx.float())
        self.refused("topk_idx.dtype = torch.int16", topk_idx=self.topk_idx.short())
        self.refused("topkWeights", topk_weights=self.weights.bfloat16())

    def test_strides(self):
        self.refused("x.stride() = (1024, 2)", x=torch.zeros(T, 2 * H).bfloat16()[:, ::2])
        self.refused("topk_idx.stride()", topk_idx=torch.zeros(K, T, dtype=torch.int64).t())
        self.refused("x.stride() = (0, 1)", x=torch.zeros(1, H).bfloat16().expand(T, H))

    def test_a_refused_tensor_is_not_the_one_before_it(self):
        received = self.buffer.dispatch(self.x, self.topk_idx, self.weights)
        self.assertIsNotNone(received.topk_weights)
        self.refused("topk_weights.dtype", topk_weights=self.weights.short(), again=False)
        received = self.buffer.dispatch(self.x, self.topk_idx, None)
        self.assertIsNone(received.topk_weights)

    def test_other_memory_of_the_same_shape(self):
        kept = [torch.full((T, H), value).bfloat16() for value in (1.0, 2.0, 3.0)]
        for x in (*kept, kept[0]):
            received = self.buffer.dispatch(x, self.topk_idx, self.weights)
            self.assertTrue(torch.equal(received.x, x))

    def test_the_same_memory_in_another_shape(self):
        x = torch.arange(6 * H).reshape(6, H).bfloat16()
        ids = torch.arange(6 * K).reshape(6, K) % E
        for rows in (6, 3, 5):
            received = self.buffer.dispatch(x[:rows], ids[:rows])
            self.assertTrue(torch.equal(received.x, x[:rows]))
        received = self.buffer.dispatch(x.view(torch.float16), ids)
        self.assertEqual(received.x.dtype, torch.float16)
        self.refused("x.dtype = torch.int16", x=x.view(torch.int16))
        self.refused("x.stride()", x=x.t())
        few = self.buffer.dispatch(x, ids[:, :2].contiguous())
        self.assertEqual(few.topk_idx.shape, (6, 2))

    def test_shapes(self):
        self.refused("x", x=torch.zeros(T + 4, H).bfloat16())
        self.refused("x", x=torch.zeros(T, 2 * H).bfloat16())
        self.refused("x.dim() = 0", x=torch.zeros(()).bfloat16())
        self.refused("x.dim() = 4", x=torch.zeros(1, 1, T, H).bfloat16())
        self.refused("", topk_idx=torch.zeros(T - 1, K, dtype=torch.int64))

    def test_tensors_without_memory(self):
        self.refused("x = tensor on meta", x=torch.zeros(T, H, device="meta").bfloat16())
        self.refused("x = Tensor with layout torch.sparse", x=self.x.to_sparse())
        self.refused("x = list", x=[[0.0] * H] * T)
        with self.assertRaisesRegex(ep4j.InvalidArgument, "EP4J-1041"):
            self.buffer.dispatch(None, self.topk_idx)

    def test_numbers(self):
        self.refused("max_rows = 9223372036854775808", max_rows=1 << 63)
        self.refused("experts = 4294967304", experts=(1 << 32) + E)
        self.refused("layout = 'FLAT'", layout="FLAT")
        self.refused("layout", layout=ep4j.RANK_MAJOR)
        self.refused("expert_alignment", expert_alignment=1.5)

    def test_scales(self):
        codes = torch.zeros(T, H, dtype=torch.uint8)
        self.refused("scales", scales=torch.zeros(T, 4))
        self.refused("scales.stride()", x=codes, scales=torch.zeros(T, 8)[:, ::2])
        self.refused("scales", x=codes, scales=torch.zeros(T - 1, 4))

    def test_a_handle_or_a_routing(self):
        handle = self.buffer.dispatch(self.x, self.topk_idx).handle
        self.refused("topk_idx", handle=handle)
        for part in (dict(topk_weights=self.weights), dict(logical_idx=self.topk_idx)):
            with self.assertRaisesRegex(ep4j.InvalidArgument, "args->" + next(iter(part))):
                self.buffer.dispatch(self.x, handle=handle, **part)

    def test_configurations(self):
        for text, fields in {
            "hidden": dict(hidden=1 << 40),
            "timeout": dict(timeout=0),
            "timeout = nan": dict(timeout=float("nan")),
            "engine": dict(engine="ho\0st"),
            "no-such-engine": dict(engine="no-such-engine"),
            "row_dtype": dict(row_dtype=torch.float64),
            "len(rank_of_expert) = 1": dict(rank_of_expert=[0]),
            "rank_of_expert": dict(rank_of_expert=[1 << 32] * E),
            "wire_lanes": dict(wire_lanes="many"),
            "serviceLevel = 16": dict(wire_service_level=16),
            "highThroughput.lostRanks = -1": dict(lost_ranks=-1),
        }.items():
            with self.subTest(text), self.assertRaises(ep4j.Error) as caught:
                fields = dict(dict(hidden=H, top_k=K, experts=E, max_tokens=8), **fields)
                ep4j.Buffer(self.group, ep4j.BufferConfig(**fields))
            self.assertIn(text, str(caught.exception))

    def test_sizes(self):
        config = self.buffer.config
        sizes = config.sizes(2)
        self.assertGreater(sizes.symmetric_bytes, sizes.low_latency_bytes)
        self.assertGreater(sizes.low_latency_bytes, 0)
        given = ep4j.BufferConfig(
            hidden=H, top_k=K, experts=E, max_tokens=8, wire_lanes=2, wire_gpu_direct=False
        )
        self.assertGreater(given.sizes(2).private_bytes, 0)

    def test_groups(self):
        for text, fields in {
            "rank": dict(rank=3, ranks=2),
            "ranks": dict(rank=0, ranks="two"),
            "secret": dict(rank=0, ranks=2),
            "join_timeout = 0": dict(rank=0, ranks=2, secret="s" * 32, join_timeout=0),
            "host": dict(rank=0, ranks=2, secret="s" * 32, host=7),
        }.items():
            with self.subTest(text), self.assertRaises(ep4j.InvalidArgument) as caught:
                ep4j.Group.join(**fields)
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(ep4j.InvalidArgument):
            self.group.rank_state(1)
        with self.assertRaises(ep4j.InvalidArgument):
            self.group.all_gather(bytes((1 << 20) + 1))

    def test_a_group_that_failed_is_closed(self):
        groups = ep4j.Group.in_process(2)
        groups[1].fail("a reason of its own")
        with self.assertRaises(ep4j.PeerLost) as caught:
            groups[0].barrier(20)
        self.assertEqual(caught.exception.rank, 1)
        self.assertIn("a reason of its own", str(caught.exception))
        with self.assertRaises(ep4j.InvalidArgument):
            groups[1].barrier()
        groups[0].close()
        groups[0].close()

    def test_a_second_thread_is_refused(self):
        groups = ep4j.Group.in_process(2)
        buffers = [None, None]

        def open_one(rank):
            buffers[rank] = ep4j.Buffer(groups[rank], self.buffer.config)

        threads = [threading.Thread(target=open_one, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        waits = threading.Thread(target=buffers[0].dispatch, args=(self.x, self.topk_idx))
        waits.start()
        while not buffers[0]._inside.locked():
            pass
        with self.assertRaises(ep4j.InvalidUse) as caught:
            buffers[0].dispatch(self.x, self.topk_idx)
        self.assertEqual(caught.exception.code, 2302)
        buffers[1].dispatch(self.x, self.topk_idx)
        waits.join()
        for closing in (*buffers, *groups):
            closing.close()

    def test_errors_can_be_pickled(self):
        error = ep4j.PeerTimeout("EP4J-4001: late", 4001, 3)
        again = pickle.loads(pickle.dumps(error))
        self.assertIsInstance(again, ep4j.PeerTimeout)
        self.assertEqual((again.code, again.rank, str(again)), (4001, 3, "EP4J-4001: late"))

    def test_dense_routings(self):
        probs = torch.zeros(T, E)
        probs[0, 3], probs[0, 1], probs[4, 7] = 0.5, 0.25, 1.0
        topk_idx, weights = ep4j.routing_from_dense(probs > 0, probs, 2)
        self.assertEqual(topk_idx.tolist(), [[1, 3], [-1, -1], [-1, -1], [-1, -1], [7, -1]])
        self.assertEqual(weights[0].tolist(), [0.25, 0.5])
        self.assertTrue(torch.equal(ep4j.routing_to_dense(topk_idx, weights, E), probs))
        ids, none = ep4j.routing_from_dense((probs > 0).to(torch.uint8), None, 2)
        self.assertTrue(torch.equal(ids, topk_idx))
        self.assertIsNone(none)
        with self.assertRaises(ep4j.InvalidArgument):
            ep4j.routing_from_dense(probs > 0, probs, 1)
        with self.assertRaises(ep4j.InvalidArgument):
            ep4j.routing_from_dense(probs > 0, probs, 0)
        with self.assertRaises(ep4j.InvalidArgument):
            ep4j.routing_to_dense(topk_idx, weights.double(), E)

    def test_results_are_tensors_of_their_own(self):
        received = self.buffer.dispatch(self.x, self.topk_idx)
        first = received.x
        first.requires_grad_()
        with torch.inference_mode():
            again = self.buffer.dispatch(self.x, self.topk_idx)
            again.x.add_(1)
            self.assertFalse(again.source_ranks.is_inference())
        self.assertFalse(again.x.requires_grad)
        self.assertEqual(float(first.detach()[0, 0]), 1.0)
        self.assertFalse(again.counts.is_inference())


if __name__ == "__main__":
    unittest.main()
