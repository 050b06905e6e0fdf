"""deep_ep as its callers use it: Megatron's autograd functions, vLLM's and SGLang's calls, on CPU tensors."""

import os
import unittest
import warnings

import torch
import torch.distributed as dist

import deep_ep_ranks

HIDDEN, INNER, TOP_K = 128, 64, 2


class _Dispatch(torch.autograd.Function):
    """Forward: dispatch. Backward: combine of the rows' gradients, and of those of the weights."""

    @staticmethod
    def forward(ctx, x, topk_idx, topk_weights, experts, buffer):
        layout = buffer.get_dispatch_layout(topk_idx, experts)
        per_rank, per_node, per_expert, in_rank, event = layout
        rows, ids, weights, counts, handle, _ = buffer.dispatch(
            x,
            topk_idx=topk_idx,
            topk_weights=topk_weights,
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_node,
            is_token_in_rank=in_rank,
            num_tokens_per_expert=per_expert,
            previous_event=event,
        )
        ctx.buffer, ctx.handle = buffer, handle
        ctx.mark_non_differentiable(ids)
        return rows, ids, weights, handle

    @staticmethod
    def backward(ctx, row_gradients, _, weight_gradients, __):
        gradients, of_weights, _ = ctx.buffer.combine(
            row_gradients.contiguous(),
            ctx.handle,
            topk_weights=weight_gradients.float().contiguous(),
        )
        return gradients, None, of_weights, None, None


class _Combine(torch.autograd.Function):
    """Forward: combine. Backward: a cached dispatch of the sums' gradients."""

    @staticmethod
    def forward(ctx, rows, handle, buffer):
        ctx.buffer, ctx.handle = buffer, handle
        sums, _, _ = buffer.combine(rows, handle)
        return sums

    @staticmethod
    def backward(ctx, gradients):
        rows, _, _, _, _, _ = ctx.buffer.dispatch(gradients.contiguous(), handle=ctx.handle)
        return rows, None, None


class _HybridDispatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, routing_map, probs, buffer):
        rows, row_probs, _, counts, handle = buffer.dispatch_with_permute(
            hidden=x, routing_map=routing_map, probs=probs, pad_multiple=4
        )
        ctx.buffer, ctx.handle = buffer, handle
        return rows, row_probs, counts, handle

    @staticmethod
    def backward(ctx, row_gradients, prob_gradients, _, __):
        gradients, of_probs = ctx.buffer.combine_with_unpermute(
            hidden=row_gradients.contiguous(),
            probs=prob_gradients,
            handle=ctx.handle,
            pad_multiple=4,
        )
        return gradients, None, of_probs, None


class _HybridCombine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, handle, buffer):
        ctx.buffer, ctx.handle, ctx.rows = buffer, handle, rows.shape[0]
        return buffer.combine_with_unpermute(hidden=rows, handle=handle, pad_multiple=4)[0]

    @staticmethod
    def backward(ctx, gradients):
        rows, _, _, _, _ = ctx.buffer.dispatch_with_permute(
            hidden=gradients.contiguous(),
            handle=ctx.handle,
            pad_multiple=4,
            num_permuted_tokens=ctx.rows,
        )
        return rows, None, None


def _expert(rows, up, down):
    return torch.nn.functional.silu(rows.float() @ up.t()) @ down.t()


class _Block:
    """A MoE block with a router, and its inputs: the same on all ranks, cut into a part for each."""

    def __init__(self, ranks, tokens):
        torch.manual_seed(7)
        self.ranks, self.tokens, self.experts = ranks, tokens, 4 * ranks
        self.router = torch.randn(self.experts, HIDDEN) * 0.2
        self.up = torch.randn(self.experts, INNER, HIDDEN) / HIDDEN**0.5
        self.down = torch.randn(self.experts, HIDDEN, INNER) / INNER**0.5
        self.x = torch.randn(ranks * tokens, HIDDEN).bfloat16()
        self.out_gradient = torch.randn(ranks * tokens, HIDDEN).bfloat16()

    def route(self, x, router):
        weights, ids = torch.topk(torch.softmax(x.float() @ router.t(), 1), TOP_K, dim=1)
        return ids, weights / weights.sum(1, keepdim=True)

    def alone(self):
        """Output and gradients of x, router, up and down, in one process, in FP32."""
        x, router, up, down = (
            t.float().clone().requires_grad_() for t in (self.x, self.router, self.up, self.down)
        )
        ids, weights = self.route(x, router)
        y = torch.zeros_like(x)
        for e in range(self.experts):
            token, slot = (ids == e).nonzero(as_tuple=True)
            y = y.index_add(
                0, token, _expert(x[token], up[e], down[e]) * weights[token, slot].unsqueeze(1)
            )
        y.backward(self.out_gradient.float())
        return y.detach(), x.grad, router.grad, up.grad, down.grad

    def part(self, rank):
        return slice(rank * self.tokens, (rank + 1) * self.tokens)


