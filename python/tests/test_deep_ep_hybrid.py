"""HybridEPBuffer: the assertions of Hybrid-EP's tests, on CPU tensors."""

import unittest

import torch
import torch.distributed as dist

import deep_ep_ranks

HIDDEN, TOP_K, PAD = 256, 3, 8


class _Everyone:
    """The batches of all ranks, and what this rank must receive of them."""

    def __init__(self, group, tokens, local, fp8, seed):
        rank, ranks = group.rank(), group.size()
        torch.manual_seed(seed + rank)
        self.local, self.experts, self.rank, self.ranks = local, local * ranks, rank, ranks
        if fp8:
            self.hidden = torch.randint(0, 256, (tokens, HIDDEN)).byte()
        else:
            self.hidden = torch.randn(tokens, HIDDEN).bfloat16()
        self.scales = torch.randn(tokens, HIDDEN // 128)
        self.topk_idx = torch.stack([torch.randperm(self.experts)[:TOP_K] for _ in range(tokens)])
        self.topk_weights = torch.rand(tokens, TOP_K)
        self.map = torch.zeros(tokens, self.experts, dtype=torch.bool).scatter_(
            1, self.topk_idx, True
        )
        self.probs = torch.zeros(tokens, self.experts).scatter_(1, self.topk_idx, self.topk_weights)
        maps = _gathered(self.map.byte()).bool()
        mine = slice(rank * local, (rank + 1) * local)
        come = maps[:, mine].any(1)
        self.rows_map = maps[come, mine]
        self.rows = _gathered(self.hidden.view(torch.uint8))[come].view(self.hidden.dtype)
        self.rows_scales = _gathered(self.scales)[come]
        self.rows_probs = _gathered(self.probs)[come, mine]

    def grouped(self, rows, pad):
        """Rows by expert, each group filled with zeros to a multiple of `pad`."""
        groups = []
        for e in range(self.local):
            group = rows[self.rows_map[:, e]]
            missing = -group.shape[0] % pad
            groups.append(torch.cat([group, group.new_zeros(missing, *group.shape[1:])]))
        return torch.cat(groups)

    def grouped_probs(self, pad):
        groups = []
        for e in range(self.local):
            group = self.rows_probs[self.rows_map[:, e], e]
            groups.append(torch.cat([group, group.new_zeros(-group.shape[0] % pad)]))
        return torch.cat(groups)


def _gathered(mine):
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine.contiguous())
    return torch.cat(parts)


def _same(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
    )


def flat_and_grouped(group, tokens, local, seed):
    import deep_ep

    buffer = deep_ep.HybridEPBuffer(
        group=group, hidden_dim=HIDDEN, max_num_of_tokens_per_rank=tokens, num_local_experts=local
    )
    for fp8 in (False, True):
        everyone = _Everyone(group, tokens, local, fp8, seed)
        for with_probs in (True, False):
            _flat(buffer, everyone, fp8, with_probs)
            for fused in (False, True):
                _grouped(buffer, everyone, fp8, with_probs, fused)
        _static(buffer, everyone, fp8)
    return True


def _flat(buffer, e, fp8, with_probs):
    by_index = dict(
        topk_idx=e.topk_idx,
        topk_weights=e.topk_weights if with_probs else None,
        num_of_experts=e.experts,
    )
    by_map = dict(routing_map=e.map, probs=e.probs if with_probs else None)
    for routing in (by_index, by_map):
        rows, probs, scales, handle = buffer.dispatch(
            hidden=e.hidden, scaling_factor=e.scales, **routing
        )
        assert _same(rows, e.rows)
        mine = slice(buffer.local_rank * e.local, (buffer.local_rank + 1) * e.local)
        assert (probs is None) == (not with_probs)
        if with_probs:
            assert probs.shape == (rows.shape[0], e.experts) and _same(
                probs[:, mine].contiguous(), e.rows_probs
            )
        assert (scales is None) == (not fp8)
        if fp8:
            assert _same(scales, e.rows_scales)
        assert len(handle) == 7 and handle[3].item() == rows.shape[0]
        assert torch.equal(handle[4], e.rows_map)
        again = buffer.dispatch(
            hidden=e.hidden, scaling_factor=e.scales, handle=handle, probs=routing.get("probs")
        )
        assert _same(again[0], rows)
        if routing.get("probs") is not None:
            assert _same(again[1], probs)
        if with_probs:
            weighted = buffer.dispatch(
                hidden=e.hidden,
                scaling_factor=e.scales,
                handle=handle,
                topk_idx=e.topk_idx,
                topk_weights=e.topk_weights,
            )
            assert _same(weighted[1], probs)
        # The caller fixes the number of rows: the call does not wait for counts.
        wide = min(rows.shape[0] + 3, e.hidden.shape[0] * e.ranks)
        fixed = buffer.dispatch(
            hidden=e.hidden, scaling_factor=e.scales, num_dispatched_tokens=wide, **routing
        )
        assert fixed[0].shape[0] == wide and _same(fixed[0][: rows.shape[0]], rows)
        assert fixed[3][3].item() == rows.shape[0]
        assert torch.equal(fixed[3][4][: rows.shape[0]], e.rows_map)
        assert not fixed[3][4][rows.shape[0] :].any()
        if fp8:
            continue
        sums, sum_probs = buffer.combine(rows * handle[4].sum(1, keepdim=True), probs, handle)
        assert torch.allclose((sums / TOP_K).float(), e.hidden.float(), atol=2e-5, rtol=1e-2)
        if with_probs:
            assert _same(sum_probs, e.probs)


