"""What the ranks of test_low_latency do; they compare what they get with the model."""

import time
import weakref

import ep4j
import model
import torch
from ranks_throughput import opened, same

M = model.MAX_TOKENS
# FP8 rows lose at most half a step of three bits of mantissa.
FP8_STEP = 1 / 16


def _opened(join, **fields):
    return opened(join, max_tokens=0, low_latency_max_tokens=M, **fields)


def _values(codes, scales):
    """Rows [.., H] of FP8 E4M3 bytes with float32 scales [.., H/128]."""
    bits = codes.to(torch.int32)
    sign = 1.0 - 2.0 * (bits >> 7).float()
    exponent = (bits >> 3) & 15
    mantissa = (bits & 7).float()
    normal = (1 + mantissa / 8) * torch.pow(2.0, exponent.float() - 7)
    value = sign * torch.where(exponent == 0, mantissa / 8 * 2.0**-6, normal)
    return value * scales.repeat_interleave(128, -1)


def _rows(dispatched):
    """Rows as float32 [G, P, H]."""
    x = dispatched.x
    if x.dtype == torch.bfloat16:
        assert dispatched.scales is None
        return x.float()
    return _values(x, dispatched.scales)


def _check_groups(dispatched, group, exact):
    groups = model.grouped(group.rank, group.size)
    rows = _rows(dispatched)
    assert rows.shape == (len(groups), group.size * M, model.HIDDEN), rows.shape
    same(dispatched.counts, torch.tensor([len(g) for g in groups], dtype=torch.int32))
    assert dispatched.layout_range.shape == (len(groups), group.size)
    for expert, expected in enumerate(groups):
        for source in range(group.size):
            packed = int(dispatched.layout_range[expert, source])
            count, first = packed & 0xFFFFFFFF, packed >> 32
            tokens = [token for rank, token, _ in expected if rank == source]
            assert count == len(tokens), (count, tokens)
            seen = dispatched.src_info[expert, first : first + count].tolist()
            assert sorted(seen) == sorted(tokens), (seen, tokens)
            sent = model.inputs(source, group.size)[0].float()
            for row, token in enumerate(seen, first):
                _near(rows[expert, row], sent[token], 0 if exact else FP8_STEP * 8)


def _expert_rows(dispatched, group, rows):
    """What the local experts return."""
    local = model.EXPERTS // group.size
    factors = [model.expert_factor(group.rank * local + expert) for expert in range(local)]
    return (rows * torch.tensor(factors).reshape(-1, 1, 1)).bfloat16()


def _near(got, expected, limit):
    difference = (got.float() - expected.float()).abs()
    assert (difference <= limit).all(), difference


def bf16(join):
    with _opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        expected = model.mixture(group.rank, group.size).bfloat16()
        out = torch.full_like(x, 99)
        for hook in (False, True):
            for log_fmt in (False, True):
                dispatched = buffer.low_latency_dispatch(
                    x, topk_idx, weights, format=ep4j.ROWS_BF16, return_hook=hook
                )
                if hook:
                    dispatched.receive()
                _check_groups(dispatched, group, exact=True)
                y = _expert_rows(dispatched, group, dispatched.x)
                combined = buffer.low_latency_combine(
                    dispatched, y, topk_idx, weights, out=out, log_fmt=log_fmt, return_hook=hook
                )
                if hook:
                    combined.receive()
                assert combined.x is out
                if log_fmt:
                    _near(out, expected, 2.0)
                else:
                    same(out, expected)
        # In the order of experts.
        dispatched = buffer.low_latency_dispatch(x, topk_idx, weights, format=ep4j.ROWS_BF16)
        y = _expert_rows(dispatched, group, dispatched.x)
        combined = buffer.low_latency_combine(
            dispatched, y, topk_idx, weights, logical_idx=topk_idx, by_experts=True
        )
        same(combined.x, expected)
        # Without a copy, and with sums of each rank.
        dispatched = buffer.low_latency_dispatch(x, topk_idx, weights, format=ep4j.ROWS_BF16)
        region = dispatched.combine_input()
        region.copy_(_expert_rows(dispatched, group, dispatched.x))
        combined = buffer.low_latency_combine(
            dispatched, region, topk_idx, weights, zero_copy=True, partial_rounding=True
        )
        same(combined.x, expected)


