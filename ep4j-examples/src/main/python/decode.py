"""Decoding: two halves of a batch overlap, one computes while the other is under way.

torchrun --nproc_per_node 2 ep4j-examples/src/main/python/decode.py
"""

import os

import torch
import torch.distributed as dist

import deep_ep

HIDDEN, TOP_K, EXPERTS, MAX_TOKENS, STEPS = 1024, 4, 32, 16, 3


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
    size = deep_ep.Buffer.get_low_latency_rdma_size_hint(MAX_TOKENS, HIDDEN, ranks, EXPERTS)
    buffer = deep_ep.Buffer(
        dist.group.WORLD, 0, size, low_latency_mode=True, explicitly_destroy=True
    )
    torch.manual_seed(rank)
    for step in range(STEPS):
        halves = [batch(device) for _ in range(2)]
        sent = [
            buffer.low_latency_dispatch(
                x, ids, MAX_TOKENS, EXPERTS, use_fp8=False, return_recv_hook=True
            )
            for x, ids, _ in halves
        ]
        errors = []
        for (x, ids, weights), (rows, counts, handle, _, receive) in zip(halves, sent):
            receive()  # the other half stays under way
            y = experts(rows, counts, rank * EXPERTS // ranks)
            sums, _, receive = buffer.low_latency_combine(
                y, ids, weights, handle, return_recv_hook=True
            )
            receive()
            expected = x.float() * (weights * (ids + 1)).sum(1, keepdim=True)
            errors.append(((sums.float() - expected).norm() / expected.norm()).item())
        assert max(errors) < 1e-2, errors
        print(f"rank {rank}, step {step}: errors {errors[0]:.1e} and {errors[1]:.1e}", flush=True)
    buffer.destroy()
    dist.destroy_process_group()


def batch(device: torch.device):
    """Rows BF16 [T, H], experts INT64 [T, K], weights FP32 [T, K]."""
    x = torch.randn(MAX_TOKENS, HIDDEN, dtype=torch.bfloat16, device=device)
    weights, ids = torch.rand(MAX_TOKENS, EXPERTS, device=device).topk(TOP_K, dim=1)
    return x, ids, weights


def experts(rows: torch.Tensor, counts: torch.Tensor, first: int) -> torch.Tensor:
    """Expert e multiplies its first counts[e] rows by e + 1. The combine applies the weights."""
    factors = torch.arange(
        first + 1, first + 1 + len(rows), dtype=torch.float32, device=rows.device
    )
    valid = torch.arange(rows.shape[1], device=rows.device) < counts.view(-1, 1)
    scaled = rows.float() * factors.view(-1, 1, 1)
    return torch.where(valid.unsqueeze(2), scaled, torch.zeros_like(scaled)).to(rows.dtype)


if __name__ == "__main__":
    main()