def _grouped(buffer, e, fp8, with_probs, fused):
    rows, probs, scales, padded, handle = buffer.dispatch_with_permute(
        hidden=e.hidden,
        routing_map=e.map,
        probs=e.probs if with_probs else None,
        scaling_factor=e.scales,
        pad_multiple=PAD,
        fuse_permute_dispatch=fused,
    )
    assert _same(rows, e.grouped(e.rows, PAD))
    assert padded.sum().item() == rows.shape[0] and (padded % PAD == 0).all()
    assert (
        len(handle) == 11
        and handle[7].tolist() == e.rows_map.sum(0).tolist()
        and not handle[10].item()
    )
    if with_probs:
        assert _same(probs, e.grouped_probs(PAD))
    if fp8:
        assert _same(scales, e.grouped(e.rows_scales, PAD))
    again = buffer.dispatch_with_permute(
        hidden=e.hidden,
        scaling_factor=e.scales,
        handle=handle,
        pad_multiple=PAD,
        num_permuted_tokens=rows.shape[0],
    )
    assert _same(again[0], rows) and again[1] is None and torch.equal(again[3], padded)
    if fp8:
        return
    sums, sum_probs = buffer.combine_with_unpermute(
        hidden=rows, probs=probs, handle=handle, pad_multiple=PAD, fuse_unpermute_combine=fused
    )
    assert torch.allclose((sums / TOP_K).float(), e.hidden.float(), atol=2e-5, rtol=1e-2)
    assert (sum_probs is None) == (not with_probs)
    if with_probs:
        assert _same(sum_probs, e.probs)


def _static(buffer, e, fp8):
    """A fixed number of rows: enough, more than the buffer holds, and too few."""
    true = e.grouped(e.rows, PAD)
    for rows_of_call in (true.shape[0] + PAD, e.hidden.shape[0] * e.ranks * TOP_K * PAD * 4, PAD):
        rows, probs, scales, padded, handle = buffer.dispatch_with_permute(
            hidden=e.hidden,
            routing_map=e.map,
            probs=e.probs,
            scaling_factor=e.scales,
            pad_multiple=PAD,
            num_permuted_tokens=rows_of_call,
            non_blocking=True,
        )
        fits = rows_of_call >= true.shape[0]
        n = min(rows_of_call, true.shape[0])
        counts = e.rows_map.sum(0)
        assert handle[7].tolist() == counts.tolist()
        assert padded.tolist() == [-(-count // PAD) * PAD for count in counts.tolist()]
        assert rows.shape[0] == probs.shape[0] == rows_of_call and handle[10].item() == (not fits)
        if fits:
            assert _same(rows[:n], true[:n]) and _same(probs[:n], e.grouped_probs(PAD)[:n])
        if fits and not fp8:
            sums, sum_probs = buffer.combine_with_unpermute(
                hidden=rows, probs=probs, handle=handle, pad_multiple=PAD
            )
            assert torch.allclose((sums / TOP_K).float(), e.hidden.float(), atol=2e-5, rtol=1e-2)
            assert _same(sum_probs, e.probs)


def strided_choices(group, tokens, local):
    """The first columns of a sort, which are not contiguous, are choices like a copy of them."""
    import deep_ep

    experts = local * group.size()
    torch.manual_seed(group.rank())
    buffer = deep_ep.HybridEPBuffer(group, HIDDEN, tokens, local)
    hidden = torch.randn(tokens, HIDDEN).bfloat16()
    scores, order = torch.rand(tokens, experts).sort(dim=1, descending=True)
    weights, ids = scores[:, :TOP_K], order[:, :TOP_K]
    assert not weights.is_contiguous() and not ids.is_contiguous()
    calls = []
    for chosen, weighted in ((ids, weights), (ids.contiguous(), weights.contiguous())):
        by_index = dict(topk_idx=chosen, topk_weights=weighted)
        rows, probs, _, handle = buffer.dispatch(hidden=hidden, num_of_experts=experts, **by_index)
        again = buffer.dispatch(hidden=hidden, handle=handle, **by_index)
        sums = buffer.combine(rows, probs, handle)
        grouped = buffer.dispatch_with_permute(
            hidden=hidden, num_of_experts=experts, pad_multiple=PAD, **by_index
        )
        calls.append([rows, probs, *again[:2], *sums, grouped[0], grouped[1], grouped[3]])
    for strided, contiguous in zip(*calls):
        assert _same(strided, contiguous)
    assert _same(calls[0][5], torch.zeros(tokens, experts).scatter(1, ids, weights))
    return True


class HybridTest(unittest.TestCase):
    def test_choices_may_have_strides(self):
        self.assertEqual(deep_ep_ranks.run(2, strided_choices, 12, 4), [True] * 2)

    def test_two_ranks_dispatch_and_combine_flat_and_grouped(self):
        self.assertEqual(deep_ep_ranks.run(2, flat_and_grouped, 20, 4, 1), [True] * 2)

    def test_four_ranks_dispatch_and_combine_flat_and_grouped(self):
        self.assertEqual(deep_ep_ranks.run(4, flat_and_grouped, 9, 2, 2), [True] * 4)


if __name__ == "__main__":
    unittest.main()
