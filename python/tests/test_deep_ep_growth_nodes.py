"""Buffers of deep_ep grow where ranks share no memory: declared nodes, between which rows take the wire."""

import os
import time
import unittest
import warnings

import torch
import torch.distributed as dist

import deep_ep_ranks
import test_deep_ep_growth as batches
from test_deep_ep_growth import HIDDEN, LOCAL, M, TOP_K

# Noticing a dead rank takes milliseconds where its connection breaks, 2 s at most; the rest is for a busy machine.
NOTICED = 10


def on_nodes(group, per_node, body, *arguments):
    """Calls body(group, *arguments) where `per_node` consecutive ranks are a node and buffers are not bounded."""
    bound = os.environ.pop("EP4J_MAX_TOKENS")
    os.environ["EP4J_RANKS_PER_NODE"] = str(per_node)
    try:
        with warnings.catch_warnings():
            # One byte is granted: a buffer takes the largest batch of its first call and no more.
            warnings.simplefilter("ignore", RuntimeWarning)
            return globals()[body](group, *arguments)
    finally:
        os.environ["EP4J_MAX_TOKENS"] = bound
        del os.environ["EP4J_RANKS_PER_NODE"]


def random_batches(group, seed):
    os.environ["EP4J_MAX_TOKENS"] = ""  # growth() takes it away and puts it back
    return batches.growth(group, seed)


def _dispatch(buffer, step):
    """Dispatches and combines a batch; returns the tokens that the buffer takes."""
    rows, ids, weights, counts, handle, _ = buffer.dispatch(
        step.x, **step.layout, topk_idx=step.ids, topk_weights=step.weights
    )
    assert torch.equal(rows, step.received(0))
    first = LOCAL * step.rank
    here = step.received(1)
    here = torch.where((here >= first) & (here < first + LOCAL), here - first, -1)
    assert torch.equal(ids, here)
    assert torch.equal(weights[here >= 0], step.received(2)[here >= 0])
    assert counts == step.counts()
    step.check_combine(buffer, rows, handle)
    return buffer._shapes.all("throughput")[0].config.max_tokens


def one_rank_and_all(group):
    """One rank grows, all at once to different sizes, one beside ranks without tokens; each time with a low-latency
    dispatch in flight, which is received after the growth."""
    import deep_ep

    rank, ranks = group.rank(), group.size()
    experts = LOCAL * ranks
    torch.manual_seed(rank)
    buffer = deep_ep.Buffer(group, 1, explicitly_destroy=True)
    assert buffer.runtime.get_num_rdma_ranks() == 2
    sizes = (
        [4] * ranks,
        [3] * (ranks - 1) + [9],
        [40 - 7 * r for r in range(ranks)],
        [100] + [0] * (ranks - 1),
        [0] * (ranks - 1) + [201],
        [3] * ranks,
    )
    taken = []
    for of_ranks in sizes:
        step = batches._Step(buffer, rank, of_ranks[rank], experts)
        x = torch.randn(M, HIDDEN).bfloat16()
        ids = torch.rand(M, experts).topk(TOP_K, dim=1)[1]
        weights = torch.rand(ids.shape)
        rows, _, handle, _, receive = buffer.low_latency_dispatch(
            x, ids, M, experts, use_fp8=False, return_recv_hook=True
        )
        taken.append(_dispatch(buffer, step))
        receive()
        sums, _, receive = buffer.low_latency_combine(
            rows, ids, weights, handle, return_recv_hook=True
        )
        receive()
        wanted = x.float() * weights.sum(1, keepdim=True)
        assert torch.allclose(sums.float(), wanted, rtol=2e-2, atol=2e-2)
    buffer.destroy()
    return taken


