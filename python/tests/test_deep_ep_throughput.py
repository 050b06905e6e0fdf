"""High-throughput operations of deep_ep: the assertions of DeepEP's test_intranode and test_internode, on CPU
tensors."""

import os
import unittest
from unittest import mock

import torch
import torch.distributed as dist

import deep_ep_ranks
from deep_ep_ranks import ON_GPU
from deep_ep.utils.math import (
    calc_diff,
    hash_tensors,
    per_token_cast_back,
    per_token_cast_to_fp8,
)

HIDDEN, TOP_K = 256, 4


def _grouped(scores, nodes):
    """The scores of all experts but those of the two nodes with the best ones are 0."""
    of_nodes = scores.view(len(scores), nodes, -1)
    best = of_nodes.amax(2).topk(min(nodes, 2), dim=1)[1]
    kept = torch.zeros(len(scores), nodes, 1).scatter_(1, best.unsqueeze(2), 1.0)
    return (of_nodes * kept).view(scores.shape)


class _Case:
    """Routing of one batch, and what every rank must receive."""

    def __init__(self, group, tokens, experts, seed, nodes=1):
        rank, ranks = group.rank(), group.size()
        torch.manual_seed(seed + rank)
        self.rank, self.ranks, self.tokens, self.experts = rank, ranks, tokens, experts
        self.nodes = nodes
        self.local = experts // ranks
        self.topk_idx = torch.topk(_grouped(torch.rand(tokens, experts), nodes), TOP_K, dim=1)[1]
        self.topk_idx[torch.rand(tokens, TOP_K) < 0.1] = -1
        owner = torch.where(self.topk_idx < 0, -1, self.topk_idx // self.local)
        self.in_rank = torch.stack([(owner == r).any(1) for r in range(ranks)], dim=1)
        self.per_rank = self.in_rank.sum(0).int()
        self.on_nodes = self.in_rank.view(tokens, nodes, -1).any(2)
        self.per_node = self.on_nodes.sum(0).int() if nodes > 1 else None
        self.per_expert = torch.stack([(self.topk_idx == e).sum() for e in range(experts)]).int()
        self.all_per_rank, self.all_per_expert = self.per_rank.clone(), self.per_expert.clone()
        dist.all_reduce(self.all_per_rank)
        dist.all_reduce(self.all_per_expert)
        self.sources = [torch.empty(self.in_rank.shape, dtype=torch.uint8) for _ in range(ranks)]
        dist.all_gather(self.sources, self.in_rank.byte())

    def rows_from(self, source):
        """Tokens of a source that come to this rank, ascending."""
        return self.sources[source][:, self.rank].nonzero().view(-1)


def _opened(group, nodes):
    """A buffer of the group, whose ranks count as ranks of so many nodes."""
    import deep_ep

    if nodes == 1:
        return deep_ep.Buffer(group, int(1e9), 0, explicitly_destroy=True)
    with mock.patch.dict(os.environ, EP4J_RANKS_PER_NODE=str(group.size() // nodes)):
        return deep_ep.Buffer(group, int(1e9), int(1e9), explicitly_destroy=True)


def throughput(group, tokens, experts, seed, nodes=1):
    import deep_ep

    buffer = _opened(group, nodes)
    case = _Case(group, tokens, experts, seed, nodes)
    rank, ranks = case.rank, case.ranks
    layout = buffer.get_dispatch_layout(case.topk_idx, experts)
    assert torch.equal(layout[0], case.per_rank)
    assert layout[1] is None if nodes == 1 else torch.equal(layout[1], case.per_node)
    assert torch.equal(layout[2], case.per_expert) and torch.equal(layout[3], case.in_rank)
    config = deep_ep.Config(deep_ep_ranks.sms(ranks, 24), 8, 256)
    sms = deep_ep_ranks.sms(ranks, deep_ep.Buffer.num_sms)
    deep_ep.Buffer.set_num_sms(sms)  # where no config is passed

    constant = torch.full((tokens, HIDDEN), float(rank)).bfloat16()
    random = torch.randn(tokens, HIDDEN).bfloat16()
    codes, scales = per_token_cast_to_fp8(constant)
    by_columns = (codes, scales.t().contiguous().t())
    rounded = per_token_cast_to_fp8(random)
    constant_weights = torch.full((tokens, TOP_K), float(rank))
    random_weights = torch.randn(tokens, TOP_K)
    cases = 0

    def ends_of(handle):
        """Where the rows of each source end."""
        return handle[0][:, rank].tolist() if nodes == 1 else handle[-4].tolist()

    def check_constant(rows, ends):
        begin = 0
        for source, end in enumerate(ends):
            assert (rows[begin:end].float() == source).all(), (source, begin, end)
            begin = end
        assert begin == rows.shape[0]

    for previous in (False, True):
        for asynchronous in (False, True):
            for x in (random, constant, by_columns, rounded):
                for with_top_k in (False, True):
                    cases += 1

                    def extra(**more):
                        if previous:
                            more["previous_event"] = buffer.capture()
                        return dict(config=config, async_finish=asynchronous, **more)

                    is_random = x is random or x is rounded
                    weights = random_weights if is_random else constant_weights
                    routing = (
                        dict(topk_idx=case.topk_idx, topk_weights=weights) if with_top_k else {}
                    )
                    sent = dict(
                        x=x,
                        num_tokens_per_rank=case.per_rank,
                        num_tokens_per_rdma_rank=case.per_node,
                        is_token_in_rank=case.in_rank,
                        num_tokens_per_expert=case.per_expert,
                        **routing,
                    )
                    received, ids, recv_weights, counts, handle, event = buffer.dispatch(
                        **extra(**sent)
                    )
                    event.current_stream_wait() if asynchronous else None
                    as_given = received
                    rows = (
                        per_token_cast_back(*received) if isinstance(received, tuple) else received
                    )
                    ends = ends_of(handle)
                    assert rows.shape[0] == int(case.all_per_rank[rank])
                    assert counts == case.all_per_expert.view(ranks, -1)[rank].tolist(), counts
                    if not is_random:
                        check_constant(rows, ends)
                    _check_members(case, handle, ends)
                    if x is by_columns:
                        assert received[0].dtype == codes.dtype and received[1].is_contiguous()
                    if with_top_k:
                        assert ((ids == -1) | ((ids >= 0) & (ids < case.local))).all()
                        assert [int((ids == e).sum()) for e in range(case.local)] == counts
                        assert (recv_weights[ids == -1] == 0).all()
                        if not is_random:
                            filled = torch.where(
                                ids == -1, recv_weights.amax(1, keepdim=True), recv_weights
                            )
                            check_constant(filled, ends)
                        for worst in (tokens * ranks, tokens * ranks + 1024 * ranks):
                            more = buffer.dispatch(**extra(**sent, num_worst_tokens=worst))
                            more[5].current_stream_wait() if asynchronous else None
                            wide = (
                                per_token_cast_back(*more[0])
                                if isinstance(more[0], tuple)
                                else more[0]
                            )
                            n = rows.shape[0]
                            assert more[3] == [] and wide.shape[0] == worst
                            assert more[1].shape[0] == more[2].shape[0] == worst
                            assert torch.equal(wide[:n], rows) and torch.equal(more[1][:n], ids)
                            assert (
                                torch.equal(more[2][:n], recv_weights) and (more[1][n:] == -1).all()
                            )
                            assert ends_of(more[4]) == ends
                            if x is random:
                                summed, _, _ = buffer.combine(wide, more[4])
                                alone, _, _ = buffer.combine(rows, handle)
                                assert torch.equal(summed, alone)
                    else:
                        again = buffer.dispatch(**extra(x=x, handle=handle))
                        again[5].current_stream_wait() if asynchronous else None
                        assert again[1:5] == (None, None, None, None)
                        flat = again[0] if isinstance(again[0], tuple) else (again[0],)
                        first = as_given if isinstance(as_given, tuple) else (as_given,)
                        assert all(torch.equal(a, b) for a, b in zip(flat, first))
                    given = dict(topk_weights=recv_weights) if with_top_k else {}
                    summed, sum_weights, event = buffer.combine(rows, handle, **extra(**given))
                    event.current_stream_wait() if asynchronous else None
                    copies = case.in_rank.sum(1, keepdim=True)
                    wanted = (
                        per_token_cast_back(*rounded)
                        if x is rounded
                        else random if x is random else constant
                    )
                    reached = copies.view(-1) > 0
                    assert (
                        calc_diff((summed.float() / copies.clamp(min=1))[reached], wanted[reached])
                        < 5e-6
                    )
                    assert (summed[~reached] == 0).all()
                    if with_top_k:
                        chosen = case.topk_idx >= 0
                        assert torch.equal(sum_weights[chosen], weights[chosen])
                        assert (sum_weights[~chosen] == 0).all()
    assert cases == 32
    _biases_and_alignment(buffer, case, random)
    _handle_built_again(buffer, case, random)
    _nvfp4(buffer, case)
    _repeated(buffer, case, random)
    buffer.destroy()
    return cases


def _positions(chosen):
    """Number of each token among those of its column that are chosen, or -1."""
    positions = torch.full(chosen.shape, -1, dtype=torch.int32)
    for column in range(chosen.shape[1]):
        tokens = chosen[:, column].nonzero().view(-1)
        positions[tokens, column] = torch.arange(len(tokens), dtype=torch.int32)
    return positions


def _check_members(case, handle, ends):
    """The members of a handle, except where the rows of the sources end: rows of constants tell that."""
    if case.nodes > 1:
        assert len(handle) == 10 and torch.equal(handle[0], case.in_rank)
        assert handle[7].shape == (ends[-1], 8)
        assert torch.equal(handle[8], _positions(case.on_nodes))
        return
    begin = 0
    for source, end in enumerate(ends):
        assert torch.equal(handle[3][begin:end].long(), case.rows_from(source))
        begin = end
    assert len(handle) == 6
    assert torch.equal(handle[1], case.per_rank.view(case.ranks, 1))
    assert handle[2].shape == (case.ranks, 1) and not handle[2].any()
    assert torch.equal(handle[4], case.in_rank)
    assert torch.equal(handle[5], _positions(case.in_rank))


def _biases_and_alignment(buffer, case, x):
    sent = (
        case.per_rank,
        case.per_node,
        case.in_rank,
        case.per_expert,
        case.topk_idx,
        torch.rand(case.tokens, TOP_K),
    )
    rows, ids, _, counts, handle, _ = buffer.dispatch(x, None, *sent, expert_alignment=32)
    narrow = (*sent[:4], case.topk_idx.int(), sent[5])
    _, narrow_ids, _, _, _, _ = buffer.dispatch(x, None, *narrow)
    assert (ids.dtype, narrow_ids.dtype) == (torch.int64, torch.int32)
    assert torch.equal(narrow_ids.long(), ids)
    true = case.all_per_expert.view(case.ranks, -1)[case.rank].tolist()
    assert counts == [-(-count // 32) * 32 for count in true]
    plain, _, _ = buffer.combine(rows, handle)
    one, two = torch.randn_like(x), torch.randn_like(x)
    copies = case.in_rank.sum(1, keepdim=True)
    with_one, _, _ = buffer.combine(rows, handle, bias=one)
    with_two, _, _ = buffer.combine(rows, handle, bias=(one, two))
    assert torch.allclose(with_one.float(), one.float() + copies * x.float(), rtol=1e-2, atol=1e-5)
    assert torch.allclose(
        with_two.float(), one.float() + two.float() + copies * x.float(), rtol=1e-2, atol=2e-2
    )
    assert not torch.equal(plain, with_one)


def _handle_built_again(buffer, case, x):
    sent = (
        case.per_rank,
        case.per_node,
        case.in_rank,
        case.per_expert,
        case.topk_idx,
        torch.rand(case.tokens, TOP_K),
    )
    rows, _, _, _, handle, _ = buffer.dispatch(x, None, *sent)
    kept = rows.clone()
    first, *rest = handle
    copy = (first, *rest)
    del handle
    other, _, _, _, _, _ = buffer.dispatch(torch.zeros_like(x), None, *sent)
    assert torch.equal(rows, kept), "results belong to the caller"
    assert len(copy) == (6 if case.nodes == 1 else 10) and isinstance(copy, tuple)
    summed, _, _ = buffer.combine(rows, copy)
    copies = case.in_rank.sum(1, keepdim=True)
    assert torch.allclose(summed.float(), copies * x.float(), rtol=1e-2, atol=1e-5)


def _repeated(buffer, case, x):
    """The same batch has the same bits, whatever the timing."""
    sent = (case.per_rank, case.per_node, case.in_rank, case.per_expert)
    first = None
    for _ in range(20):
        rows, _, _, _, handle, _ = buffer.dispatch(x, None, *sent)
        bits = hash_tensors(rows, buffer.combine(rows, handle)[0])
        first = bits if first is None else first
        assert bits == first


def _nvfp4(buffer, case):
    """Packed rows, scales and token scales arrive bit by bit, first along new routes, then along known ones."""
    words = lambda *shape: torch.randint(-(2**31), 2**31, shape, dtype=torch.int64).to(torch.int32)
    sent = (
        words(case.tokens, HIDDEN // 8),
        words(case.tokens, HIDDEN // 64),
        torch.rand(case.tokens, 1),
    )
    layout = (case.per_rank, case.per_node, case.in_rank, case.per_expert)
    received, ids, weights, counts, handle, _ = buffer.dispatch(sent, None, *layout)
    again = buffer.dispatch(sent, handle)[0]
    for part, mine, second in zip(sent, received, again):
        everyone = [torch.empty_like(part) for _ in range(case.ranks)]
        dist.all_gather(everyone, part)
        wanted = torch.cat(
            [everyone[source][case.rows_from(source)] for source in range(case.ranks)]
        )
        assert (
            mine.dtype == part.dtype and torch.equal(mine, wanted) and torch.equal(second, wanted)
        )


def declared_nodes(group):
    """Without NVLink every rank is a node: the handle has DeepEP's ten members."""
    import deep_ep

    buffer = deep_ep.Buffer(group, 1 << 28, 1 << 28, allow_nvlink_for_normal_mode=False)
    case = _Case(group, 20, 8, 5)
    rank, ranks = case.rank, case.ranks
    x = torch.randn(case.tokens, HIDDEN).bfloat16()
    layout = buffer.get_dispatch_layout(case.topk_idx, case.experts)
    assert torch.equal(layout[1], case.per_rank), "a token for a node is one for its rank"
    sent = (*layout[:2], layout[3], layout[2], case.topk_idx, torch.rand(case.tokens, TOP_K))
    rows, _, _, _, handle, _ = buffer.dispatch(x, None, *sent)
    assert len(handle) == 10 and torch.equal(handle[0], case.in_rank)
    ends = torch.stack(
        [case.rows_from(s).new_tensor(len(case.rows_from(s))) for s in range(ranks)]
    ).cumsum(0)
    assert torch.equal(handle[4].long(), ends) and torch.equal(handle[-4].long(), ends)
    assert handle[1].view(-1).tolist() == handle[2].view(-1).tolist() == case.per_rank.tolist()
    assert handle[7].shape == (rows.shape[0], 8)
    assert torch.equal(handle[8], _positions(case.in_rank))
    begin = 0
    for source in range(ranks):
        everyone = [torch.empty(x.shape) for _ in range(ranks)]
        dist.all_gather(everyone, x.float())
        wanted = everyone[source][case.rows_from(source)]
        assert torch.equal(rows[begin : begin + len(wanted)].float(), wanted)
        begin += len(wanted)
    sums, _, _ = buffer.combine(rows, handle)
    assert torch.allclose(
        sums.float(), x.float() * case.in_rank.sum(1, keepdim=True), rtol=1e-2, atol=1e-5
    )
    _two_handles_of_one_layout(buffer, case, sent)
    assert buffer.runtime.get_num_rdma_ranks() == 1, "the ranks are on one host"
    os.environ["EP4J_RANKS_PER_NODE"] = "2"
    try:
        buffer = deep_ep.Buffer(group, 1 << 28, 1 << 28)
    finally:
        del os.environ["EP4J_RANKS_PER_NODE"]
    assert buffer.runtime.get_num_rdma_ranks() == 2 and buffer.runtime.get_rdma_rank() == rank // 2
    assert buffer.runtime.get_root_rdma_rank(True) == rank % 2
    layout = buffer.get_dispatch_layout(case.topk_idx, case.experts)
    on_nodes = case.in_rank.view(case.tokens, 2, 2).any(2)
    assert layout[1].tolist() == on_nodes.sum(0).tolist()
    sent = (*layout[:2], layout[3], layout[2], case.topk_idx, torch.rand(case.tokens, TOP_K))
    received, _, _, _, handle, _ = buffer.dispatch(x, None, *sent)
    assert torch.equal(received, rows) and torch.equal(handle[8], _positions(on_nodes))
    assert torch.equal(handle[4].long(), ends[1::2]) and torch.equal(handle[-4].long(), ends)
    sums, _, _ = buffer.combine(received, handle)
    assert torch.allclose(
        sums.float(), x.float() * case.in_rank.sum(1, keepdim=True), rtol=2e-2, atol=1e-5
    )
    return True


def _two_handles_of_one_layout(buffer, case, sent):
    """Rows of two sizes along one layout: a handle that is built again leads to its own dispatch."""
    copies = case.in_rank.sum(1, keepdim=True)
    pairs = []
    for hidden in (HIDDEN, HIDDEN // 2):
        x = torch.randn(case.tokens, hidden).bfloat16()
        rows, _, _, _, handle, _ = buffer.dispatch(x, None, *sent)
        pairs.append((x, rows, tuple(member for member in handle)))
    for x, rows, handle in pairs:
        sums, _, _ = buffer.combine(rows, handle)
        assert torch.allclose(sums.float(), x.float() * copies, rtol=1e-2, atol=1e-5)


class _Communicator:
    """The three methods of an mpi4py communicator that Buffer calls, over torch.distributed."""

    def Get_rank(self):
        return dist.get_rank()

    def Get_size(self):
        return dist.get_world_size()

    def allgather(self, value):
        values = [None] * dist.get_world_size()
        dist.all_gather_object(values, value)
        return values


def memory(group):
    """A communicator in place of a group; a shape beyond the granted memory is a warning; views on request."""
    import warnings

    import deep_ep

    case = _Case(group, 12, 8, 6)
    x = torch.randn(case.tokens, HIDDEN).bfloat16()
    sent = (
        case.per_rank,
        case.per_node,
        case.in_rank,
        case.per_expert,
        case.topk_idx,
        torch.rand(case.tokens, TOP_K),
    )
    largest = os.environ.pop("EP4J_MAX_TOKENS")
    try:
        buffer = deep_ep.Buffer(None, 1024, comm=_Communicator(), explicitly_destroy=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows, _, _, _, handle, _ = buffer.dispatch(x, None, *sent)
        assert [w.category for w in caught] == [RuntimeWarning]
        used = buffer._shapes._used
        assert f"{used} bytes" in str(caught[0].message)
        assert f"{used - 1024} more than num_nvl_bytes" in str(caught[0].message)
        # Memory for the batch of 12 alone.
        assert buffer._shapes.all("throughput")[0].config.max_tokens == 12
        os.environ["EP4J_DEEPEP_ZERO_COPY"] = "1"
        view, _, _, _, second, _ = buffer.dispatch(x, None, *sent)
        assert torch.equal(view, rows)
        buffer.dispatch(torch.zeros_like(x), None, *sent)
        assert (view == 0).all(), "a view shows the next dispatch"
        buffer.destroy()
        del os.environ["EP4J_DEEPEP_ZERO_COPY"]
        ample = deep_ep.Buffer(group, 1 << 28)
        ample.dispatch(x, None, *sent)
        assert ample._shapes.all("throughput")[0].config.max_tokens == 4096
        # A second shape takes what the first has left.
        both = deep_ep.Buffer(group, ample._shapes._used * 3 // 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            both.dispatch(x, None, *sent)
            both.dispatch(x[:, : HIDDEN - 8].contiguous(), None, *sent)
        taken = [one.config.max_tokens for one in both._shapes.all("throughput")]
        assert taken[0] == 4096 and taken[1] in (1024, 2048), taken
    finally:
        os.environ.pop("EP4J_DEEPEP_ZERO_COPY", None)
        os.environ["EP4J_MAX_TOKENS"] = largest
    return True


class LayoutTest(unittest.TestCase):
    def test_counts_are_those_of_each_token_by_itself(self):
        from deep_ep.layout import LayoutCounter

        torch.manual_seed(4)
        nodes = [7, 7, 3, 9]
        counter = LayoutCounter(nodes)
        for dtype in (torch.int64, torch.int32):
            for tokens in (0, 1, 37):
                ids = torch.rand(tokens, 24).topk(5, dim=1)[1].to(dtype)
                ids[torch.rand(tokens, 5) < 0.3] = -1
                ids[torch.rand(tokens, 5) < 0.1] = 24  # no expert either: the dispatch refuses it
                rows = [{e for e in row if 0 <= e < 24} for row in ids.tolist()]
                ranks = [[any(e // 6 == r for e in row) for r in range(4)] for row in rows]
                hosts = [{nodes[e // 6] for e in row} for row in rows]
                counts = counter.count(ids, 24)
                self.assertEqual(
                    counts.per_expert.tolist(), [sum(e in row for row in rows) for e in range(24)]
                )
                self.assertEqual(
                    counts.per_rank.tolist(), [sum(row[r] for row in ranks) for r in range(4)]
                )
                self.assertEqual(
                    counts.per_node.tolist(), [sum(n in row for row in hosts) for n in (7, 3, 9)]
                )
                self.assertEqual(counts.in_rank.tolist(), ranks)
                self.assertEqual(
                    [part.dtype for part in counts], [torch.int32] * 3 + [torch.bool]
                )
        self.assertIsNone(LayoutCounter([0, 0]).count(ids, 24).per_node)
        counter.close()


class ThroughputTest(unittest.TestCase):
    def test_two_ranks_pass_the_cases_of_test_intranode(self):
        self.assertEqual(deep_ep_ranks.run(2, throughput, 48, 8, 1), [32] * 2)

    def test_four_ranks_pass_the_cases_of_test_intranode(self):
        self.assertEqual(deep_ep_ranks.run(4, throughput, 31, 16, 2), [32] * 4)

    def test_two_nodes_of_two_ranks_pass_the_cases_of_test_internode(self):
        self.assertEqual(deep_ep_ranks.run(4, throughput, 31, 16, 7, 2), [32] * 4)

    def test_ranks_without_nvlink_are_nodes(self):
        self.assertEqual(deep_ep_ranks.run(4, declared_nodes), [True] * 4)

    def test_memory_follows_the_grant(self):
        self.assertEqual(deep_ep_ranks.run(2, memory), [True] * 2)

    def test_eight_ranks_pass_the_cases_of_test_intranode(self):
        self.assertEqual(deep_ep_ranks.run(8, throughput, 6, 16, 3), [32] * 8)

    @unittest.skipIf(ON_GPU, "eight processes share few GPUs: see the other tests")
    def test_four_nodes_of_two_ranks_pass_the_cases_of_test_internode(self):
        self.assertEqual(deep_ep_ranks.run(8, throughput, 6, 16, 8, 4), [32] * 8)


if __name__ == "__main__":
    unittest.main()
