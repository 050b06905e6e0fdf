"""What the ranks of test_throughput do; they compare what they get with the model."""

import contextlib
import time

import ep4j
import model
import torch


def same(got, expected):
    """Tensors are equal, with shape and dtype."""
    assert got is not None and got.dtype == expected.dtype, (got, expected)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    assert torch.equal(got, expected), (got, expected)


@contextlib.contextmanager
def opened(join, **fields):
    """A group and a buffer."""
    settings = dict(
        hidden=model.HIDDEN,
        top_k=model.TOP_K,
        experts=model.EXPERTS,
        max_tokens=model.MAX_TOKENS,
        layouts=(ep4j.FLAT, ep4j.EXPERT_MAJOR),
        timeout=20.0,
    )
    settings.update(fields)
    with ep4j.Group.join(**join) as group:
        with ep4j.Buffer(group, ep4j.BufferConfig(**settings)) as buffer:
            yield group, buffer


def check_flat(received, group, seed=0, cached=False, weighted=True):
    rows = model.flat(group.rank, group.size, seed)
    assert received.rows == len(rows) == received.received_rows, (received.rows, rows)
    assert received.missing_rows == 0
    same(received.source_ranks, torch.tensor([r[0] for r in rows], dtype=torch.int32))
    same(received.source_tokens, torch.tensor([r[1] for r in rows], dtype=torch.int32))
    sent = [model.inputs(source, group.size, seed)[0] for source in range(group.size)]
    expected = [sent[source][token] for source, token in rows]
    same(received.x, torch.stack(expected) if rows else torch.empty(0, model.HIDDEN).bfloat16())
    groups = model.grouped(group.rank, group.size, seed)
    same(received.counts, torch.tensor([len(g) for g in groups], dtype=torch.int32))
    ends = [sum(1 for row in rows if row[0] < source) for source in range(group.size + 1)]
    same(received.rank_offsets, torch.tensor(ends))
    assert received.expert_offsets is None and received.row_weights is None
    if cached:
        assert received.topk_idx is None and received.topk_weights is None
        return
    choices = [model.local_choices(group.rank, group.size, *row, seed) for row in rows]
    if rows:
        same(received.topk_idx, torch.stack([ids for ids, _ in choices]))
    if weighted and rows:
        same(received.topk_weights, torch.stack([weights for _, weights in choices]))
    if not weighted:
        assert received.topk_weights is None


def flat(join):
    with opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        counts = model.destinations(group.rank, group.size)
        for _ in range(2):
            received = buffer.dispatch(x, topk_idx, weights)
            check_flat(received, group)
            combined = buffer.combine(
                received.x, received.handle, topk_weights=received.topk_weights
            )
            same(combined.x, (x.float() * counts).bfloat16())
            same(combined.topk_weights, torch.where(topk_idx < 0, torch.zeros(1), weights))
        without = buffer.dispatch(x, topk_idx.int())
        check_flat(without, group, weighted=False)
        assert buffer.combine(without.x, without.handle).topk_weights is None


def cached(join):
    with opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        with buffer.dispatch(x, topk_idx, weights).handle as handle:
            again = buffer.dispatch(x, handle=handle)
            assert again.handle is handle
            check_flat(again, group, cached=True)
            counts = model.destinations(group.rank, group.size)
            same(buffer.combine(again.x, handle).x, (x.float() * counts).bfloat16())
        try:
            buffer.combine(x, handle)
        except ep4j.InvalidArgument as error:
            assert error.code == 1040, error
        else:
            raise AssertionError("a closed handle was accepted")
        group.barrier()