def _train(group, kind):
    import deep_ep

    rank, ranks = group.rank(), group.size()
    block = _Block(ranks, 24)
    local = block.experts // ranks
    mine = slice(rank * local, (rank + 1) * local)
    x = block.x[block.part(rank)].clone().requires_grad_()
    router, up, down = (
        t.clone().requires_grad_() for t in (block.router, block.up[mine], block.down[mine])
    )
    ids, weights = block.route(x, router)
    if kind == "throughput":
        buffer = deep_ep.Buffer(group, 1 << 28, 0)
        assert (
            buffer.group is group and buffer.num_nvl_bytes == 1 << 28 and buffer.num_rdma_bytes == 0
        )
        rows, local_ids, local_weights, handle = _Dispatch.apply(
            x, ids, weights, block.experts, buffer
        )
        outputs = torch.zeros(rows.shape)
        for e in range(local):
            row, slot = (local_ids == e).nonzero(as_tuple=True)
            outputs = outputs.index_add(
                0, row, _expert(rows[row], up[e], down[e]) * local_weights[row, slot].unsqueeze(1)
            )
        y = _Combine.apply(outputs.bfloat16(), handle, buffer)
    else:
        buffer = deep_ep.HybridEPBuffer(group, HIDDEN, 24, local)
        probs = torch.zeros(24, block.experts).scatter(1, ids, weights)
        routing_map = torch.zeros(24, block.experts, dtype=torch.bool).scatter(1, ids, True)
        rows, row_probs, counts, handle = _HybridDispatch.apply(x, routing_map, probs, buffer)
        groups = torch.split(rows, counts.tolist())
        outputs = torch.cat([_expert(group, up[e], down[e]) for e, group in enumerate(groups)])
        y = _HybridCombine.apply((outputs * row_probs.unsqueeze(1)).bfloat16(), handle, buffer)
    y.backward(block.out_gradient[block.part(rank)])
    dist.all_reduce(router.grad)

    wanted = block.alone()
    for name, got, want in (
        ("output", y.detach(), wanted[0][block.part(rank)]),
        ("gradient of x", x.grad, wanted[1][block.part(rank)]),
        ("gradient of the router", router.grad, wanted[2]),
        ("gradient of up", up.grad, wanted[3][mine]),
        ("gradient of down", down.grad, wanted[4][mine]),
    ):
        error = float((got.float() - want).norm() / want.norm())
        # BF16 keeps 8 bits, and a value passes it up to three times.
        assert error < 3 * 2.0**-8, f"{name}: relative error {error}"
    return True


def megatron(group):
    """A block of experts, forward and backward, equals the block of one process."""
    from deep_ep.utils import EventHandle, EventOverlap

    import deep_ep

    deep_ep.Buffer.set_num_sms(20)
    EventOverlap(EventHandle()).current_stream_wait()
    return _train(group, "throughput") and _train(group, "hybrid")


