"""Prefill and training: large batches through deep_ep.Buffer, on CPU or GPU.

torchrun --nproc_per_node 2 ep4j-examples/src/main/python/prefill.py
"""

import os

import torch
import torch.distributed as dist

import deep_ep

HIDDEN, TOP_K, EXPERTS, TOKENS, STEPS = 1024, 4, 32, 512, 3


def main() -> None:
    on_gpu = torch.cuda.is_available()
    device = (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if on_gpu
        else torch.device("cpu")
    )
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    ranks, rank = dist.get_world_size(), dist.get_rank()
    config = deep_ep.Buffer.get_dispatch_config(ranks)
    size = config.get_nvl_buffer_size_hint(HIDDEN * 2, ranks)
    buffer = deep_ep.Buffer(dist.group.WORLD, size, explicitly_destroy=True)
    torch.manual_seed(rank)
    for step in range(STEPS):
        x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, device=device)
        weights, ids = torch.rand(TOKENS, EXPERTS, device=device).topk(TOP_K, dim=1)
        per_rank, per_node, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids, EXPERTS)
        rows, local_ids, row_weights, counts, handle, event = buffer.dispatch(
            x,
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_node,
            is_token_in_rank=in_rank,
            num_tokens_per_expert=per_expert,
            topk_idx=ids,
            topk_weights=weights,
            async_finish=True,
        )
        event.current_stream_wait()
        y = experts(rows, local_ids, row_weights, rank * EXPERTS // ranks)
        sums, _, event = buffer.combine(y, handle, async_finish=True)
        event.current_stream_wait()
        expected = x.float() * (weights * (ids + 1)).sum(1, keepdim=True)
        error = ((sums.float() - expected).norm() / expected.norm()).item()
        assert error < 1e-2, error
        print(
            f"rank {rank}, step {step}: {len(rows)} rows, {sum(counts)} of experts, error {error:.1e}",
            flush=True,
        )
    buffer.destroy()
    dist.destroy_process_group()


def experts(
    rows: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, first: int
) -> torch.Tensor:
    """Expert e multiplies by e + 1. The weights are applied here: combine sums rows as they are."""
    factors = torch.where(ids >= 0, weights * (ids + first + 1), torch.zeros_like(weights)).sum(
        1, keepdim=True
    )
    return (rows.float() * factors).to(rows.dtype)


if __name__ == "__main__":
    main()
