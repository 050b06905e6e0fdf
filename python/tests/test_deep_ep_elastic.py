"""ElasticBuffer: both forms of dispatch and combine, on CPU tensors, against the loops of elastic_model."""

import itertools
import os
import random
import time
import unittest
from unittest import mock

import torch
import torch.distributed as dist

import deep_ep_ranks
from deep_ep_ranks import ON_GPU
from elastic_model import HIDDEN, LOCAL, NAN, TOP_K, World, as_bytes, parts, same


def _opened(group, world, **settings):
    import deep_ep

    settings = dict(num_max_tokens_per_rank=world.most, hidden=HIDDEN, **settings)
    return deep_ep.ElasticBuffer(group, explicitly_destroy=True, **settings)


def _check_rows(world, received, choices, weights, handle, fp8, sent="weights"):
    """Rows of tokens, and their choices and weights."""
    n = len(world.tokens)
    assert len(parts(received)) == len(parts(world.mine.x(fp8)))
    for part, *sent_parts in zip(parts(received), *(parts(b.x(fp8)) for b in world.batches)):
        assert part.shape[0] == handle.num_recv_tokens
        for row, (source, token) in enumerate(world.tokens):
            same(part[row], sent_parts[source][token])
    local = torch.tensor([world.local(*token) for token in world.tokens])
    same(choices[:n], local)
    assert (choices[n:] == -1).all() and choices.shape[0] == handle.num_recv_tokens
    if sent is None:
        assert weights is None
        return
    wanted = torch.stack([getattr(world.batches[s], sent)[t] for s, t in world.tokens])
    same(weights[:n], wanted.masked_fill(local < 0, 0))
    assert weights.shape[0] == handle.num_recv_tokens


def _check_expanded(world, received, choices, weights, handle, fp8, clear, sent="weights"):
    """Rows of choices, and their weights."""
    places, rows, _ = world.places(handle.expert_alignment)
    assert choices is None
    assert len(parts(received)) == len(parts(world.mine.x(fp8)))
    for part, *sent_parts in zip(parts(received), *(parts(b.x(fp8)) for b in world.batches)):
        assert part.shape[0] == handle.num_expanded_tokens
        for (source, token, _), place in places.items():
            same(part[place], sent_parts[source][token])
        if clear:
            padding = [row for row in range(rows) if row not in places.values()]
            assert not any(as_bytes(part[row]).any() for row in padding)
    if sent is None:
        assert weights is None
        return
    assert weights.shape == (handle.num_expanded_tokens,) and weights.dtype == torch.float32
    for (source, token, k), place in places.items():
        assert weights[place] == getattr(world.batches[source], sent)[token, k]
    if clear:
        assert not weights[padding].any()


