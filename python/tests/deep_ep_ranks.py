"""Ranks for tests of deep_ep: one process each, joined by torch.distributed with gloo, tensors on the CPU."""

import os
import queue
import tempfile
import traceback
from typing import Any, Callable, List

import torch
import torch.distributed as dist

DEADLINE = 240  # seconds


def run(ranks: int, body: Callable[..., Any], *arguments: Any) -> List[Any]:
    """Runs body(group, *arguments) in `ranks` new processes; returns what each returned, or raises its error."""
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as directory:
        processes = [
            context.Process(target=_rank, args=(rank, ranks, directory, results, body, arguments), daemon=True)
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        returned: List[Any] = [None] * ranks
        try:
            for _ in range(ranks):
                rank, error, value = results.get(timeout=DEADLINE)
                if error is not None:
                    raise AssertionError(f"rank {rank} of {ranks}:\n{error}")
                returned[rank] = value
        except queue.Empty:
            raise AssertionError(f"a rank did not end within {DEADLINE} s") from None
        finally:
            for process in processes:
                process.join(timeout=10)
                if process.is_alive():
                    process.kill()
    return returned


def _rank(rank: int, ranks: int, directory: str, results: Any, body: Callable, arguments: tuple) -> None:
    error, value = None, None
    try:
        torch.set_num_threads(1)
        # The processes are many and end soon: quick compilation.
        os.environ.setdefault("EP4J_JVM_OPTIONS", "-XX:TieredStopAtLevel=1")
        # Batches of tests are small: so are their buffers.
        os.environ.setdefault("EP4J_MAX_TOKENS", "256")
        dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=ranks)
        value = body(dist.group.WORLD, *arguments)
    except BaseException:
        error = traceback.format_exc()
    results.put((rank, error, value))
    results.close()
    results.join_thread()