def biases(join):
    with opened(join) as (group, buffer):
        x, topk_idx, _ = model.inputs(group.rank, group.size)
        received = buffer.dispatch(x, topk_idx)
        counts = model.destinations(group.rank, group.size)
        first = torch.full_like(x, 3)
        second = torch.full_like(x, -5)
        out = torch.full_like(x, 77)
        combined = buffer.combine(
            received.x, received.handle, bias0=first, bias1=second, out=out, single_rounding=True
        )
        assert combined.x is out
        same(out, (x.float() * counts - 2).bfloat16())
        one = buffer.combine(received.x, received.handle, bias0=first)
        same(one.x, (x.float() * counts + 3).bfloat16())
        try:
            buffer.combine(received.x, received.handle, bias1=second)
        except ep4j.InvalidArgument as error:
            assert "bias1" in str(error), error
        else:
            raise AssertionError("a second bias without a first was accepted")


def expert_major(join, alignment):
    with opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        received = buffer.dispatch(
            x,
            topk_idx,
            weights,
            layout=ep4j.EXPERT_MAJOR,
            expert_alignment=alignment,
            zero_padding=True,
        )
        groups = model.grouped(group.rank, group.size)
        local = len(groups)
        aligned = [-(-len(g) // alignment) * alignment for g in groups]
        same(received.counts, torch.tensor([len(g) for g in groups], dtype=torch.int32))
        same(received.aligned_counts, torch.tensor(aligned, dtype=torch.int32))
        starts = [sum(aligned[:expert]) for expert in range(local + 1)]
        same(received.expert_offsets, torch.tensor(starts))
        assert received.rows == starts[-1] and received.rank_offsets is None
        y = torch.zeros_like(received.x)
        for expert, (start, rows) in enumerate(zip(starts, groups)):
            for row, (source, token, slot) in enumerate(rows, start):
                sent, _, given = model.inputs(source, group.size)
                same(received.x[row], sent[token])
                assert received.source_ranks[row] == source
                assert received.source_tokens[row] == token
                assert received.row_weights[row] == given[token, slot]
            end = start + len(rows)
            assert not received.x[end : start + aligned[expert]].any(), "padding is not zero"
            assert (received.source_ranks[end : start + aligned[expert]] == -1).all()
            factor = model.expert_factor(group.rank * local + expert)
            y[start:end] = received.x[start:end] * factor
        for by_experts in (False, True):
            combined = buffer.combine(
                y, received.handle, apply_weights=True, by_experts=by_experts
            )
            same(combined.x, model.mixture(group.rank, group.size).bfloat16())


def quantised(join):
    with opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        codes, scales = model.quantise(x)
        columns = scales.t().contiguous().t()  # [T, S], column-major
        rows = model.flat(group.rank, group.size)
        sent = [model.quantise(model.inputs(r, group.size)[0]) for r in range(group.size)]
        for given, by_columns in ((scales, False), (columns, False), (scales, True)):
            received = buffer.dispatch(
                codes, topk_idx, weights, scales=given, scale_columns=by_columns
            )
            assert received.x.dtype == torch.uint8 and received.scales.dtype == torch.float32
            assert received.rows == len(rows)
            for row, (source, token) in enumerate(rows):
                same(received.x[row], sent[source][0][token])
                same(received.scales[row], sent[source][1][token])
            if by_columns and len(rows) > 1:
                assert received.scales.stride(0) == 1
        # Packed bytes of scales, and two elements a byte.
        bytes_of_scales = scales.to(torch.uint8)
        assert buffer.dispatch(codes, topk_idx, scales=bytes_of_scales).scales.dtype == torch.uint8
        halves = codes[:, ::2].contiguous()
        blocks = codes[:, ::16].contiguous()
        factors = torch.arange(x.shape[0]).float()
        received = buffer.dispatch(
            halves, topk_idx, scales=blocks, global_scales=factors, layout=ep4j.FLAT
        )
        for row, (source, token) in enumerate(rows):
            same(received.x[row], sent[source][0][token][::2])
            same(received.scales[row], sent[source][0][token][::16])
            assert received.global_scales[row] == token


def other_types(join):
    with opened(join, row_dtype=torch.float32) as (group, buffer):
        x, topk_idx, _ = model.inputs(group.rank, group.size)
        counts = model.destinations(group.rank, group.size)
        for dtype in (torch.float16, torch.float32):
            rows = x.to(dtype).requires_grad_()
            received = buffer.dispatch(rows, topk_idx)
            assert received.x.dtype == dtype and not received.x.requires_grad
            same(buffer.combine(received.x, received.handle).x, (x.float() * counts).to(dtype))


def static_rows(join):
    with opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        rows = model.flat(group.rank, group.size)
        received = buffer.dispatch(x, topk_idx, weights, max_rows=64)
        assert received.rows == 64 and received.x.shape == (64, model.HIDDEN)
        assert received.received_rows == len(rows) and received.missing_rows == 0
        region = received.combine_input()
        assert region.shape[1] == model.HIDDEN and region.shape[0] >= len(rows)
        region[: len(rows)] = received.x[: len(rows)]
        counts = model.destinations(group.rank, group.size)
        combined = buffer.combine(region, received.handle)
        same(combined.x, (x.float() * counts).bfloat16())
        few = buffer.dispatch(x, topk_idx, weights, max_rows=1)
        assert few.received_rows == len(rows) and few.missing_rows == max(len(rows) - 1, 0)


def asynchronous(join):
    with opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        counts = model.destinations(group.rank, group.size)
        for _ in range(20):
            # Nobody but the operation holds these copies.
            received = buffer.dispatch(
                x.clone(), topk_idx.clone(), weights.clone(), async_finish=True
            )
            noise = [torch.full_like(x, 9) for _ in range(4)]
            combined = buffer.combine(
                received.x, received.handle, previous=received.event, async_finish=True
            )
            assert combined.event.wait() and combined.event.query() and combined.event.wait(1.0)
            check_flat(received, group)
            same(combined.x, (x.float() * counts).bfloat16())
            del noise
        event = combined.event
        event.close()
        event.close()
        try:
            event.query()
        except ep4j.InvalidArgument as error:
            assert error.code == 1040
        else:
            raise AssertionError("a closed event was accepted")
        # Dropped results: the tensors live until the operation has ended.
        buffer.dispatch(x.clone(), topk_idx, async_finish=True)
        assert len(buffer._in_flight._operations) >= 1
        buffer.barrier()


def two_buffers(join):
    with opened(join) as (group, first):
        with ep4j.Buffer(group, first.config) as second:
            x, topk_idx, weights = model.inputs(group.rank, group.size)
            y, other, factors = model.inputs(group.rank, group.size, seed=1)
            one = first.dispatch(x, topk_idx, weights)
            two = second.dispatch(y, other, factors)
            check_flat(one, group)
            check_flat(two, group, seed=1)
            try:
                second.combine(two.x, one.handle)
            except ep4j.Error as error:
                assert error.kind in (ep4j.ErrorKind.ARGUMENT, ep4j.ErrorKind.USE), error
            else:
                raise AssertionError("a handle of another buffer was accepted")
            counts = model.destinations(group.rank, group.size)
            same(first.combine(one.x, one.handle).x, (x.float() * counts).bfloat16())


def outdated(join):
    with opened(join) as (group, buffer):
        x, topk_idx, _ = model.inputs(group.rank, group.size)
        first = buffer.dispatch(x, topk_idx)
        kept = first.counts
        buffer.dispatch(x, topk_idx)
        assert first.counts is kept
        try:
            first.source_ranks
        except ep4j.InvalidArgument as error:
            assert error.code == 1040, error
        else:
            raise AssertionError("an outdated result was read")


def layout_and_info(join):
    with opened(join, parallelism=1) as (group, buffer):
        _, topk_idx, _ = model.inputs(group.rank, group.size)
        local = model.EXPERTS // group.size
        layout = buffer.dispatch_layout(topk_idx)
        per_expert = [int((topk_idx == expert).sum()) for expert in range(model.EXPERTS)]
        same(layout.tokens_per_expert, torch.tensor(per_expert, dtype=torch.int32))
        inside = torch.stack(
            [((topk_idx >= 0) & (topk_idx // local == r)).any(1) for r in range(group.size)], 1
        )
        same(layout.token_in_rank, inside)
        same(layout.tokens_per_rank, inside.sum(0).int())
        assert layout.tokens_per_node.sum() == inside.any(1).sum()
        info = buffer.info
        assert (info.rank, info.ranks, info.experts) == (group.rank, group.size, model.EXPERTS)
        assert (info.local_experts, info.engine, info.parallelism) == (local, "host", 1), info
        assert buffer.placement() == [model.owner(e, group.size) for e in range(model.EXPERTS)]
        buffer.warm_up()
        buffer.set_parallelism(2)
        assert buffer.info.parallelism == 2
        before = buffer.statistics().dispatches
        buffer.dispatch(*model.inputs(group.rank, group.size))
        assert buffer.statistics().dispatches == before + 1
        assert buffer.wire_paths() == []
        buffer.barrier()
        buffer.reset()


def slow_rank(join):
    """Nanoseconds that the rank waited for each rank, of which rank 1 comes late, and the verdict."""
    with opened(join) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        assert buffer.observe().operations == 0 and buffer.verdict().cause == ep4j.Cause.TOO_EARLY
        rows, tokens = 0, None
        for _ in range(50):
            if group.rank == 1:
                time.sleep(0.02)
            received = buffer.dispatch(x, topk_idx)
            rows, tokens = rows + received.rows, received.counts.tolist()
            buffer.combine(received.x, received.handle)
        seen, verdict = buffer.observe(), buffer.verdict()
        assert (seen.operations, seen.timeouts, seen.timeout_peer) == (100, 0, -1), seen
        assert seen.nanoseconds > 40 * 20e6 and seen.rows == rows, (seen, rows)
        assert seen.tokens == [50 * count for count in tokens], (seen, tokens)
        assert len(seen.waited) == group.size and seen.waited[group.rank] == 0, seen
        return seen.waited, verdict


def placement(join):
    ranks = join["ranks"]
    table = [e % ranks for e in range(model.EXPERTS)]
    with opened(join, rank_of_expert=table) as (group, buffer):
        assert buffer.placement() == table
        buffer.barrier()


def group_functions(join):
    with ep4j.Group.join(**join) as group:
        assert (group.rank, group.size) == (join["rank"], join["ranks"])
        assert len(group.job_id) > 0
        mine = bytes([group.rank]) * 5
        everyone = [bytes([rank]) * 5 for rank in range(group.size)]
        assert group.all_gather(mine) == everyone
        group.barrier(30)
        state = group.rank_state(group.rank)
        assert state.alive and state.incarnation == 0 and not state.has_replacement, state
        try:
            group.readmit(0.5)
        except ep4j.GroupTimeout as error:
            assert error.code == 3037, error
        else:
            raise AssertionError("nobody was to be admitted")
        with group.survivors(30) as survivors:
            assert survivors.size == group.size
            survivors.barrier()
        group.barrier()
        return group.job_id


def pairs(join, count):
    """Growth of the process in KiB over `count` dispatch/combine pairs, after as many."""
    with opened(join, low_latency_max_tokens=model.MAX_TOKENS) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        sizes = []
        for _ in range(2):
            for number in range(count):
                received = buffer.dispatch(
                    x, topk_idx, weights, async_finish=number % 3 == 0
                )
                combined = buffer.combine(received.x, received.handle)
                assert combined.x.shape == x.shape
                if number % 10 == 0:
                    quick = buffer.low_latency_dispatch(x, topk_idx, weights)
                    buffer.low_latency_combine(
                        quick, quick.combine_input(), topk_idx, weights, zero_copy=True
                    )
            with open("/proc/self/statm") as file:
                sizes.append(int(file.read().split()[1]) * 4)
        assert len(buffer._in_flight._operations) <= 1
        return sizes[1] - sizes[0]
