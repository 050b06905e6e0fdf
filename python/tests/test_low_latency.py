"""Low-latency operations against the model, with 1, 2 and 4 processes."""

import unittest

from support import POOL, needs_engine


@needs_engine
class LowLatencyTest(unittest.TestCase):
    def on(self, name, ranks=(1, 2, 4)):
        import ranks_low_latency

        for count in ranks:
            with self.subTest(ranks=count):
                POOL.call(getattr(ranks_low_latency, name), count)

    def test_bf16_rows_with_and_without_hooks(self):
        self.on("bf16")

    def test_quantised_rows(self):
        self.on("fp8")

    def test_rows_by_source_rank(self):
        self.on("rank_major", ranks=(1, 4))

    def test_hooks_use_tensors_that_the_caller_has_dropped(self):
        self.on("hooked", ranks=(2,))

    def test_asynchronous_operations(self):
        self.on("asynchronous", ranks=(2,))

    def test_a_late_rank_is_masked(self):
        self.on("masks", ranks=(4,))

    def test_results_and_hooks_out_of_order(self):
        self.on("wrong_order", ranks=(1,))


if __name__ == "__main__":
    unittest.main()
