"""A rank that dies: the others get an error with a type, and continue after a reset, or with a mask."""

import os
import time
import unittest

import torch
import torch.distributed as dist

import deep_ep_ranks

HIDDEN, RANKS, LOST = 128, 3, 1


def _routing(tokens, experts, avoid):
    """Each token to two experts, none of them on the rank to avoid."""
    local = experts // RANKS
    allowed = torch.tensor([e for e in range(experts) if e // local != avoid])
    return torch.stack([allowed[torch.randperm(len(allowed))[:2]] for _ in range(tokens)])


def _dispatch(buffer, x, ids, experts):
    layout = buffer.get_dispatch_layout(ids, experts)
    rows, _, _, _, handle, _ = buffer.dispatch(
        x, None, layout[0], None, layout[3], layout[2], ids, torch.ones(ids.shape)
    )
    sums, _, _ = buffer.combine(rows, handle)
    wanted = x.float() * layout[3].sum(1, keepdim=True)
    assert torch.allclose(sums.float(), wanted, rtol=1e-2, atol=1e-5)


def throughput(group):
    import deep_ep
    import ep4j

    rank, tokens, experts = group.rank(), 6, 2 * RANKS
    torch.manual_seed(rank)
    buffer = deep_ep.Buffer(group, 1 << 28)
    x = torch.randn(tokens, HIDDEN).bfloat16()
    _dispatch(buffer, x, _routing(tokens, experts, avoid=-1), experts)
    if rank == LOST:
        os._exit(1)
    begin = time.monotonic()
    try:
        _dispatch(buffer, x, _routing(tokens, experts, avoid=-1), experts)
        raise AssertionError("a dispatch without a rank succeeded")
    except (ep4j.PeerTimeout, ep4j.PeerLost) as error:
        assert str(LOST) in str(error), error
    assert time.monotonic() - begin < 20
    buffer.reset()
    _dispatch(buffer, x, _routing(tokens, experts, avoid=LOST), experts)
    return True


def low_latency(group):
    import deep_ep

    rank, tokens, experts = group.rank(), 6, 2 * RANKS
    torch.manual_seed(rank)
    buffer = deep_ep.Buffer(group, 0, 1 << 28, low_latency_mode=True, enable_shrink=True)
    x, weights = torch.randn(tokens, HIDDEN).bfloat16(), torch.rand(tokens, 2)

    def step(ids):
        rows, counts, handle, _, _ = buffer.low_latency_dispatch(x, ids, 8, experts, use_fp8=False)
        return buffer.low_latency_combine(rows, ids, weights, handle)[0]

    step(_routing(tokens, experts, avoid=-1))
    dist.barrier()
    if rank == LOST:
        os._exit(1)
    ids = _routing(tokens, experts, avoid=-1)
    reached = (weights * (ids // 2 != LOST)).sum(1, keepdim=True)
    assert torch.allclose(step(ids).float(), x.float() * reached, rtol=2e-2, atol=1e-2)
    masks = torch.zeros(RANKS, dtype=torch.int32)
    buffer.low_latency_query_mask_buffer(masks)
    assert masks.tolist() == [int(r == LOST) for r in range(RANKS)]
    buffer.clean_low_latency_buffer(8, HIDDEN, experts)
    return True


class LossesTest(unittest.TestCase):
    def test_a_reset_continues_without_a_dead_rank(self):
        self.assertEqual(deep_ep_ranks.run_with_losses(RANKS, 1, throughput), [True, None, True])

    def test_a_mask_continues_without_a_dead_rank(self):
        self.assertEqual(deep_ep_ranks.run_with_losses(RANKS, 1, low_latency), [True, None, True])


if __name__ == "__main__":
    unittest.main()