def vllm(group):
    """Prepare and finalize of vLLM's high-throughput and low-latency classes; a second step with other sizes."""
    import deep_ep

    rank, ranks = group.rank(), group.size()
    experts, torch_type = 4 * ranks, deep_ep.topk_idx_t
    buffer = deep_ep.Buffer(
        group=group,
        num_nvl_bytes=1 << 28,
        num_rdma_bytes=0,
        low_latency_mode=False,
        num_qps_per_rank=1,
        explicitly_destroy=True,
    )
    deep_ep.Buffer.set_num_sms(20)
    for tokens in (5, 40, 0 if rank == 0 else 3):
        torch.manual_seed(tokens + rank)
        x = torch.randn(tokens, HIDDEN).bfloat16()
        ids = torch.stack(
            [torch.randperm(experts)[:TOP_K] for _ in range(tokens)] or [torch.empty(TOP_K)]
        )[:tokens]
        ids = ids.to(torch_type)
        weights = torch.rand(tokens, TOP_K)
        previous = deep_ep.Buffer.capture()
        per_rank, per_node, per_expert, in_rank, event = buffer.get_dispatch_layout(
            topk_idx=ids,
            num_experts=experts,
            previous_event=previous,
            async_finish=False,
            allocate_on_comm_stream=False,
        )
        rows, local_ids, local_weights, counts, handle, event = buffer.dispatch(
            x=x,
            handle=None,
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_node,
            is_token_in_rank=in_rank,
            num_tokens_per_expert=per_expert,
            topk_idx=ids,
            topk_weights=weights,
            expert_alignment=1,
            config=deep_ep.Buffer.get_dispatch_config(ranks),
            previous_event=previous,
            async_finish=True,
            allocate_on_comm_stream=False,
        )
        event.current_stream_wait()
        assert sum(counts) == int((local_ids >= 0).sum())
        scaled = rows * torch.where(local_ids >= 0, local_weights, torch.zeros(1)).sum(
            1, keepdim=True
        )
        sums, _, event = buffer.combine(
            x=scaled.bfloat16(),
            handle=handle,
            topk_weights=None,
            config=deep_ep.Buffer.get_combine_config(ranks),
            previous_event=deep_ep.Buffer.capture(),
            async_finish=True,
            allocate_on_comm_stream=False,
        )
        event.current_stream_wait()
        assert torch.allclose(
            sums.float(), x.float() * weights.sum(1, keepdim=True), rtol=2e-2, atol=1e-2
        )
    buffer.destroy()

    most = 16
    # The size hint is enough.
    warnings.simplefilter("error", RuntimeWarning)
    buffer = deep_ep.Buffer(
        group=group,
        num_rdma_bytes=deep_ep.Buffer.get_low_latency_rdma_size_hint(most, HIDDEN, ranks, experts),
        low_latency_mode=True,
        num_qps_per_rank=4,
        allow_nvlink_for_low_latency_mode=True,
        allow_mnnvl=False,
        enable_shrink=False,
        explicitly_destroy=True,
    )
    for tokens in (6, 0 if rank == 0 else 3, 16):
        ids = torch.rand(tokens, experts).topk(TOP_K, dim=1)[1]
        weights, x = torch.rand(tokens, TOP_K), torch.randn(tokens, HIDDEN).bfloat16()
        rows, counts, handle, _, hook = buffer.low_latency_dispatch(
            x, ids, most, experts, use_fp8=False, async_finish=False, return_recv_hook=True
        )
        hook()
        out = torch.empty_like(x)
        _, _, hook = buffer.low_latency_combine(
            rows,
            ids,
            weights,
            handle,
            async_finish=False,
            zero_copy=False,
            return_recv_hook=True,
            out=out,
        )
        hook()
        assert torch.allclose(
            out.float(), x.float() * weights.sum(1, keepdim=True), rtol=2e-2, atol=1e-2
        )
    warnings.resetwarnings()
    # After a fault: the buffer is cleared, where one has memory to clear, then its masks.
    buffer.get_local_buffer_tensor(dtype=torch.int8, use_rdma_buffer=True).zero_()
    buffer.low_latency_clean_mask_buffer()
    # The scale of all experts is one number, expanded to a tensor of all of them.
    x, ids = torch.ones(2, HIDDEN).bfloat16(), torch.tensor([[0, 1], [2, 3]])
    for scale in (torch.tensor([3.0]), torch.tensor(3.0).expand(experts)):
        (codes, _), counts, *_ = buffer.low_latency_dispatch(
            x, ids, most, experts, use_fp8=False, use_nvfp4=True, x_global_scale=scale
        )
        # A block of sixteen ones has the scale 3 / 6, so each of them is 6 halves: code 7.
        for expert, count in enumerate(counts.tolist()):
            assert (codes[:count, :, expert] == 0x77).all(), codes[:count, :, expert]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for tokens in (2, 3, 4, 5):
            buffer.low_latency_dispatch(x, ids, tokens, experts, use_fp8=False)
    assert sum("[2, 3, 4, 16] tokens" in str(each.message) for each in told) == 1
    buffer.destroy()
    return True


