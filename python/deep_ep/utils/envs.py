"""Start of a rank, as DeepEP's tests do it: NCCL and a GPU a rank, or gloo where there is none."""

import os
import random
from typing import Tuple

import torch
import torch.distributed as dist

from ..worlds import physical_ranks_per_node

_local_rank = 0
_global_seed = 0


def init_seed(global_seed: int) -> None:
    """Seeds torch and random, each rank differently."""
    global _global_seed
    _global_seed = global_seed
    torch.manual_seed(get_local_seed())
    random.seed(get_local_seed())


def get_global_seed() -> int:
    """The seed that all ranks have in common."""
    return _global_seed


def get_local_seed() -> int:
    """The seed of this rank."""
    return _global_seed + dist.get_rank()


def init_dist(
    local_rank: int, num_local_ranks: int, seed: int = 0
) -> Tuple[int, int, "dist.ProcessGroup"]:
    """Joins the ranks: MASTER_ADDR, MASTER_PORT (8361), WORLD_SIZE = number of hosts, RANK = number of this host.

    New tensors are BF16, on the GPU of the rank where there are GPUs.

    Returns:
        rank, number of ranks, group.
    """
    global _local_rank
    _local_rank = local_rank
    hosts, host = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(local_rank)
        torch.set_default_device("cuda")
    address, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), os.environ.get(
        "MASTER_PORT", "8361"
    )
    dist.init_process_group(
        backend="nccl" if on_gpu else "gloo",
        init_method=f"tcp://{address}:{port}",
        world_size=hosts * num_local_ranks,
        rank=host * num_local_ranks + local_rank,
    )
    torch.set_default_dtype(torch.bfloat16)
    init_seed(seed)
    return (
        dist.get_rank(),
        dist.get_world_size(),
        dist.new_group(list(range(hosts * num_local_ranks))),
    )


def dist_print(s: str = "", once_in_node: bool = False) -> None:
    """Prints on all ranks, or on the first of each host; then all ranks meet."""
    if not once_in_node or _local_rank == 0:
        print(s, flush=True)
    dist.barrier()


def get_physical_domain_size(group: "dist.ProcessGroup") -> Tuple[int, int]:
    """Nodes of the ranks of a group, and ranks of a node; collective.

    A node is a host, or what EP4J_RANKS_PER_NODE declares.
    """
    per_node = physical_ranks_per_node(group)
    return group.size() // per_node, per_node


def get_logical_domain_size(
    group: "dist.ProcessGroup", allow_hybrid_mode: bool = True
) -> Tuple[int, int]:
    """The same; without `allow_hybrid_mode` one node of all ranks, as ``ElasticBuffer`` says."""
    physical = get_physical_domain_size(group)
    return physical if allow_hybrid_mode else (1, group.size())