def fp8(join):
    with _opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        local = model.EXPERTS // group.size
        tokens = torch.zeros(local, dtype=torch.int32)
        waited = torch.zeros(group.size, dtype=torch.int64)
        expected = model.mixture(group.rank, group.size)
        for kind in (ep4j.SCALES_FLOAT32, ep4j.SCALES_FLOAT32_POW2):
            for columns in (False, True):
                dispatched = buffer.low_latency_dispatch(
                    x,
                    topk_idx,
                    weights,
                    scale_kind=kind,
                    scale_columns=columns,
                    cumulative_stats=tokens,
                    wait_stats=waited,
                    deliver_weights=True,
                )
                assert dispatched.scales.shape == (local, group.size * M, model.HIDDEN // 128)
                assert dispatched.row_weights.shape == (local, group.size * M)
                _check_groups(dispatched, group, exact=False)
        same(tokens, 4 * dispatched.counts)
        assert (waited >= 0).all()
        y = _expert_rows(dispatched, group, _rows(dispatched))
        combined = buffer.low_latency_combine(dispatched, y, topk_idx, weights, wait_stats=waited)
        _near(combined.x, expected, 3.0)
        packed = buffer.low_latency_dispatch(x, topk_idx, scale_kind=ep4j.SCALES_UE8M0)
        assert packed.scales.element_size() * packed.scales.shape[-1] == model.HIDDEN // 128
        scale = torch.tensor([2.0])
        small = buffer.low_latency_dispatch(x, topk_idx, format=ep4j.ROWS_NVFP4, global_scale=scale)
        assert small.x.shape[-1] == model.HIDDEN // 2 and small.x.element_size() == 1
        assert small.scales.shape[-1] == model.HIDDEN // 16


def rank_major(join):
    with _opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        dispatched = buffer.low_latency_dispatch(
            x, topk_idx, weights, format=ep4j.ROWS_BF16, layout=ep4j.RANK_MAJOR
        )
        rows = model.flat(group.rank, group.size)
        local = model.EXPERTS // group.size
        y = torch.zeros_like(dispatched.x)
        for source in range(group.size):
            tokens = [token for rank, token in rows if rank == source]
            assert dispatched.counts[source] == len(tokens)
            sent = model.inputs(source, group.size)[0]
            seen = dispatched.src_info[source, : len(tokens)].tolist()
            assert sorted(seen) == tokens
            for row, token in enumerate(seen):
                same(dispatched.x[source, row], sent[token])
                ids, given = model.local_choices(group.rank, group.size, source, token)
                same(dispatched.topk_idx[source, row], ids)
                same(dispatched.topk_weights[source, row], given)
                factors = [
                    float(w) * model.expert_factor(group.rank * local + int(e))
                    for e, w in zip(ids, given)
                    if e >= 0
                ]
                y[source, row] = (sent[token].float() * sum(factors)).bfloat16()
        combined = buffer.low_latency_combine(dispatched, y, topk_idx, weights)
        expected = model.mixture(group.rank, group.size)
        _near(combined.x, expected, expected.abs() / 64)


def asynchronous(join):
    with _opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        expected = model.mixture(group.rank, group.size).bfloat16()
        for _ in range(5):
            dispatched = buffer.low_latency_dispatch(
                x.clone(), topk_idx.clone(), weights, format=ep4j.ROWS_BF16, async_finish=True
            )
            assert dispatched.event.wait()
            y = _expert_rows(dispatched, group, dispatched.x)
            combined = buffer.low_latency_combine(
                dispatched, y, topk_idx, weights, async_finish=True
            )
            del y
            same(combined.x, expected)
            assert combined.event.query()


def hooked(join):
    """The caller drops its tensors between the two halves of each operation."""
    with _opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        expected = model.mixture(group.rank, group.size).bfloat16()
        local = model.EXPERTS // group.size
        tokens = torch.zeros(local, dtype=torch.int32)
        alive = [weakref.ref(tokens)]
        dispatched = buffer.low_latency_dispatch(
            x, topk_idx, format=ep4j.ROWS_BF16, cumulative_stats=tokens, return_hook=True
        )
        del tokens
        assert alive[0]() is not None, "the receiving half counts tokens in freed memory"
        dispatched.receive()
        same(alive[0](), dispatched.counts)
        y = _expert_rows(dispatched, group, dispatched.x)
        used = [y, topk_idx.clone(), weights.clone()]
        alive = [weakref.ref(tensor) for tensor in used]
        combined = buffer.low_latency_combine(dispatched, *used, return_hook=True)
        del y, used
        assert all(one() is not None for one in alive), "the receiving half reads freed memory"
        combined.receive()
        same(combined.x, expected)


def masks(join):
    with _opened(join, masking=True, timeout=1.0) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        out = torch.full((group.size,), 7, dtype=torch.int32)
        same(buffer.read_masks(out), torch.zeros(group.size, dtype=torch.int32))
        if group.rank == 0:
            buffer.mask(1)
            assert buffer.masked(1) and not buffer.masked(0)
            buffer.read_masks(out)
            assert out.tolist() == [0, 1] + [0] * (group.size - 2)
            buffer.mask(1, False)
            assert not buffer.masked(1)
        group.barrier()
        # The last rank does not come: the others mask it, and go on.
        if group.rank != group.size - 1:
            start = time.monotonic()
            dispatched = buffer.low_latency_dispatch(x, topk_idx, weights, format=ep4j.ROWS_BF16)
            assert time.monotonic() - start < 10
            assert buffer.masked(group.size - 1)
            assert int(dispatched.counts.sum()) >= 0
        group.barrier()
        buffer.clear_masks()
        assert not any(buffer.masked(rank) for rank in range(group.size))
        group.barrier()


def wrong_order(join):
    with _opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        results = [
            buffer.low_latency_dispatch(x, topk_idx, weights, format=ep4j.ROWS_BF16)
            for _ in range(3)
        ]
        results[1].counts, results[2].counts
        for call in (
            lambda: results[0].src_info,
            lambda: buffer.low_latency_combine(results[0], results[2].x, topk_idx, weights),
            lambda: results[2].receive(),
        ):
            try:
                call()
            except ep4j.Error as error:
                assert error.kind in (ep4j.ErrorKind.ARGUMENT, ep4j.ErrorKind.USE), error
            else:
                raise AssertionError("no error")
