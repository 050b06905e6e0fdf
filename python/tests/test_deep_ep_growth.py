"""Buffers of deep_ep grow with their batches: every result is that of one buffer large enough, on CPU tensors."""

import os
import unittest
import warnings

import torch
import torch.distributed as dist

import deep_ep_ranks
from deep_ep_ranks import ON_GPU

HIDDEN, TOP_K, LOCAL = 128, 3, 2
M = 8  # of low latency




def gathered(value):
    """A value of each rank."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def gathered_tensors(tensors):
    """Tensors of each rank, on the device of this one."""
    default = torch.empty(0).device
    every = gathered([tensor.cpu() for tensor in tensors])
    return [[tensor.to(default) for tensor in of_rank] for of_rank in every]


class _Step:
    """A batch of this rank, those of the others, and what comes back."""

    def __init__(self, buffer, rank, tokens, experts):
        self.rank, self.tokens = rank, tokens
        self.x = torch.randn(tokens, HIDDEN).bfloat16()
        self.ids = torch.rand(tokens, experts).topk(TOP_K, dim=1)[1]
        self.ids[torch.rand(tokens, TOP_K) < 0.2] = -1
        self.weights = torch.rand(tokens, TOP_K)
        layout = buffer.get_dispatch_layout(self.ids, experts)
        self.layout = dict(
            num_tokens_per_rank=layout[0],
            num_tokens_per_rdma_rank=layout[1],
            num_tokens_per_expert=layout[2],
            is_token_in_rank=layout[3],
        )
        self.all = gathered_tensors((self.x, self.ids, self.weights, layout[3], layout[2]))

    def received(self, member):
        return torch.cat([of_rank[member][of_rank[3][:, self.rank]] for of_rank in self.all])

    def counts(self):
        totals = sum(of_rank[4] for of_rank in self.all)
        return totals.view(len(self.all), -1)[self.rank].tolist()

    def check_combine(self, buffer, rows, handle, **options):
        sums, _, event = buffer.combine(rows, handle, **options)
        event.current_stream_wait()
        copies = self.layout["is_token_in_rank"].sum(1, keepdim=True)
        assert torch.equal(sums, (self.x.float() * copies).bfloat16())


def growth(group, seed):
    """Batches of random size: in some steps one rank needs a larger buffer, in others several do."""
    import deep_ep

    rank, ranks = group.rank(), group.size()
    experts = LOCAL * ranks
    largest = os.environ.pop("EP4J_MAX_TOKENS")
    common = torch.Generator().manual_seed(seed)  # on the CPU
    torch.manual_seed(seed + 100 * rank)
    deep_ep.Buffer.set_num_sms(deep_ep_ranks.sms(ranks, deep_ep.Buffer.num_sms))
    try:
        # One byte is granted: a buffer takes the largest batch of its first call and no more.
        buffer = deep_ep.Buffer(group, 1, explicitly_destroy=True)
        kept, opened = [], []
        for number in range(12):
            bound = 8 << (number // 3)
            sizes = torch.randint(0, bound, (ranks,), generator=common, device="cpu")
            kind = number % 4
            step = _Step(buffer, rank, int(sizes[rank]), experts)
            asynchronous = number % 2 == 1
            options = dict(async_finish=asynchronous)
            if kind == 1:
                options["previous_event"] = buffer.capture()
            if kind != 2:
                options.update(topk_idx=step.ids, topk_weights=step.weights)
            worst = 0
            # A GPU that does not wait for the counts learns of no demand.
            if kind == 3 and not ON_GPU:
                worst = options["num_worst_tokens"] = int(sizes.sum()) + 5
            rows, ids, weights, counts, handle, event = buffer.dispatch(
                step.x, **step.layout, **options
            )
            event.current_stream_wait()
            right = step.received(0)
            known = right.shape[0]
            assert torch.equal(rows[:known], right) and rows.shape[0] == (worst or known)
            if kind != 2:
                lower = LOCAL * rank
                here = step.received(1)
                here = torch.where((here >= lower) & (here < lower + LOCAL), here - lower, -1)
                assert torch.equal(ids[:known], here) and (ids[known:] == -1).all()
                assert torch.equal(weights[:known][here >= 0], step.received(2)[here >= 0])
            assert counts == ([] if worst else step.counts()), (counts, step.counts())
            step.check_combine(buffer, rows, handle, async_finish=asynchronous)
            kept.append((step, rows, handle))
            opened.append(buffer._shapes.all("throughput")[0].config.max_tokens)
            if number % 3 == 0:
                _low_latency(buffer, rank, experts)
        # Backward passes come later, and along handles of all buffers.
        for step, rows, handle in reversed(kept):
            again = buffer.dispatch(step.x, handle)[0]
            known = step.received(0).shape[0]
            assert torch.equal(again[:known], rows[:known])
            step.check_combine(buffer, again, handle)
        outgrown = len(buffer._shapes._outgrown)
        assert gathered(opened) == [opened] * ranks
        buffer.destroy()
        return outgrown
    finally:
        os.environ["EP4J_MAX_TOKENS"] = largest


def _low_latency(buffer, rank, experts):
    x = torch.randn(M - rank % 2, HIDDEN).bfloat16()
    ids = torch.rand(len(x), experts).topk(TOP_K, dim=1)[1]
    weights = torch.rand(ids.shape)
    rows, _, handle, _, _ = buffer.low_latency_dispatch(x, ids, M, experts, use_fp8=False)
    sums = buffer.low_latency_combine(rows, ids, weights, handle)[0]
    assert torch.allclose(sums.float(), x.float() * weights.sum(1, keepdim=True), atol=0.05)


def scaled_rows(group):
    """FP8 rows with scales by column, and expert_alignment, on the rank that asks and on the others."""
    import deep_ep
    from deep_ep.utils.math import per_token_cast_back, per_token_cast_to_fp8

    rank, ranks = group.rank(), group.size()
    largest = os.environ.pop("EP4J_MAX_TOKENS")
    torch.manual_seed(rank)
    try:
        buffer = deep_ep.Buffer(group, 1, explicitly_destroy=True)
        for tokens in (4, 4 if rank else 9):
            step = _Step(buffer, rank, tokens, LOCAL * ranks)
            codes, scales = per_token_cast_to_fp8(step.x)
            received, _, _, counts, _, _ = buffer.dispatch(
                (codes, scales.t().contiguous().t()),
                **step.layout,
                topk_idx=step.ids.int(),
                topk_weights=step.weights,
                expert_alignment=8,
            )
            right = step.received(0)
            if len(right):
                back = per_token_cast_back(*received)
                assert torch.allclose(back.float(), right.float(), atol=0.3), "other rows"
            assert counts == [-(-count // 8) * 8 for count in step.counts()]
        grown = len(buffer._shapes._outgrown)
        buffer.destroy()
        return grown
    finally:
        os.environ["EP4J_MAX_TOKENS"] = largest


def wrong_ids(group):
    """An id that only the demand has is no expert of a routing."""
    import deep_ep
    import ep4j
    from deep_ep.growth import Demand

    rank, ranks = group.rank(), group.size()
    experts = LOCAL * ranks
    largest = os.environ.pop("EP4J_MAX_TOKENS")
    require = Demand.require_experts
    try:
        buffer = deep_ep.Buffer(group, 1, explicitly_destroy=True)
        step = _Step(buffer, rank, 4, experts)
        sent = dict(**step.layout, topk_weights=step.weights)
        buffer.dispatch(step.x, **sent, topk_idx=step.ids)
        step.ids[1, 0] = experts + (rank + 1) % ranks
        try:
            buffer.dispatch(step.x, **sent, topk_idx=step.ids)
            raise AssertionError("the sender accepts an id that does not exist")
        except ep4j.InvalidArgument as error:
            assert error.code == 1415, error
        # As on GPUs, where the sender does not look.
        Demand.require_experts = lambda self, ids: None
        try:
            buffer.dispatch(step.x, **sent, topk_idx=step.ids)
            raise AssertionError("the receiver takes a wrong id for a demand")
        except ep4j.InvalidArgument as error:
            assert error.code == 1415 and "token 1" in str(error), error
        dist.barrier()
        buffer.destroy()
        return True
    finally:
        Demand.require_experts = require
        os.environ["EP4J_MAX_TOKENS"] = largest


def bounded(group):
    """EP4J_MAX_TOKENS bounds the memory: a larger batch is refused, and nothing was sent."""
    import deep_ep
    import ep4j

    tokens = int(os.environ["EP4J_MAX_TOKENS"])
    buffer = deep_ep.Buffer(group, 1 << 28, explicitly_destroy=True)
    experts = LOCAL * group.size()
    step = _Step(buffer, group.rank(), tokens, experts)
    sent = dict(topk_idx=step.ids, topk_weights=step.weights)
    buffer.dispatch(step.x, **step.layout, **sent)
    larger = _Step(buffer, group.rank(), tokens + 1, experts)
    try:
        buffer.dispatch(
            larger.x, **larger.layout, topk_idx=larger.ids, topk_weights=larger.weights
        )
        raise AssertionError("a larger batch was accepted")
    except ep4j.InvalidArgument as error:
        assert error.code == 1408 and "EP4J_MAX_TOKENS" in str(error), error
    rows, *_, handle, _ = buffer.dispatch(step.x, **step.layout, **sent)
    step.check_combine(buffer, rows, handle)
    buffer.destroy()
    return True


def quietly(group, body, *arguments):
    """Without the warning that a shape needs more than one byte."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return globals()[body](group, *arguments)


class GrowthTest(unittest.TestCase):
    def grown(self, ranks, seed):
        outgrown = deep_ep_ranks.run(ranks, quietly, "growth", seed)
        self.assertGreaterEqual(min(outgrown), 2)
        self.assertEqual(len(set(outgrown)), 1)

    def test_two_ranks_grow(self):
        self.grown(2, 1)
        self.grown(2, 2)

    def test_four_ranks_grow(self):
        self.grown(4, 3)

    def test_eight_ranks_grow(self):
        self.grown(8, 4)

    def test_rows_with_scales_grow(self):
        self.assertEqual(deep_ep_ranks.run(4, quietly, "scaled_rows"), [1] * 4)

    @unittest.skipIf(ON_GPU, "GPUs look at ids where they arrive")
    def test_a_wrong_id_is_no_demand(self):
        self.assertEqual(deep_ep_ranks.run(2, quietly, "wrong_ids"), [True] * 2)

    def test_a_bounded_buffer_refuses(self):
        self.assertEqual(deep_ep_ranks.run(2, quietly, "bounded"), [True] * 2)


if __name__ == "__main__":
    unittest.main()