def torchtitan(group):
    """A layer whose buffer is made for the first batch, and compared with each later one."""
    import deep_ep
    from deep_ep.hybrid_ep_buffer import indices_to_map

    rank, ranks = group.rank(), group.size()
    local, experts = 2, 2 * ranks
    buffer = deep_ep.HybridEPBuffer(group, HIDDEN, 8, local)
    earlier = []
    # All ranks pass the maximum together, then each less than that; batches need not be equal.
    for largest, tokens in ((8, 8), (33, 33 - rank), (33, 7 + rank), (80, 80)):
        torch.manual_seed(tokens + rank)
        x = torch.randn(tokens, HIDDEN).bfloat16()
        ids = torch.stack([torch.randperm(experts)[:TOP_K] for _ in range(tokens)])
        ids[0, 1] = -1
        weights = torch.rand(tokens, TOP_K).masked_fill(ids < 0, 0)
        routing_map, probs = indices_to_map(ids, weights, tokens, experts)
        assert routing_map.dtype == torch.bool and probs.dtype == torch.float32
        for token in range(tokens):
            chosen = {int(e): w for e, w in zip(ids[token], weights[token]) if e >= 0}
            assert set(routing_map[token].nonzero().view(-1).tolist()) == set(chosen)
            assert all(probs[token, e] == w for e, w in chosen.items())
        assert indices_to_map(ids, None, tokens, experts)[1] is None
        rows, row_probs, _, _, handle = buffer.dispatch_with_permute(
            hidden=x, routing_map=routing_map, probs=probs, num_of_experts_per_rank=local
        )
        sizes = buffer.configurer.buffer_config
        assert sizes.hidden_dim == HIDDEN and sizes.num_of_experts_per_rank == local
        assert sizes.num_of_ranks_per_node * sizes.num_of_nodes == ranks
        assert sizes.max_num_of_tokens_per_rank >= largest
        # Handles of the buffers before the growth still serve, as a backward pass asks of them.
        earlier.append((x, weights, rows, row_probs, handle))
        for x, weights, rows, row_probs, handle in earlier:
            sums, _ = buffer.combine_with_unpermute(
                hidden=(rows * row_probs.unsqueeze(1)).bfloat16(), handle=handle
            )
            assert torch.allclose(
                sums.float(), x.float() * weights.sum(1, keepdim=True), rtol=3e-2, atol=3e-2
            )
    assert sizes.max_num_of_tokens_per_rank == 80
    return True


def sglang(group):
    """One buffer for prefill and decoding; sizes from Config; expert_alignment 128; combine arguments of overlap."""
    import deep_ep
    import ep4j

    rank, ranks = group.rank(), group.size()
    experts, most = 2 * ranks, 8
    config = deep_ep.Config(**{"num_sms": 24, "num_max_nvl_chunked_send_tokens": 16})
    nvl = max(
        c.get_nvl_buffer_size_hint(HIDDEN * 2, ranks)
        for c in (
            config,
            deep_ep.Buffer.get_dispatch_config(ranks),
            deep_ep.Buffer.get_combine_config(ranks),
        )
    )
    rdma = max(
        config.get_rdma_buffer_size_hint(HIDDEN * 2, ranks),
        deep_ep.Buffer.get_low_latency_rdma_size_hint(most, HIDDEN, ranks, experts),
    )
    assert nvl > 0 and rdma > 0
    buffer = deep_ep.Buffer(
        group, nvl, rdma, low_latency_mode=True, num_qps_per_rank=2, allow_mnnvl=True
    )
    assert deep_ep.Buffer.num_sms and buffer.low_latency_mode and buffer.group_size == ranks
    tokens = 7
    torch.manual_seed(rank)
    x = torch.randn(tokens, HIDDEN).bfloat16()
    ids = torch.stack([torch.randperm(experts)[:TOP_K] for _ in range(tokens)])
    weights = torch.rand(tokens, TOP_K)
    for _ in range(2):
        layout = buffer.get_dispatch_layout(
            ids, experts, previous_event=deep_ep.Buffer.capture(), async_finish=True
        )
        rows, local_ids, _, counts, handle, event = buffer.dispatch(
            x,
            topk_idx=ids,
            topk_weights=weights,
            num_tokens_per_rank=layout[0],
            num_tokens_per_rdma_rank=layout[1],
            num_tokens_per_expert=layout[2],
            is_token_in_rank=layout[3],
            previous_event=layout[4],
            async_finish=True,
            allocate_on_comm_stream=True,
            expert_alignment=128,
            config=config,
        )
        event.current_stream_wait()
        assert all(count % 128 == 0 for count in counts)
        sums, _, event = buffer.combine(
            rows, handle, async_finish=True, previous_event=event, allocate_on_comm_stream=True
        )
        event.current_stream_wait()
        assert torch.allclose(
            sums.float(), x.float() * layout[3].sum(1, keepdim=True), rtol=1e-2, atol=1e-5
        )

        buffer.clean_low_latency_buffer(most, HIDDEN, experts)
        rows, counts, handle, event, _ = buffer.low_latency_dispatch(
            x, ids, most, experts, use_fp8=False, async_finish=True
        )
        event.current_stream_wait()
        for refused in (
            dict(overlap=True),
            dict(comp_signal=counts),
            dict(src_signals=counts, src_signal_expect_value=2),
        ):
            try:
                buffer.low_latency_combine(rows, ids, weights, handle, **refused)
                raise AssertionError(f"{refused} was accepted")
            except ep4j.InvalidArgument as error:
                assert "does not wait for signals" in str(error) and "return_recv_hook" in str(
                    error
                )
        nothing = dict(
            overlap=False,
            packed_recv_count=counts,
            comp_signal=None,
            block_m=64,
            threshold=0,
            num_sms=3,
        )
        sums, event, _ = buffer.low_latency_combine(
            rows, ids, weights, handle, async_finish=True, **nothing
        )
        event.current_stream_wait()
        assert torch.allclose(
            sums.float(), x.float() * weights.sum(1, keepdim=True), rtol=2e-2, atol=1e-2
        )
    return True


