"""Low-latency operations of deep_ep: the assertions of DeepEP's test_low_latency, on CPU tensors."""

import random
import unittest

import torch
import torch.distributed as dist

import deep_ep_ranks
from deep_ep.utils.e4m3 import decoded
from deep_ep.utils.math import calc_diff, per_token_cast_back

TOP_K = 4
OFFSET = 128  # larger integers are no BF16
_E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])

# use_fp8, use_nvfp4, round_scale, use_ue8m0, largest difference of a combine
FORMATS = (
    (False, False, False, False, 1e-5),
    (True, False, False, False, 9e-4),
    (True, False, True, False, 7e-3),
    (True, False, True, True, 7e-3),
    (False, True, False, False, 7e-3),
)


def matrix(group, tokens, hidden, experts, log_fmt, seed):
    import deep_ep

    rank, ranks = group.rank(), group.size()
    torch.manual_seed(seed + rank)
    random.seed(seed + rank)
    size = deep_ep.Buffer.get_low_latency_rdma_size_hint(tokens, hidden, ranks, experts)
    buffer = deep_ep.Buffer(
        group,
        num_rdma_bytes=size,
        low_latency_mode=True,
        num_qps_per_rank=experts // ranks,
        explicitly_destroy=True,
    )
    x = torch.full((tokens, hidden), float(rank - OFFSET)).bfloat16()
    x[:, -128:] = torch.arange(tokens).bfloat16().view(-1, 1)
    batches = [x]
    # Most values of the last batch are small enough for LogFMT.
    batches.append((torch.randn(tokens, hidden) * (0.1 if log_fmt else 1.0)).bfloat16())
    topk_idx = torch.topk(torch.rand(tokens, experts), TOP_K, dim=1)[1]
    weights = torch.randn(tokens, TOP_K).abs()
    for _ in range(10):
        topk_idx[random.randrange(tokens), random.randrange(TOP_K)] = -1
    everyone = [torch.empty_like(topk_idx) for _ in range(ranks)]
    dist.all_gather(everyone, topk_idx)
    everyone = torch.stack(everyone)
    calls = 0
    waited = torch.zeros(2, dtype=torch.int64)  # in dispatches, in combines
    for batch in batches:
        for hooked in (False, True):
            for use_fp8, use_nvfp4, round_scale, use_ue8m0, tolerance in FORMATS:
                scale = torch.tensor(448.0 * 6.0) / batch.abs().max().float()
                dist.all_reduce(scale, op=dist.ReduceOp.MIN)
                for _ in range(calls % 2 + 1):
                    stats = torch.zeros(experts // ranks, dtype=torch.int32)
                    waits = torch.zeros(ranks, dtype=torch.int64)
                    received, counts, handle, event, hook = buffer.low_latency_dispatch(
                        batch,
                        topk_idx,
                        tokens,
                        experts,
                        use_fp8=use_fp8,
                        use_nvfp4=use_nvfp4,
                        round_scale=round_scale,
                        use_ue8m0=use_ue8m0,
                        x_global_scale=scale,
                        cumulative_local_expert_recv_stats=stats,
                        dispatch_wait_recv_cost_stats=waits,
                        async_finish=not hooked,
                        return_recv_hook=hooked,
                    )
                    hook() if hooked else event.current_stream_wait()
                calls += 1
                assert handle[2:] == (tokens, hidden, experts)
                assert (waits >= 0).all()
                waited[0] += waits.sum()
                waits.zero_()
                if use_fp8:
                    codes, scales = received
                    assert (
                        codes.shape == (experts // ranks, ranks * tokens, hidden)
                        and codes.is_contiguous()
                    )
                    width = hidden // 512 if use_ue8m0 else hidden // 128
                    assert scales.shape == (experts // ranks, ranks * tokens, width), scales.shape
                    assert scales.dtype == (torch.int32 if use_ue8m0 else torch.float32)
                    assert scales.stride(1) == 1, "column-major"
                    if not use_ue8m0 and batch is not x:
                        valid = scales[torch.arange(ranks * tokens) < counts.view(-1, 1)]
                        powers = torch.frexp(valid).mantissa == 0.5
                        assert powers.all() if round_scale else not powers.all()
                    words = scales.reshape(-1, scales.shape[-1])
                    rows = per_token_cast_back(codes.view(-1, hidden), words).view(codes.shape)
                elif use_nvfp4:
                    rows = _from_nvfp4(*received, scale, ranks * tokens, hidden)
                else:
                    rows = received
                exact = not round_scale and not use_nvfp4
                _check(
                    batch is x,
                    exact,
                    rows,
                    counts,
                    handle,
                    stats,
                    everyone,
                    rank,
                    ranks,
                    tokens,
                    experts,
                )
                wanted = batch * weights.masked_fill(topk_idx < 0, 0).sum(1, keepdim=True)
                # Rows behind the counts hold old bytes, which may be no numbers.
                valid = torch.arange(ranks * tokens).view(1, -1, 1) < counts.view(-1, 1, 1)
                rows = torch.where(valid, rows, torch.zeros_like(rows))
                for zero_copy in (False,) if log_fmt else (False, True):
                    given = rows
                    if zero_copy:
                        buffer.get_next_low_latency_combine_buffer(handle)[:, :, :] = rows
                        given = torch.full_like(rows, float("nan"))
                    out = torch.full((tokens, hidden), float("nan")).bfloat16()
                    summed, event, hook = buffer.low_latency_combine(
                        given,
                        topk_idx,
                        weights,
                        handle,
                        use_logfmt=log_fmt,
                        zero_copy=zero_copy,
                        async_finish=not hooked,
                        return_recv_hook=hooked,
                        out=out,
                        combine_wait_recv_cost_stats=waits,
                    )
                    hook() if hooked else event.current_stream_wait()
                    assert summed.data_ptr() == out.data_ptr() and not torch.isnan(summed).any()
                    assert calc_diff(wanted, summed) < (
                        max(tolerance, 1e-3) if log_fmt else tolerance
                    )
                if log_fmt and batch is not x:
                    unrounded = buffer.low_latency_combine(rows, topk_idx, weights, handle)[0]
                    assert not torch.equal(out, unrounded), "LogFMT rounds"
                assert (waits >= 0).all()
                waited[1] += waits.sum()
    dist.all_reduce(waited)
    assert (waited > 0).all(), waited
    buffer.destroy()
    return calls


def _check(constant, exact, rows, counts, handle, stats, everyone, rank, ranks, tokens, experts):
    local = experts // ranks
    for e in range(local):
        expert = rank * local + e
        count = int(counts[e])
        ranges = handle[1][e]
        true = [int((everyone[source] == expert).sum()) for source in range(ranks)]
        assert int(stats[e]) == count == sum(true) == int((ranges & 0xFFFFFFFF).sum())
        if not constant or count == 0:
            continue
        mine, source_tokens = rows[e, :count].float(), handle[0][e, :count].view(-1, 1)
        assert torch.equal(mine[:, :-128].amin(1), mine[:, :-128].amax(1))
        if exact:
            assert (mine[:, -128:] == source_tokens % tokens).all()
        else:
            assert calc_diff(mine[:, -1], source_tokens.view(-1)) < 0.007
        for source in range(ranks):
            begin, length = int(ranges[source] >> 32), int(ranges[source] & 0xFFFFFFFF)
            assert length == true[source]
            if exact:
                assert (mine[begin : begin + length, :-128] == source - OFFSET).all()


def _from_nvfp4(codes, scales, global_scale, rows, hidden):
    """Rows of the layout that block-scaled matrix products read, as BF16 [L, P, H]."""
    _, _, tiles, _, width, experts = scales.shape
    assert (
        codes.shape == (rows, hidden // 2, experts)
        and scales.shape[:2] == (32, 4)
        and width == hidden // 64
    )
    in_memory = scales.permute(5, 2, 4, 0, 1, 3)
    assert in_memory.is_contiguous()
    factors = torch.empty(experts, tiles * 128, hidden // 16)
    for row in range(rows):
        tile = in_memory[:, row // 128, :, row % 32, row % 128 // 32]
        factors[:, row] = decoded(tile).reshape(experts, -1)
    bytes_ = codes.permute(2, 0, 1)
    values = torch.stack((_E2M1[(bytes_ & 15).long()], _E2M1[(bytes_ >> 4).long()]), dim=3).view(
        experts, rows, hidden
    )
    return (values * factors[:, :rows].repeat_interleave(16, dim=2) / global_scale).bfloat16()


def overlapped(group):
    """Two halves of a batch in flight, each with its hook; rows with weights; masks."""
    import deep_ep

    rank, ranks = group.rank(), group.size()
    tokens, hidden, experts = 8, 128, 2 * ranks
    buffer = deep_ep.Buffer(
        group, num_rdma_bytes=1 << 28, low_latency_mode=True, enable_shrink=True
    )
    torch.manual_seed(rank)
    halves = []
    for half in range(2):
        x = torch.randn(tokens, hidden).bfloat16()
        ids = torch.stack([torch.randperm(experts)[:2] for _ in range(tokens)])
        weights = torch.rand(tokens, 2)
        halves.append(
            (
                x,
                ids,
                weights,
                buffer.low_latency_dispatch(
                    x,
                    ids,
                    tokens,
                    experts,
                    use_fp8=False,
                    return_recv_hook=True,
                    topk_weights=weights,
                ),
            )
        )
    for x, ids, weights, (rows, counts, row_weights, sources, handle, _, hook) in halves:
        everyone = [[torch.empty_like(mine) for _ in range(ranks)] for mine in (ids, weights)]
        for parts, mine in zip(everyone, (ids, weights)):
            dist.all_gather(parts, mine)
        hook()
        out = torch.zeros_like(rows)
        for e in range(2):
            n = int(counts[e])
            out[e, :n] = rows[e, :n] * (rank * 2 + e + 1)
            for source in range(ranks):
                begin, length = int(handle[1][e][source] >> 32), int(
                    handle[1][e][source] & 0xFFFFFFFF
                )
                assert (sources[e, begin : begin + length] == source).all()
                tokens_of = handle[0][e, begin : begin + length].long()
                chosen = everyone[0][source][tokens_of] == rank * 2 + e
                sent = everyone[1][source][tokens_of][chosen]
                assert torch.equal(row_weights[e, begin : begin + length], sent)
        summed, _, hook = buffer.low_latency_combine(
            out, ids, weights, handle, return_recv_hook=True
        )
        hook()
        wanted = x.float() * (weights * (ids + 1)).sum(1, keepdim=True)
        assert torch.allclose(summed.float(), wanted, rtol=2e-2, atol=1e-2)
    dist.barrier()  # A mask is for ranks that are not inside an operation.
    masks = torch.full((ranks,), 7, dtype=torch.int32)
    buffer.low_latency_query_mask_buffer(masks)
    assert masks.tolist() == [0] * ranks
    other = (rank + 1) % ranks
    buffer.low_latency_update_mask_buffer(other, True)
    buffer.low_latency_query_mask_buffer(masks)
    assert masks.nonzero().view(-1).tolist() == [other]
    dist.barrier()
    buffer.low_latency_clean_mask_buffer()
    buffer.low_latency_query_mask_buffer(masks)
    assert masks.tolist() == [0] * ranks
    dist.barrier()
    buffer.clean_low_latency_buffer(tokens, hidden, experts)
    return True


def without_nvlink(group):
    """Rows take the wire between all ranks."""
    import deep_ep

    ranks = group.size()
    buffer = deep_ep.Buffer(
        group, num_rdma_bytes=1 << 28, allow_nvlink_for_low_latency_mode=False
    )
    x, ids = torch.randn(4, 128).bfloat16(), torch.arange(ranks).repeat(4, 1)
    rows, _, handle, _, _ = buffer.low_latency_dispatch(x, ids, 4, ranks, use_fp8=False)
    sums = buffer.low_latency_combine(rows, ids, torch.ones(ids.shape), handle)[0]
    assert torch.equal(sums.float(), x.float() * ranks)
    assert buffer._shapes.all("low latency")[0].config.ranks_per_node == 1
    return True


class LowLatencyTest(unittest.TestCase):
    def test_two_ranks_pass_the_matrix_of_formats(self):
        self.assertEqual(deep_ep_ranks.run(2, matrix, 12, 512, 8, False, 1), [20, 20])

    def test_four_ranks_pass_the_matrix_with_log_fmt(self):
        self.assertEqual(deep_ep_ranks.run(4, matrix, 5, 512, 8, True, 2), [20] * 4)

    def test_ranks_without_nvlink_take_the_wire(self):
        self.assertEqual(deep_ep_ranks.run(2, without_nvlink), [True, True])

    def test_two_halves_overlap_and_masks_follow(self):
        self.assertEqual(deep_ep_ranks.run(2, overlapped), [True, True])


if __name__ == "__main__":
    unittest.main()
