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


def lose_a_rank(group):
    import deep_ep
    import ep4j

    rank, tokens, experts = group.rank(), 6, 2 * RANKS
    torch.manual_seed(rank)
    large = deep_ep.Buffer(group, 1 << 28)
    fast = deep_ep.Buffer(group, 0, 1 << 28, low_latency_mode=True, enable_shrink=True)
    hybrid = deep_ep.HybridEPBuffer(group, HIDDEN, tokens, 2)
    x, weights = torch.randn(tokens, HIDDEN).bfloat16(), torch.rand(tokens, 2)

    def step(ids):
        rows, counts, handle, _, _ = fast.low_latency_dispatch(x, ids, 8, experts, use_fp8=False)
        return fast.low_latency_combine(rows, ids, weights, handle)[0]

    everywhere = _routing(tokens, experts, avoid=-1)
    _dispatch(large, x, everywhere, experts)
    step(everywhere)
    dist.barrier()
    if rank == LOST:
        os._exit(1)

    # Low latency: a mask.
    reached = (weights * (everywhere // 2 != LOST)).sum(1, keepdim=True)
    assert torch.allclose(step(everywhere).float(), x.float() * reached, rtol=2e-2, atol=1e-2)
    masks = torch.zeros(RANKS, dtype=torch.int32)
    fast.low_latency_query_mask_buffer(masks)
    assert masks.tolist() == [int(r == LOST) for r in range(RANKS)]
    fast.clean_low_latency_buffer(8, HIDDEN, experts)

    # High throughput: an error with a type, and a reset.
    begin = time.monotonic()
    try:
        _dispatch(large, x, everywhere, experts)
        raise AssertionError("a dispatch without a rank succeeded")
    except (ep4j.PeerTimeout, ep4j.PeerLost) as error:
        assert str(LOST) in str(error), error
    assert time.monotonic() - begin < 20
    try:
        many = torch.zeros(tokens + 1, HIDDEN).bfloat16()
        hybrid.dispatch(
            hidden=many,
            topk_idx=torch.zeros(tokens + 1, 1, dtype=torch.int64),
            num_of_experts=experts,
        )
        raise AssertionError("a buffer grew without a rank")
    except (ep4j.PeerLost, ep4j.GroupTimeout) as error:
        assert f"rank {LOST}" in str(error), error
        assert f"{tokens + 1} tokens; the buffer takes {tokens} a rank" in str(error), error
        assert hybrid.configurer.buffer_config.max_num_of_tokens_per_rank == tokens
    large.reset()
    _dispatch(large, x, _routing(tokens, experts, avoid=LOST), experts)
    return True


class LossesTest(unittest.TestCase):
    def test_ranks_continue_without_a_dead_one(self):
        self.assertEqual(deep_ep_ranks.run_with_losses(RANKS, 1, lose_a_rank), [True, None, True])


if __name__ == "__main__":
    unittest.main()