def _die_on_the_way(stage):
    """This rank ends when it has learned of a demand, before or after the ranks agree on the new size."""
    from deep_ep.shapes import Shapes

    if stage == "demand":
        Shapes.grow = lambda *_: os._exit(1)
    else:
        agreed = Shapes._agreed

        def last(*arguments):
            agreed(*arguments)
            os._exit(1)

        Shapes._agreed = last


def lose_a_rank(group, lost, stage):
    import deep_ep
    import ep4j

    rank, ranks = group.rank(), group.size()
    experts = LOCAL * ranks
    torch.manual_seed(rank)
    buffer = deep_ep.Buffer(group, 1, explicitly_destroy=True)
    small = batches._Step(buffer, rank, 4, experts)
    _dispatch(buffer, small)
    large = batches._Step(buffer, rank, 9 + rank, experts)
    dist.barrier()
    if rank == lost:
        _die_on_the_way(stage)
    begin = time.monotonic()
    try:
        _dispatch(buffer, large)
        raise AssertionError("a buffer grew without a rank")
    except ep4j.PeerLost as error:
        _require_remedy(error, lost)
    seconds = time.monotonic() - begin
    assert seconds < NOTICED, seconds

    # The buffer is that from before; a larger one needs all ranks.
    buffer.reset()
    for step in (small, large):
        step.ids[step.ids // LOCAL == lost] = -1
    sums = _without_checks(buffer, small, experts)
    assert torch.equal(sums, (small.x.float() * _copies(buffer, small, experts)).bfloat16())
    try:
        _without_checks(buffer, large, experts)
        raise AssertionError("a buffer grew without a rank")
    except ep4j.PeerLost as error:
        _require_remedy(error, lost)
    sums = _without_checks(buffer, small, experts)
    assert torch.equal(sums, (small.x.float() * _copies(buffer, small, experts)).bfloat16())
    return True


def _require_remedy(error, lost):
    assert error.code == 3033 and error.rank == lost, error
    assert "4 tokens" in str(error) and "make a new Buffer" in str(error), error


def _copies(buffer, step, experts):
    return buffer.get_dispatch_layout(step.ids, experts)[3].sum(1, keepdim=True)


def _without_checks(buffer, step, experts):
    """Sums of a batch whose ids have changed."""
    layout = buffer.get_dispatch_layout(step.ids, experts)
    rows, _, _, _, handle, _ = buffer.dispatch(
        step.x, None, layout[0], None, layout[3], layout[2], step.ids, step.weights
    )
    return buffer.combine(rows, handle)[0]


class GrowthOverNodesTest(unittest.TestCase):
    def random(self, ranks, per_node, seed):
        outgrown = deep_ep_ranks.run(ranks, on_nodes, per_node, "random_batches", seed)
        self.assertGreaterEqual(min(outgrown), 2)
        self.assertEqual(len(set(outgrown)), 1)

    def test_batches_of_two_ranks(self):
        self.random(2, 1, 1)

    def test_batches_of_four_ranks(self):
        self.random(4, 2, 3)

    def test_two_ranks_grow_one_by_one_and_together(self):
        taken = deep_ep_ranks.run(2, on_nodes, 1, "one_rank_and_all")
        self.assertEqual(taken, [[4, 9, 40, 100, 201, 201]] * 2)

    def test_four_ranks_grow_one_by_one_and_together(self):
        taken = deep_ep_ranks.run(4, on_nodes, 2, "one_rank_and_all")
        self.assertEqual(taken, [[4, 9, 40, 100, 201, 201]] * 4)

    def test_a_rank_dies_before_the_ranks_agree(self):
        self.lost(2, "demand")

    def test_a_rank_dies_while_the_others_open_the_larger_buffer(self):
        self.lost(1, "open")

    def lost(self, lost, stage):
        survivors = [None if rank == lost else True for rank in range(4)]
        ended = deep_ep_ranks.run_with_losses(4, 1, on_nodes, 2, "lose_a_rank", lost, stage)
        self.assertEqual(ended, survivors)


if __name__ == "__main__":
    unittest.main()