def refusals(group):
    """Arguments that cannot be served are errors that say what to do; the buffer stays usable."""
    import deep_ep
    import ep4j

    rank, ranks = group.rank(), group.size()
    experts, tokens = 2 * ranks, 4
    buffer = deep_ep.Buffer(group, 1 << 28, explicitly_destroy=True)
    x = torch.randn(tokens, HIDDEN).bfloat16()
    ids = torch.stack([torch.randperm(experts)[:TOP_K] for _ in range(tokens)])
    weights = torch.rand(tokens, TOP_K)
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids, experts)
    layout = dict(
        num_tokens_per_rank=per_rank, num_tokens_per_expert=per_expert, is_token_in_rank=in_rank
    )
    routing = dict(topk_idx=ids, topk_weights=weights)
    rows, _, _, _, handle, _ = buffer.dispatch(x, **layout, **routing)

    def refuse(words, call, *args, **options):
        try:
            call(*args, **options)
        except ep4j.InvalidArgument as error:
            assert isinstance(error, RuntimeError) and str(error).startswith(
                f"EP4J-{error.code}: "
            ), error
            assert words in str(error), (words, str(error))
            return
        raise AssertionError(f"{words}: accepted")

    refuse("get_dispatch_layout", buffer.dispatch, x, **routing)
    refuse("pass both or neither", buffer.dispatch, x, **layout, topk_idx=ids)
    refuse("leave them out", buffer.dispatch, x, handle=handle, **routing)
    refuse("without topk_idx", buffer.dispatch, x, **layout, num_worst_tokens=64)
    refuse(
        "is_token_in_rank",
        buffer.dispatch,
        x,
        **{**layout, "is_token_in_rank": per_expert},
        **routing,
    )
    refuse("[tokens, hidden]", buffer.dispatch, x.view(-1), **layout, **routing)
    refuse("torch.bfloat16", buffer.dispatch, x.float(), **layout, **routing)
    refuse(
        "the scales",
        buffer.dispatch,
        (x.view(torch.uint8)[:, :HIDDEN], weights[:1]),
        **layout,
        **routing,
    )
    refuse(
        "allocate_on_comm_stream",
        buffer.dispatch,
        x,
        **layout,
        **routing,
        allocate_on_comm_stream=True,
    )
    refuse("deep_ep.Config", buffer.dispatch, x, **layout, **routing, config=24)
    refuse("tuple of two", buffer.combine, rows, handle, bias=[x])
    refuse("pass them all", buffer.combine, rows[:-1], handle)
    refuse("that dispatch returned", buffer.combine, rows, (1, 2, 3))
    refuse("4", buffer.dispatch, x[:2], handle=handle)
    refuse("multiple of", buffer.get_dispatch_layout, ids, experts + 1)
    # An id that does not exist counts as no expert in a layout, as in DeepEP; the dispatch refuses it.
    unknown = ids.clone()
    unknown[0, 0] = experts + 3
    none = ids.clone()
    none[0, 0] = -1
    of_unknown = buffer.get_dispatch_layout(unknown, experts)
    for part, other in zip(of_unknown[:4], buffer.get_dispatch_layout(none, experts)):
        assert (part is None and other is None) or torch.equal(part, other)
    refuse(
        "EP4J-1415",
        buffer.dispatch,
        x,
        None,
        of_unknown[0],
        None,
        of_unknown[3],
        of_unknown[2],
        unknown,
        weights,
    )
    refuse("even", deep_ep.Buffer.set_num_sms, 3)
    refuse("no raw buffer", buffer.get_local_buffer_tensor, torch.uint8, (16,))
    assert buffer.get_local_buffer_tensor(torch.uint8).numel() == 0
    refuse("dispatch first", buffer.low_latency_update_mask_buffer, 0, True)
    if not torch.cuda.is_available():
        refuse("on GPUs only", buffer.get_comm_stream)
    most = int(os.environ["EP4J_MAX_TOKENS"])
    many = torch.zeros(most + 1, HIDDEN).bfloat16()
    their_ids = torch.zeros(most + 1, TOP_K, dtype=torch.int64)
    their_ids[:, 1] = 1
    theirs = buffer.get_dispatch_layout(their_ids, experts)
    refuse(
        f"a batch has {most + 1} tokens; the buffer for hidden = {HIDDEN} takes {most} a rank",
        buffer.dispatch,
        many,
        None,
        theirs[0],
        None,
        theirs[3],
        theirs[2],
        their_ids,
        torch.rand(most + 1, TOP_K),
    )
    low = buffer.low_latency_dispatch
    refuse("one of them", low, x, ids, 8, experts, async_finish=True, return_recv_hook=True)
    refuse("one format", low, x, ids, 8, experts, use_nvfp4=True)
    refuse("round_scale", low, x, ids, 8, experts, use_ue8m0=True)
    refuse("x_global_scale", low, x, ids, 8, experts, use_fp8=False, use_nvfp4=True)
    refuse("E4M3", low, x, ids, 8, experts, use_fp8=False, use_nvfp4=True, use_ue8m0_for_sf=True)
    refuse("low_latency_dispatch", buffer.low_latency_combine, x, ids, weights, handle)
    # A token with the experts of rank 0 only: of `worst` rows, rank 0 gets more.
    only_first = torch.zeros(tokens, 1, dtype=torch.int64)
    l = buffer.get_dispatch_layout(only_first, experts)
    try:
        buffer.dispatch(
            x,
            None,
            l[0],
            None,
            l[3],
            l[2],
            only_first,
            torch.rand(tokens, 1),
            num_worst_tokens=tokens,
        )
        # On GPUs the call does not wait for the counts.
        assert rank != 0 or ranks == 1 or x.is_cuda, "too few rows were accepted"
    except ep4j.Overflow as error:
        assert rank == 0 and "num_worst_tokens" in str(error)
    sums, _, _ = buffer.combine(rows, handle)
    assert torch.allclose(
        sums.float(), x.float() * in_rank.sum(1, keepdim=True), rtol=1e-2, atol=1e-5
    )
    buffer.destroy()
    try:
        buffer.dispatch(
            x, **layout, topk_idx=ids[:, :1].contiguous(), topk_weights=weights[:, :1].contiguous()
        )
        raise AssertionError("a destroyed buffer was used")
    except ep4j.InvalidUse as error:
        assert "destroyed" in str(error)
    return True


class CallersTest(unittest.TestCase):
    def test_megatron_trains_as_one_process_does(self):
        self.assertEqual(deep_ep_ranks.run(2, megatron), [True] * 2)

    def test_vllm_prepares_and_finalizes(self):
        self.assertEqual(deep_ep_ranks.run(2, vllm), [True] * 2)

    def test_torchtitan_grows_its_buffer(self):
        self.assertEqual(deep_ep_ranks.run(2, torchtitan), [True] * 2)

    def test_sglang_alternates_prefill_and_decoding(self):
        self.assertEqual(deep_ep_ranks.run(2, sglang), [True] * 2)

    def test_what_cannot_be_served_is_refused(self):
        self.assertEqual(deep_ep_ranks.run(2, refusals), [True] * 2)


if __name__ == "__main__":
    unittest.main()
