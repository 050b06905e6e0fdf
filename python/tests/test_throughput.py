"""High-throughput operations against the model, with 1, 2 and 4 processes."""

import os
import unittest

from support import POOL, needs_engine

PAIRS = int(os.environ.get("EP4J_TEST_PAIRS", "300"))
# Growth that is no leak: heaps of three allocators settle.
ALLOWED_KIB = 8 * 1024


@needs_engine
class ThroughputTest(unittest.TestCase):
    def on(self, name, *arguments, ranks=(1, 2, 4)):
        import ranks_throughput

        for count in ranks:
            with self.subTest(ranks=count):
                POOL.call(getattr(ranks_throughput, name), count, *arguments)

    def test_rows_arrive_by_source_and_come_back(self):
        self.on("flat")

    def test_a_cached_dispatch_sends_along_the_same_routes(self):
        self.on("cached", ranks=(4,))

    def test_biases_are_added_and_out_is_filled(self):
        self.on("biases", ranks=(4,))

    def test_experts_get_their_rows_in_aligned_groups(self):
        self.on("expert_major", 4)

    def test_bytes_and_scales_do_not_change(self):
        self.on("quantised", ranks=(1, 4))

    def test_rows_of_other_types(self):
        self.on("other_types", ranks=(2,))

    def test_static_rows_and_those_that_do_not_fit(self):
        self.on("static_rows", ranks=(2,))

    def test_asynchronous_operations_keep_their_tensors(self):
        self.on("asynchronous", ranks=(4,))

    def test_two_buffers_do_not_mix(self):
        self.on("two_buffers", ranks=(2,))

    def test_an_outdated_result_is_an_error(self):
        self.on("outdated", ranks=(1,))

    def test_layout_placement_and_statistics(self):
        self.on("layout_and_info", ranks=(2,))

    def test_a_placement_of_the_caller(self):
        self.on("placement", ranks=(2,))

    def test_groups(self):
        import ranks_throughput

        for ranks in (1, 4):
            jobs = POOL.call(ranks_throughput.group_functions, ranks)
            self.assertEqual(len(set(jobs)), 1)

    def test_waits_for_a_late_rank_are_seen(self):
        import ep4j
        import ranks_throughput

        # Which verdict is right depends on what else the machine does: Java's tests look at that.
        seen = POOL.call(ranks_throughput.slow_rank, 3)
        for rank, (waited, verdict) in enumerate(seen):
            self.assertEqual(verdict, seen[0][1])
            if rank != 1:
                self.assertGreater(waited[1], 200_000_000)
        # Rank 1 comes last, so it waits less for the others than they do for it.
        self.assertGreater(seen[0][0][1] + seen[2][0][1], sum(seen[1][0]))
        self.assertIsInstance(verdict.cause, ep4j.Cause)
        self.assertNotEqual(verdict.cause, ep4j.Cause.TOO_EARLY)
        self.assertEqual(verdict.rank < 0, verdict.cause == ep4j.Cause.NONE)
        self.assertTrue(verdict.text and (verdict.rank < 0 or f"rank {verdict.rank}" in verdict.text))

    def test_memory_does_not_grow(self):
        import ranks_throughput

        for growth in POOL.call(ranks_throughput.pairs, 2, PAIRS):
            self.assertLess(growth, ALLOWED_KIB)


if __name__ == "__main__":
    unittest.main()