def _check_members(world, handle, sync):
    alignment = handle.expert_alignment
    places, rows, ends = world.places(alignment)
    aligned = [-(-count // alignment) * alignment for count in world.counts]
    n, most = len(world.tokens), handle.num_max_tokens_per_rank
    int32 = lambda values: torch.tensor(values, dtype=torch.int32)
    from_ranks = [sum(s <= r for s, _ in world.tokens) for r in range(world.ranks)]
    same(handle.psum_num_recv_tokens_per_scaleup_rank, int32(from_ranks))
    same(handle.num_unaligned_recv_tokens_per_expert, int32(world.counts))
    psum = ends if handle.do_expand else list(itertools.accumulate(aligned))
    same(handle.psum_num_recv_tokens_per_expert, int32(psum))
    assert handle.num_recv_tokens_per_expert_list == (aligned if sync else [])
    if sync:
        assert (handle.num_recv_tokens, handle.num_expanded_tokens) == (n, rows)
    else:
        possible = world.ranks * most * min(TOP_K, LOCAL) + LOCAL * (alignment - 1)
        assert handle.num_recv_tokens == world.ranks * most
        assert handle.num_expanded_tokens == -(-possible // alignment) * alignment
    metadata = []
    for source, token in world.tokens:
        first = next(k for k, e in enumerate(world.local(source, token)) if e >= 0)
        of_choices = [places.get((source, token, k), -1) for k in range(TOP_K)]
        metadata.append([source * most + token, source * TOP_K + first])
        metadata[-1] += of_choices if handle.do_expand else [-1] * TOP_K
    same(handle.recv_src_metadata[:n], int32(metadata))
    assert (handle.recv_src_metadata[n:] == -1).all()
    assert handle.recv_src_metadata.shape == (handle.num_recv_tokens, TOP_K + 2)
    sent, slots = [0] * world.ranks, []
    for ids in world.mine.topk_idx.tolist():
        slots.append([-1] * TOP_K)
        for rank in dict.fromkeys(e // LOCAL for e in ids if e >= 0):
            k = next(k for k, e in enumerate(ids) if e >= 0 and e // LOCAL == rank)
            slots[-1][k] = world.rank * most + sent[rank]
            sent[rank] += 1
    same(handle.dst_buffer_slot_idx, int32(slots).view(-1, TOP_K))
    assert handle.token_metadata_at_forward is None and handle.channel_linked_list is None
    assert (handle.num_experts, handle.do_expand) == (world.experts, handle.do_expand)


def _options(seed):
    """Cases of both_forms; each two options come in all four combinations, also where rows are those of choices."""
    names = "fp8 aligned sync expand asynchronous events copy by_columns clear".split()
    products = list(itertools.product((False, True), repeat=4))
    draw = random.Random(seed)
    while True:
        drawn = [[False, True] * 8 for _ in names[4:]]
        for values in drawn:
            draw.shuffle(values)
        cases = [dict(zip(names, (*one, *more))) for one, *more in zip(products, *drawn)]
        expanded = [case for case in cases if case["expand"]]
        if _all_pairs(cases, names) and _all_pairs(expanded, [n for n in names if n != "expand"]):
            return cases


def _all_pairs(cases, names):
    return all(
        len({(case[one], case[other]) for case in cases}) == 4
        for one, other in itertools.combinations(names, 2)
    )


def both_forms(group, tokens, seed):
    import deep_ep

    world = World(group, tokens, seed)
    buffer = _opened(group, world)
    cases = 0
    for options in _options(seed):
        fp8, sync, expand, asynchronous, events, copy = (
            options[name] for name in "fp8 sync expand asynchronous events copy".split()
        )
        alignment = 8 if options["aligned"] else 1

        def called(function, **arguments):
            waited = []
            if events:
                second = deep_ep.EventOverlap(buffer.capture())
                second.register_hook_after_wait(lambda: waited.append(True))
                arguments.update(
                    previous_event=buffer.capture(), previous_event_before_epilogue=second
                )
            *results, event = function(
                async_with_compute_stream=asynchronous,
                allocate_on_comm_stream=events,
                **arguments,
            )
            assert isinstance(event, deep_ep.EventOverlap)
            assert (event.event is not None) == asynchronous
            event.current_stream_wait()
            assert bool(waited) == events
            return results

        topk_idx = world.mine.topk_idx.clone()
        routing = dict(
            topk_idx=topk_idx,
            num_experts=world.experts,
            expert_alignment=alignment,
            do_handle_copy=copy,
            # As DeepEP's tests pass them.
            do_cpu_sync=int(sync),
            do_expand=int(expand),
            do_zero_padding=expand and options["clear"],
            use_tma_aligned_col_major_sf=options["by_columns"],
        )
        x, weights = world.mine.x(fp8), world.mine.weights
        *results, handle = called(buffer.dispatch, x=x, topk_weights=weights, **routing)
        assert isinstance(handle, deep_ep.EPHandle) and handle.do_expand is expand
        if len(topk_idx):
            assert (handle.topk_idx.data_ptr() != topk_idx.data_ptr()) == copy
        if copy:
            topk_idx.fill_(-1)  # The handle has its own.
        clear = dict(clear=routing["do_zero_padding"]) if expand else {}
        check = _check_expanded if expand else _check_rows
        check(world, *results, handle, fp8, **clear)
        _check_members(world, handle, sync)
        if fp8:
            rows, columns = results[0][1].shape
            by_columns = (1, -(-rows // 4) * 4)
            strides = by_columns if options["by_columns"] else (columns, 1)
            assert results[0][1].stride() == strides or rows < 2, results[0][1].stride()

        # Results belong to the caller, who may change them.
        for part in (*parts(results[0]), *results[1:]):
            if part is not None:
                (part.view(torch.uint8) if part.element_size() == 1 else part).zero_()
        along = dict(handle=handle, do_expand=expand, do_zero_padding=expand)
        clear = dict(clear=True) if expand else {}
        *results, again = called(buffer.dispatch, x=x, **along)
        assert again is handle
        check(world, *results, handle, fp8, sent=None, **clear)
        other = world.mine.other_weights
        *results, again = called(buffer.dispatch, x=x, topk_weights=other, **along)
        check(world, *results, handle, fp8, sent="other_weights", **clear)
        assert again is handle

        if not expand:
            # Without weights; the handle of the first dispatch serves the combines below.
            topk_idx = world.mine.topk_idx.int()
            rows, choices, none, _ = called(
                buffer.dispatch, x=x, **{**routing, "topk_idx": topk_idx}
            )
            assert choices.dtype == torch.int32
            check(world, rows, choices.long(), none, handle, fp8, sent=None)
        for biases in range(3):
            bias = (None, world.mine.biases[0], tuple(world.mine.biases))[biases]
            sums, none = called(
                buffer.combine, x=world.answers(handle), handle=handle, bias=bias
            )
            assert none is None
            same(sums, world.sums(biases, exact=False))
        sent_weights = world.sent_weights(handle)
        _, summed = called(
            buffer.combine, x=world.answers(handle), handle=handle, topk_weights=sent_weights
        )
        same(summed, world.mine.weights)
        cases += 1
    buffer.destroy()
    return cases


def _dispatched(buffer, world, **arguments):
    """Rows, choices, weights and handle of a dispatch of this rank's batch."""
    mine = world.mine
    usual = dict(topk_idx=mine.topk_idx, topk_weights=mine.weights, num_experts=world.experts)
    return buffer.dispatch(**{"x": mine.rows, **usual, **arguments})[:4]


def _round_trip(buffer, world, wanted, **arguments):
    for expand in (False, True):
        handle = _dispatched(buffer, world, do_expand=expand, **arguments)[3]
        same(buffer.combine(world.answers(handle), handle)[0], wanted[expand])


def sums_rounded_once(group):
    world = World(group, [7, 8], 3)
    buffer = _opened(group, world, allow_multiple_reduction=False)
    once, twice = world.sums(2, exact=True), world.sums(2, exact=False)
    assert not torch.equal(once, twice), "another seed"
    for expand, wanted in ((False, twice), (True, once)):
        # Rows of tokens are sums that the caller has rounded.
        handle = _dispatched(buffer, world, do_expand=expand, expert_alignment=4)[3]
        bias = tuple(world.mine.biases)
        sums, weights, _ = buffer.combine(
            world.answers(handle), handle, world.sent_weights(handle), bias=bias
        )
        same(sums, wanted)
        same(weights, world.mine.weights)
    larger = buffer.get_buffer_size_hint(group, 4096, HIDDEN, allow_multiple_reduction=False)
    assert larger > buffer.get_buffer_size_hint(group, 4096, HIDDEN)
    buffer.destroy()
    return True


def nodes(group):
    """Two nodes of two ranks, declared on one host."""
    import deep_ep

    os.environ["EP4J_RANKS_PER_NODE"] = "2"
    try:
        world = World(group, [9, 4, 6, 8], 4)
        hybrid = _opened(group, world)
        direct = _opened(group, world, allow_hybrid_mode=False)
        assert deep_ep.get_physical_domain_size(group) == (2, 2)
        assert deep_ep.get_logical_domain_size(group) == (2, 2)
        assert deep_ep.get_logical_domain_size(group, allow_hybrid_mode=False) == (1, 4)
    finally:
        del os.environ["EP4J_RANKS_PER_NODE"]
    assert deep_ep.get_physical_domain_size(group) == (1, 4)
    assert hybrid.get_physical_domain_size() == direct.get_physical_domain_size() == (2, 2)
    assert hybrid.get_logical_domain_size() == (2, 2)
    assert direct.get_logical_domain_size() == (1, 4)
    place = (hybrid.scaleout_rank_idx, hybrid.scaleup_rank_idx)
    assert place == (world.rank // 2, world.rank % 2)
    assert (direct.scaleout_rank_idx, direct.scaleup_rank_idx) == (0, world.rank)
    one_rounding = world.sums(0, exact=False)
    _round_trip(direct, world, [one_rounding] * 2)
    for expand in (False, True):
        handle = _dispatched(hybrid, world, do_expand=expand)[3]
        sums = hybrid.combine(world.answers(handle), handle)[0]
        assert torch.allclose(sums.float(), one_rounding.float(), rtol=2e-2, atol=2e-2)
        assert not torch.equal(sums, one_rounding), "sums of a node are rounded before they travel"
        from_places = [sum(s % 2 <= place for s, _ in world.tokens) for place in range(2)]
        assert handle.psum_num_recv_tokens_per_scaleup_rank.tolist() == from_places
        places = [source % 2 for source, _ in world.tokens]
        assert (handle.recv_src_metadata[:, 1] // TOP_K).tolist() == places
    hybrid.destroy()
    direct.destroy()
    return True


def packed_rows(group):
    """NVFP4: packed rows, scales and a scale of each token arrive together."""
    from deep_ep.rows import Rows
    from deep_ep.streams import StreamScope

    world = World(group, [5, 7], 14)
    for rank, batch in enumerate(world.batches):
        torch.manual_seed(rank)
        words = lambda *shape: torch.randint(-(2**31), 2**31, shape).int()
        tokens = len(batch.rows)
        packed = words(tokens, HIDDEN // 8), words(tokens, HIDDEN // 64)
        batch.x = lambda _, packed=(*packed, torch.rand(tokens, 1)): packed
    buffer = _opened(group, world)
    for expand, clear in ((False, {}), (True, dict(clear=True))):
        *results, handle = _dispatched(
            buffer,
            world,
            x=world.mine.x(None),
            do_expand=expand,
            do_zero_padding=expand,
            expert_alignment=4,
        )
        check = _check_expanded if expand else _check_rows
        check(world, *results, handle, None, **clear)
        # The same rows from memory in another order are copied on the stream of the operation.
        x, scales, of_tokens = world.mine.x(None)
        x, scales = (part.repeat_interleave(2, 1)[:, ::2] for part in (x, scales))
        order = []
        with _recorded(StreamScope, "__enter__", order), _recorded(Rows, "sendable", order):
            *results, handle = _dispatched(
                buffer, world, x=(x, scales, of_tokens), do_expand=expand, expert_alignment=4
            )
        assert order == ["__enter__", "sendable"], order
        check(world, *results, handle, None, **(dict(clear=False) if expand else {}))
    buffer.destroy()
    return True


def _recorded(kind, name, calls):
    """A context in which each call of a method adds its name to `calls`."""
    method = getattr(kind, name)

    def recorded(*arguments):
        calls.append(name)
        return method(*arguments)

    return mock.patch.object(kind, name, recorded)


def rows_without_a_number(group):
    """A row of NaN concerns its own token alone."""
    world = World(group, [6, 6], 13)
    buffer = _opened(group, world)
    handle = _dispatched(buffer, world, do_expand=True, do_cpu_sync=False, expert_alignment=4)[3]
    y = world.answers(handle)
    y[0] = NAN
    sums = buffer.combine(y, handle)[0]
    # The first row of a rank is that of the first token with its first expert.
    firsts = []
    for rank in range(2):
        sources = [
            (source, token)
            for source, batch in enumerate(world.batches)
            for token, ids in enumerate(batch.topk_idx.tolist())
            if rank * LOCAL in ids
        ]
        firsts.append(sources[0])
    spoilt = [token for source, token in firsts if source == world.rank]
    wanted = world.sums(0, exact=False)
    for token in range(6):
        if token in spoilt:
            assert sums[token].isnan().all()
        else:
            same(sums[token], wanted[token])
    buffer.destroy()
    return True


def few_or_no_tokens(group):
    """No tokens at all; then tokens for the experts of rank 0 alone."""
    world = World(group, [0, 0], 5)
    buffer = _opened(group, world)
    for sync in (True, False):
        empty = torch.empty((0, HIDDEN)).bfloat16()
        for expand in (False, True):
            rows, _, _, handle = _dispatched(buffer, world, do_expand=expand, do_cpu_sync=sync)
            assert rows.shape[0] == (0 if sync else (6 if expand else 2)), rows.shape
            assert handle.psum_num_recv_tokens_per_scaleup_rank.tolist() == [0, 0]
            same(buffer.combine(rows, handle)[0], empty)
    world = World(group, [1, 1], 6)
    for batch in world.batches:
        batch.topk_idx[:] = torch.tensor([0, -1, 2])
    world.tokens = [(0, 0), (1, 0)] if world.rank == 0 else []
    for expand in (False, True):
        rows, _, weights, handle = _dispatched(buffer, world, do_expand=expand)
        count = (4 if expand else 2) if world.rank == 0 else 0
        assert rows.shape[0] == weights.shape[0] == count
        sums, back, _ = buffer.combine(rows, handle, weights)
        same(sums, (world.mine.rows.float() * 2).bfloat16() if expand else world.mine.rows)
        same(back, world.mine.weights.masked_fill(world.mine.topk_idx < 0, 0))
        # The counts of known routes are known: a rank that receives nothing does not wait for them either.
        opened = buffer._shapes.all("throughput")[0]
        with mock.patch.object(opened, "dispatch", wraps=opened.dispatch) as dispatch:
            rows, _, weights, _, _ = buffer.dispatch(
                world.mine.rows, topk_weights=world.mine.weights, handle=handle, do_expand=expand
            )
        assert dispatch.call_args[1]["max_rows"] == (2 if world.rank == 0 else 1)
        assert rows.shape[0] == weights.shape[0] == count
    buffer.destroy()
    return True


def larger_batches(group):
    """A dispatch may name more tokens than the constructor, and fewer."""
    import ep4j

    small, large = World(group, [3, 2], 7), World(group, [9, 21], 8)
    buffer = _opened(group, small)
    sums = [world.sums(0, exact=False) for world in (small, large)]
    first = _dispatched(buffer, small)[3]
    handles = []
    for world, most in ((large, 32), (small, 3), (large, 21), (large, 33)):
        handle = _dispatched(buffer, world, num_max_tokens_per_rank=most, do_cpu_sync=False)[3]
        assert handle.num_max_tokens_per_rank == most
        handles.append((world, handle))
    # The constructor's 4, then 32, then twice that.
    opened = [b.config.max_tokens for b in buffer._shapes.all("throughput")]
    assert opened == [4, 32, 64], opened
    for world, handle in ((small, first), *handles):
        # Members that nobody has read before are those of their own dispatch.
        _check_members(world, handle, sync=handle is first)
        same(buffer.combine(world.answers(handle), handle)[0], sums[world is large])
    # A rank that names fewer tokens than come to it.
    most = len(large.mine.rows) if group.rank() == 0 else large.most
    try:
        _dispatched(buffer, large, num_max_tokens_per_rank=most, do_cpu_sync=False)
    except ep4j.Overflow as error:
        assert error.code == 4001 and "the same number on all ranks" in str(error), error
        overflowed = True
    else:
        overflowed = False
    _round_trip(buffer, small, [sums[0]] * 2)
    buffer.destroy()
    return overflowed


def kept_tensors(group):
    """Operations along a handle keep its tensors for the communication stream, on which they read them."""
    from deep_ep.streams import StreamScope

    world = World(group, [5, 6], 15)
    buffer = _opened(group, world)
    for expand in (False, True):
        handle = _dispatched(buffer, world, do_expand=expand)[3]
        held = {id(one) for one in handle.tensors()}
        assert len(held) >= (6 if expand else 4), len(held)
        with mock.patch.object(StreamScope, "keep") as keep:
            buffer.dispatch(world.mine.rows, handle=handle, do_expand=expand)
            buffer.combine(world.answers(handle), handle)
        for call in keep.call_args_list:
            assert held <= {id(one) for one in call[0][0]}
        assert keep.call_count == 2
    buffer.destroy()
    return True


MEMBERS = (
    "num_unaligned_recv_tokens_per_expert psum_num_recv_tokens_per_expert psum_num_recv_tokens_per_scaleup_rank"
    " recv_src_metadata dst_buffer_slot_idx"
).split()


def members_wait_for_their_dispatch(group):
    """A member lets the current stream wait for its dispatch before it is computed."""
    from deep_ep.event import EventHandle

    waits = EventHandle.current_stream_wait
    world = World(group, [5, 6], 16)
    buffer = _opened(group, world)
    for asynchronous in (True, False):
        handle = _dispatched(buffer, world, async_with_compute_stream=asynchronous)[3]
        # A cached dispatch computes nothing that the handle has.
        buffer.dispatch(world.mine.rows, handle=handle, async_with_compute_stream=True)
        for member in MEMBERS:
            for again in (False, True):
                with mock.patch.object(
                    EventHandle, "current_stream_wait", autospec=True, side_effect=waits
                ) as wait:
                    getattr(handle, member)
                waited = [call[0][0] for call in wait.call_args_list]
                assert bool(waited) == (asynchronous and not again), (member, waited)
                assert all(event is handle.dispatched for event in waited)
        _check_members(world, handle, sync=True)
    buffer.destroy()
    return True


def a_growth_that_fails(group):
    """A dispatch for more tokens than memory takes is refused on all ranks; the buffer stays as it was."""
    import ep4j

    world = World(group, [5, 6], 17)
    buffer = _opened(group, world)
    wanted = [world.sums(0, exact=False)] * 2
    _round_trip(buffer, world, wanted)
    try:
        _dispatched(buffer, world, num_max_tokens_per_rank=1 << 40)
    except ep4j.Error as error:
        refused = error.code
    _round_trip(buffer, world, wanted)
    buffer.destroy()
    return refused


def statistics(group):
    world = World(group, [5, 6], 9)
    buffer = _opened(group, world)
    stats = torch.tensor([100, 200, 300], dtype=torch.int32)
    name = "cumulative_local_expert_recv_stats"
    for expand, sync in itertools.product((False, True), (False, True)):
        handle = _dispatched(buffer, world, do_expand=expand, do_cpu_sync=sync, **{name: stats})[3]
        # A dispatch along known routes counts nothing.
        buffer.dispatch(world.mine.rows, handle=handle, do_expand=expand, **{name: stats})
    assert stats.tolist() == [(i + 1) * 100 + 4 * c for i, c in enumerate(world.counts)]
    buffer.destroy()
    return True


def refusals(group):
    """Each wrong call fails on rank 0 alone; then all ranks exchange batches: so nothing was sent."""
    import deep_ep
    import ep4j

    world = World(group, [5, 6], 10)
    for wrong in (
        dict(num_bytes=-1),
        dict(num_bytes=1, num_max_tokens_per_rank=-1),
        dict(num_bytes=1, num_gpu_timeout_secs=0),
        dict(num_bytes=1, num_cpu_bytes=2 << 20),
        dict(num_max_tokens_per_rank=8),
        dict(hidden=HIDDEN),
    ):
        _refused(ep4j.InvalidArgument, 1000, lambda: deep_ep.ElasticBuffer(group, **wrong))
    buffer = _opened(group, world)
    unsized = deep_ep.ElasticBuffer(group, num_bytes=1 << 28)
    mine, tokens = world.mine, len(world.mine.rows)
    flat, grouped = (_dispatched(buffer, world, do_expand=expand)[3] for expand in (False, True))

    def dispatch(**changes):
        routing = dict(topk_idx=mine.topk_idx, topk_weights=mine.weights, num_experts=world.experts)
        return buffer.dispatch(**{"x": mine.rows, **routing, **changes})

    def along(handle, **changes):
        return buffer.dispatch(**{"x": mine.rows, "handle": handle, **changes})

    def ids(value):
        changed = mine.topk_idx.clone()
        changed[0] = torch.tensor(value)
        return changed

    def with_setting(value, call):
        with mock.patch.dict(os.environ, EP4J_DEEPEP_ZERO_COPY=value):
            call()

    stats = "cumulative_local_expert_recv_stats"
    y = world.answers(grouped)
    calls = [
        (1000, lambda: dispatch(topk_idx=None)),
        (1000, lambda: dispatch(num_experts=None)),
        (1000, lambda: dispatch(num_experts=world.experts + 1)),
        (1400, lambda: dispatch(topk_idx=mine.topk_idx[1:])),
        (1400, lambda: dispatch(topk_idx=mine.topk_idx.view(-1))),
        (1400, lambda: dispatch(x=mine.rows.float())),
        (1400, lambda: dispatch(x=mine.codes)),
        (1408, lambda: dispatch(num_max_tokens_per_rank=tokens - 1)),
        (1000, lambda: dispatch(num_max_tokens_per_rank=0)),
        (1000, lambda: dispatch(expert_alignment=0)),
        (1000, lambda: dispatch(do_zero_padding=True)),
        (1400, lambda: dispatch(**{stats: torch.zeros(LOCAL)})),
        (1400, lambda: dispatch(**{stats: torch.zeros(LOCAL + 1, dtype=torch.int32)})),
        (1400, lambda: dispatch(**{stats: torch.zeros(LOCAL, dtype=torch.int32, device="meta")})),
        (1000, lambda: with_setting("2", dispatch)),
        (1000, lambda: with_setting("2", lambda: along(flat))),
        (1000, lambda: along(flat, topk_idx=mine.topk_idx)),
        (1000, lambda: along(flat, do_cpu_sync=True)),
        (1000, lambda: along(flat, do_expand=True)),
        (1000, lambda: along(grouped)),
        (1000, lambda: along(flat, num_experts=world.experts * 2)),
        (1000, lambda: along(flat, expert_alignment=2)),
        (1000, lambda: along(flat, num_max_tokens_per_rank=world.most + 1)),
        (1400, lambda: along(flat, x=mine.rows[1:])),
        (1424, lambda: along((1, 2))),
        (1424, lambda: buffer.combine(mine.rows, None)),
        (1400, lambda: buffer.combine(y[1:], grouped)),
        (1400, lambda: buffer.combine(world.answers(flat)[1:], flat)),
        (1400, lambda: buffer.combine(y, grouped, torch.zeros(len(y), 1))),
        (1400, lambda: buffer.combine(y, grouped, torch.zeros(len(y) + 1))),
        (1000, lambda: buffer.combine(y, grouped, bias=[mine.biases[0]])),
        (
            1000,
            lambda: unsized.dispatch(mine.rows, mine.topk_idx, num_experts=world.experts),
        ),
        (2303, unsized.destroy),
    ]
    if not ON_GPU:  # GPUs look at ids where they arrive
        calls.append((1415, lambda: dispatch(topk_idx=ids([world.experts, -1, -1]))))
        calls.append((1417, lambda: dispatch(topk_idx=ids([1, 1, -1]))))
    for name in (
        "engram_write engram_fetch pp_set_config pp_send pp_recv create_agrs_session"
        " destroy_agrs_session agrs_set_config agrs_get_inplace_tensor all_gather"
        " get_engram_storage_size_hint get_pp_buffer_size_hint get_agrs_buffer_size_hint"
        " get_agrs_num_max_session_bytes"
    ).split():
        calls.append((1000, lambda name=name: getattr(buffer, name)(mine.rows, x=1)))
        calls.append((1000, lambda name=name: getattr(deep_ep.ElasticBuffer, name)(buffer, 1)))
    calls.append((1000, lambda: buffer.agrs_new_session().__enter__()))
    if world.rank == 0:
        for code, call in calls:
            _refused((ep4j.InvalidArgument, ep4j.InvalidUse), code, call)
        with buffer.agrs_new_session(enabled=False):
            pass
    dist.barrier()
    _round_trip(buffer, world, [world.sums(0, exact=False)] * 2)
    buffer.destroy()
    _refused(ep4j.InvalidUse, 2303, dispatch)
    return len(calls)


def _refused(kinds, code, call):
    try:
        call()
    except kinds as error:
        assert error.code == code, error
        assert str(error).startswith(f"EP4J-{code}: "), error
    else:
        raise AssertionError(f"accepted; EP4J-{code} was expected")


def sizes_and_surroundings(group):
    import warnings

    import deep_ep

    world = World(group, [5, 6], 11)
    buffer = _opened(group, world, num_topk=TOP_K, num_allocated_qps=9)
    assert (buffer.rank_idx, buffer.num_ranks) == (world.rank, 2)
    assert buffer.get_physical_domain_size() == buffer.get_logical_domain_size() == (1, 2)
    assert buffer.num_bytes == buffer.get_buffer_size_hint(group, world.most, HIDDEN, TOP_K)
    assert buffer.num_bytes % (2 << 20) == 0
    assert buffer.get_buffer_size_hint(group, 4096, 7168) > 4096 * 7168 * 2 * 2
    assert buffer.get_theoretical_num_qps(99) == 9 and buffer.get_theoretical_num_qps(3) == 3
    alone = _opened(group, world, prefer_overlap_with_compute=False)
    assert 0 < buffer.get_theoretical_num_sms(8, 2) < alone.get_theoretical_num_sms(8, 2)
    handle = _dispatched(buffer, world, num_sms=6, num_qps=3)[3]
    assert handle.num_sms == 6
    assert _dispatched(alone, world)[3].num_sms == alone.get_theoretical_num_sms(8, 2)

    # A barrier ends on no rank before it has begun on all.
    store = dist.distributed_c10d._get_default_store()
    for round in range(20):
        if world.rank == round % 2:
            time.sleep(0.01)
            store.add(f"elastic {round}", 1)
        buffer.barrier(with_cpu_sync=True)
        assert store.add(f"elastic {round}", 0) == 1

    granted = deep_ep.ElasticBuffer(group, num_bytes=1000, explicitly_destroy=True)
    assert granted.num_bytes == 1000
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _dispatched(granted, world, num_max_tokens_per_rank=8)
    assert [w.category for w in caught] == [RuntimeWarning]
    assert "more than num_bytes = 1000" in str(caught[0].message), caught[0].message
    for one in (buffer, alone, granted):
        one.destroy()
        one.destroy()
    collected = _opened(group, world)
    collected.explicitly_destroy = False
    shapes = collected._shapes
    del collected
    assert shapes._closed
    return True


def a_silent_rank(group):
    """Operations and barriers fail after num_gpu_timeout_secs; the buffer works again after reset."""
    import ep4j

    world = World(group, [5, 6], 12)
    buffer = _opened(group, world, num_gpu_timeout_secs=1)
    wanted = [world.sums(0, exact=False)] * 2
    _round_trip(buffer, world, wanted)
    assert buffer._shapes.all("throughput")[0].config.timeout == 1.0
    if world.rank == 0:
        try:
            _dispatched(buffer, world)
        except ep4j.PeerTimeout as error:
            assert error.rank == 1, error
        else:
            raise AssertionError("a dispatch without the other rank has ended")
    dist.barrier()
    buffer.reset()
    _round_trip(buffer, world, wanted)
    buffer.barrier()
    if world.rank == 0:
        try:
            buffer.barrier()
        except ep4j.GroupTimeout as error:
            assert "rank 1 is missing after 1 s" in str(error), error
        else:
            raise AssertionError("a barrier without the other rank has ended")
    dist.barrier()
    buffer.destroy()
    return True


def _handle(choices, experts, counts=None):
    """The EPHandle of a dispatch with rows of choices, as if this rank had received `choices`; nothing is sent."""
    from deep_ep.elastic_handle import EPHandle, Settings
    from deep_ep.routes import Routes

    tokens = len(choices)
    routes = Routes(None, None, tokens, tokens, tokens, fixed=counts is None)
    settings = Settings(True, experts, 1, tokens, 0)
    one = dict(rank=0, num_ranks=1, num_scaleup_ranks=1)
    return EPHandle(routes, choices, counts, choices, settings, **one)


class ExpansionTest(unittest.TestCase):
    """Rows of choices without a dispatch."""

    def test_an_expert_twice_in_a_row_has_one_row(self):
        # Only GPUs deliver such choices.
        two = [[0, 1, 0], [1, 0, 1]], [2, 2], [[0, 2, -1], [3, 1, -1]]
        three = (
            [[0, 0, 2], [-1, 1, 1], [2, 0, 2], [1, 1, 1], [0, 1, 2]],
            [3, 3, 3],
            [[0, -1, 6], [-1, 3, -1], [7, 1, -1], [4, -1, -1], [2, 5, 8]],
        )
        for choices, counts, places in (two, three):
            choices, places = torch.tensor(choices), torch.tensor(places)
            tokens = torch.arange(len(choices))
            # As many rows as the kernels have counted; then as many as may arrive.
            for known in (counts, None):
                handle = _handle(choices, len(counts), known)
                expansion = handle.expansion
                assert handle.num_unaligned_recv_tokens_per_expert.tolist() == counts
                assert expansion.rows == (sum(counts) if known else len(choices) * len(counts))
                same(expansion.places, places)
                rows = expansion.expanded(tokens.view(-1, 1).float())
                for token, of_token in enumerate(places.tolist()):
                    assert all(rows[place] == token for place in of_token if place >= 0)
                sums = expansion.summed(torch.ones((expansion.rows, 1)), exactly=True)
                same(sums, (places >= 0).sum(1, keepdim=True).float())


    def test_both_ways_to_sum_give_the_same_bits(self):
        torch.manual_seed(18)
        choices = torch.rand(300, 12).argsort(1)[:, :8]
        choices[torch.rand(choices.shape) < 0.4] = -1
        choices[:, 0] = torch.arange(300) % 12  # Each token has a row.
        choices[:, 1:].masked_fill_(choices[:, 1:] == choices[:, :1], -1)
        expansion = _handle(choices, 12).expansion
        rows = torch.full((expansion.rows, 40), NAN)
        valid = expansion.places[expansion.places >= 0]
        # Exponents so far apart that the order of a sum counts.
        values = torch.randn(len(valid), 40) * 2.0 ** torch.randint(-15, 15, (len(valid), 40))
        rows[valid] = values.bfloat16().float()
        same(expansion.added(rows.bfloat16()), expansion.bagged(rows))
        same(expansion.summed(rows.bfloat16(), exactly=True), expansion.bagged(rows))
        same(expansion.summed(rows.bfloat16(), exactly=False), expansion.bagged(rows).bfloat16())
        added = expansion.added(rows)
        expansion.places = expansion.places.flip(1)
        assert not torch.equal(expansion.added(rows), added), "another seed"
        rows[expansion.places[7].max()] = float("inf")
        assert (expansion.added(rows)[7] == float("inf")).all()


class RowsTest(unittest.TestCase):
    def test_a_check_copies_nothing(self):
        from deep_ep.rows import rows_of

        wide = torch.arange(4 * 64).view(4, 64).int()
        x, scales, of_tokens = wide[:, :16:2], wide[:, 1:5:2], torch.rand(4, 2)[:, :1]
        rows = rows_of((x, scales, of_tokens))
        assert rows.x is x and rows.scales is scales and rows.token_scales is of_tokens
        sent = rows.sendable()
        same(sent.x, as_bytes(x).view(4, 32))
        same(sent.scales, scales)
        assert sent.x.is_contiguous() and sent.scales.is_contiguous()
        assert (sent.hidden, sent.packing) == (64, torch.int32)
        by_columns = scales.t().contiguous().t()
        assert rows_of((x, by_columns, of_tokens)).sendable().scales is by_columns


class ElasticTest(unittest.TestCase):
    def test_two_ranks_dispatch_and_combine_in_both_forms(self):
        self.assertEqual(deep_ep_ranks.run(2, both_forms, [6, 9], 1), [16] * 2)

    def test_four_ranks_one_of_them_without_tokens(self):
        self.assertEqual(deep_ep_ranks.run(4, both_forms, [7, 0, 5, 9], 2), [16] * 4)

    def test_sums_are_rounded_once_on_request(self):
        self.assertEqual(deep_ep_ranks.run(2, sums_rounded_once), [True] * 2)

    def test_packed_rows_travel_with_their_scales(self):
        self.assertEqual(deep_ep_ranks.run(2, packed_rows), [True] * 2)

    def test_a_row_without_a_number_spoils_its_token_alone(self):
        self.assertEqual(deep_ep_ranks.run(2, rows_without_a_number), [True] * 2)

    def test_two_nodes(self):
        self.assertEqual(deep_ep_ranks.run(4, nodes), [True] * 4)

    def test_ranks_without_tokens_or_rows(self):
        self.assertEqual(deep_ep_ranks.run(2, few_or_no_tokens), [True] * 2)

    def test_a_dispatch_names_its_largest_batch(self):
        # A GPU that does not wait for the counts finds no overflow.
        self.assertEqual(deep_ep_ranks.run(2, larger_batches), [not ON_GPU, False])

    def test_tensors_of_a_handle_are_kept_for_its_operations(self):
        self.assertEqual(deep_ep_ranks.run(2, kept_tensors), [True] * 2)

    def test_members_wait_for_an_asynchronous_dispatch(self):
        self.assertEqual(deep_ep_ranks.run(2, members_wait_for_their_dispatch), [True] * 2)

    def test_a_growth_that_fails_changes_nothing(self):
        self.assertEqual(deep_ep_ranks.run(2, a_growth_that_fails), [1042] * 2)

    def test_tokens_of_experts_are_added_up(self):
        self.assertEqual(deep_ep_ranks.run(2, statistics), [True] * 2)

    def test_wrong_calls_send_nothing(self):
        self.assertEqual(deep_ep_ranks.run(2, refusals), [62 if ON_GPU else 64] * 2)

    def test_sizes_domains_and_barrier(self):
        self.assertEqual(deep_ep_ranks.run(2, sizes_and_surroundings), [True] * 2)

    def test_a_silent_rank_is_named_in_time(self):
        self.assertEqual(deep_ep_ranks.run(2, a_silent_rank), [True] * 2)


if __name__ == "__main__":
    unittest.main()
