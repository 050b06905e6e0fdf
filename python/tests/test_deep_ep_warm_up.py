"""A warm-up that fails on one rank, as where the memory of its GPU runs out: all ranks keep the buffer, and continue
after a reset. Here buffers of CPU tensors get the warm-up of those on GPUs.
"""

import contextlib
import os
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist

import deep_ep_ranks

HIDDEN, EXPERTS = 128, 4
FAILING = 1


@contextlib.contextmanager
def _failing(rank, begun):
    """The warm-up of one rank fails: in front of the first operation, or with `begun` behind the last."""
    from deep_ep import shapes

    warm_up = shapes.Shapes.warm_up

    class OnGpu(shapes.Shape):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.on_gpu = True

        def use_sms(self, sms):
            pass

    def failing(self, buffer):
        if rank != FAILING or begun:
            warm_up(self, buffer)
        if rank == FAILING:
            raise MemoryError("the memory of a GPU has run out")

    with mock.patch.multiple(shapes, Shape=OnGpu, _WARM_UP_ROUNDS=3), mock.patch.object(
        shapes.Shapes, "warm_up", failing
    ):
        yield


def _fails(rank, call):
    """The call fails on both ranks: in the warm-up, or waiting for the rank that has failed there."""
    import ep4j

    try:
        call()
    except MemoryError:
        assert rank == FAILING
    except (ep4j.PeerTimeout, ep4j.ConfigurationMismatch):
        assert rank != FAILING
    else:
        raise AssertionError("the call has ended")
    dist.barrier()


def _counts(buffer):
    return len(buffer._shapes._open), len(buffer._shapes._outgrown)


def _exchange(buffer, tokens):
    x, ids = torch.randn(tokens, HIDDEN).bfloat16(), torch.arange(tokens * 2).view(-1, 2) % EXPERTS
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids, EXPERTS)
    weights = torch.ones(ids.shape)
    rows, *_, handle, _ = buffer.dispatch(
        x, None, per_rank, None, in_rank, per_expert, ids, weights
    )
    sums = buffer.combine(rows, handle)[0]
    assert torch.equal(sums.float(), x.float() * in_rank.sum(1, keepdim=True))


def first_buffer(group, begun):
    import deep_ep

    rank = group.rank()
    buffer = deep_ep.Buffer(group, 1 << 26, explicitly_destroy=True)
    buffer._world.timeout = 2.0  # of the buffers that it opens
    with _failing(rank, begun):
        _fails(rank, lambda: _exchange(buffer, 8))
        counts = _counts(buffer)
        buffer.reset()
        _exchange(buffer, 8)
        assert _counts(buffer) == counts
    buffer.destroy()
    return counts


def larger_buffer(group):
    import deep_ep

    rank = group.rank()
    largest = os.environ.pop("EP4J_MAX_TOKENS")
    try:
        # One byte is granted: the first buffer takes the first batch and no more.
        buffer = deep_ep.Buffer(group, 1, explicitly_destroy=True)
        buffer._world.timeout = 2.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            _exchange(buffer, 8)
            with _failing(rank, begun=True):
                _fails(rank, lambda: _exchange(buffer, 50 if rank else 8))
                counts = _counts(buffer)
                buffer.reset()
                _exchange(buffer, 50 if rank else 8)
                assert _counts(buffer) == counts
        buffer.destroy()
        return counts
    finally:
        os.environ["EP4J_MAX_TOKENS"] = largest


def larger_elastic_buffer(group):
    import deep_ep

    rank = group.rank()
    buffer = deep_ep.ElasticBuffer(
        group, 1 << 26, num_max_tokens_per_rank=8, num_gpu_timeout_secs=2, explicitly_destroy=True
    )
    x, ids = torch.ones(8, HIDDEN).bfloat16(), torch.arange(16).view(8, 2) % EXPERTS

    def dispatch(most):
        buffer.dispatch(x, ids, num_experts=EXPERTS, num_max_tokens_per_rank=most)

    dispatch(8)
    with _failing(rank, begun=True):
        _fails(rank, lambda: dispatch(9))
        counts = _counts(buffer)
        buffer.reset()
        # Both ranks take the larger buffer.
        dispatch(8)
        dispatch(9)
        assert _counts(buffer) == counts
    buffer.destroy()
    return counts


class WarmUpTest(unittest.TestCase):
    def test_ranks_keep_a_buffer_that_one_could_not_warm_up(self):
        for begun in (False, True):
            self.assertEqual(deep_ep_ranks.run(2, first_buffer, begun), [(1, 0)] * 2)

    def test_ranks_keep_a_larger_buffer_that_one_could_not_warm_up(self):
        self.assertEqual(deep_ep_ranks.run(2, larger_buffer), [(1, 1)] * 2)

    def test_ranks_keep_a_larger_elastic_buffer_that_one_could_not_warm_up(self):
        self.assertEqual(deep_ep_ranks.run(2, larger_elastic_buffer), [(2, 0)] * 2)


if __name__ == "__main__":
    unittest.main()
