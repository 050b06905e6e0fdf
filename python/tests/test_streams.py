"""Functions without a stream wait for torch's current one; hooks of deep_ep run on that of their dispatch.

No GPU: tensors of the CPU say that they are on one, and work of a stream is a function that runs when it is awaited.
"""

import contextlib
import unittest
from unittest import mock

from support import needs_engine, torch

import ep4j

H, K, E, T = 128, 2, 4, 3


class _Stream:
    """A stream with work that has not run yet."""

    def __init__(self, *work):
        self._work = list(work)

    def synchronize(self):
        while self._work:
            self._work.pop(0)()


def _on_gpu(tensor):
    """The same memory, of which torch says that it is on a GPU."""

    class OnGpu(torch.Tensor):
        is_cuda = True

    return torch.Tensor._make_subclass(OnGpu, tensor)


@needs_engine
class StreamsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.group = ep4j.Group.in_process(1)[0]
        cls.buffer = ep4j.Buffer(
            cls.group,
            ep4j.BufferConfig(hidden=H, top_k=K, experts=E, max_tokens=8, low_latency_max_tokens=8),
        )

    @classmethod
    def tearDownClass(cls):
        cls.buffer.close()
        cls.group.close()

    @contextlib.contextmanager
    def behind(self, *work):
        """A context in which torch's current stream has work, which ends with the context at the latest."""
        stream = _Stream(*work)
        with mock.patch.object(torch.cuda, "current_stream", lambda device=None: stream):
            yield
        stream.synchronize()

    def test_a_layout_counts_what_the_current_stream_computes(self):
        ids = torch.full((T, K), -1)
        chosen = torch.tensor([[0, 1], [1, 2], [-1, 1]])
        with self.behind(lambda: ids.copy_(chosen)):
            layout = self.buffer.dispatch_layout(_on_gpu(ids))
        self.assertEqual(layout.tokens_per_expert.tolist(), [1, 3, 1, 0])

    def test_dense_routings_are_what_the_current_stream_computes(self):
        chosen = torch.tensor([[0.0, 0.5, 0.0, 0.25], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        dense, map_ = torch.zeros(T, E), torch.zeros(T, E, dtype=torch.bool)
        with self.behind(lambda: dense.copy_(chosen), lambda: map_.copy_(chosen > 0)):
            ids, weights = ep4j.routing_from_dense(_on_gpu(map_), _on_gpu(dense), K)
        self.assertEqual(ids.tolist(), [[1, 3], [2, -1], [-1, -1]])
        self.assertEqual(weights.tolist(), [[0.5, 0.25], [1.0, 0.0], [0.0, 0.0]])
        late_ids, late_weights = torch.full_like(ids, -1), torch.zeros_like(weights)
        with self.behind(lambda: late_ids.copy_(ids), lambda: late_weights.copy_(weights)):
            again = ep4j.routing_to_dense(_on_gpu(late_ids), _on_gpu(late_weights), E)
        self.assertTrue(torch.equal(again, chosen))

    def test_masks_are_written_behind_the_work_of_the_current_stream(self):
        out = torch.zeros(1, dtype=torch.int32)
        with self.behind(lambda: out.fill_(7)):
            self.buffer.read_masks(_on_gpu(out))
        self.assertEqual(out.tolist(), [0])

    def test_a_hook_computes_on_the_stream_of_its_dispatch(self):
        from deep_ep.low_latency import _Made

        of_dispatch, entered = object(), []

        @contextlib.contextmanager
        def on(stream):
            entered.append(stream)
            yield
            entered.pop()

        def compute():
            streams.append(list(entered))
            return torch.ones(2)

        streams = []
        with mock.patch.multiple(
            torch.cuda, current_stream=lambda device=None: of_dispatch, stream=on
        ):
            made = _Made(torch.device("cuda", 0))
            tensor = made.add(compute)
            tensor.zero_()
            with mock.patch.object(torch.cuda, "current_stream", lambda device=None: object()):
                made.again()
        self.assertEqual(streams, [[], [of_dispatch]])
        self.assertEqual(tensor.tolist(), [1, 1])


if __name__ == "__main__":
    unittest.main()
