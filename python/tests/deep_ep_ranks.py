"""Ranks for tests of deep_ep: one process each, joined by torch.distributed with gloo.

Tensors are on the CPU, or with EP4J_TEST_DEVICE=cuda on the GPUs, rank by rank.

Processes serve several tests: torch and the JVM start once. A test that fails ends its processes.
"""

import atexit
import os
import queue
import tempfile
import traceback
from typing import Any, Callable, Dict, List

import torch
import torch.distributed as dist

DEADLINE = 240  # seconds
ON_GPU = os.environ.get("EP4J_TEST_DEVICE") == "cuda"


class _Pool:
    def __init__(self, ranks: int) -> None:
        context = torch.multiprocessing.get_context("spawn")
        self._directory = tempfile.TemporaryDirectory()
        self._results = context.Queue()
        self._work = [context.Queue() for _ in range(ranks)]
        self._processes = [
            context.Process(
                target=_serve,
                args=(rank, ranks, self._directory.name, self._work[rank], self._results),
                daemon=True,
            )
            for rank in range(ranks)
        ]
        for process in self._processes:
            process.start()

    def run(self, body: Callable[..., Any], arguments: tuple, answers: int) -> List[Any]:
        for work in self._work:
            work.put((body, arguments))
        returned: List[Any] = [None] * len(self._work)
        for _ in range(answers):
            try:
                rank, error, value = self._results.get(timeout=DEADLINE)
            except queue.Empty:
                raise AssertionError(f"a rank did not end within {DEADLINE} s") from None
            if error is not None:
                raise AssertionError(f"rank {rank} of {len(self._work)}:\n{error}")
            returned[rank] = value
        return returned

    def close(self) -> None:
        for work in self._work:
            work.put(None)
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()
        self._directory.cleanup()


_pools: Dict[int, _Pool] = {}


def run(ranks: int, body: Callable[..., Any], *arguments: Any) -> List[Any]:
    """Runs body(group, *arguments) on each rank; returns what each returned, or raises an error of one."""
    if ranks not in _pools:
        _pools[ranks] = _Pool(ranks)
    pool = _pools[ranks]
    try:
        return pool.run(body, arguments, ranks)
    except AssertionError:
        del _pools[ranks]
        pool.close()
        raise


def run_with_losses(ranks: int, lost: int, body: Callable[..., Any], *arguments: Any) -> List[Any]:
    """Like run, in processes of its own, of which `lost` die on the way: these return None."""
    pool = _Pool(ranks)
    try:
        return pool.run(body, arguments, ranks - lost)
    finally:
        pool.close()


@atexit.register
def close() -> None:
    """Ends the processes."""
    while _pools:
        _pools.popitem()[1].close()


def sms(ranks, wanted):
    """As many SMs of a GPU as are wanted, or as each of the ranks that share it can have: an even number."""
    if not ON_GPU:
        return wanted
    sharing = -(-ranks // torch.cuda.device_count())
    present = torch.cuda.get_device_properties("cuda").multi_processor_count
    return min(wanted, present // sharing // 2 * 2)


def _serve(rank: int, ranks: int, directory: str, work: Any, results: Any) -> None:
    torch.set_num_threads(1)
    # Many processes that end soon: quick compilation. Small batches: small buffers.
    os.environ.setdefault("EP4J_JVM_OPTIONS", "-XX:TieredStopAtLevel=1")
    os.environ.setdefault("EP4J_MAX_TOKENS", "256")
    dist.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=ranks
    )
    if ON_GPU:
        torch.cuda.set_device(rank % torch.cuda.device_count())
        torch.set_default_device("cuda")
    for body, arguments in iter(work.get, None):
        error, value = None, None
        try:
            value = body(dist.group.WORLD, *arguments)
        except BaseException:
            error = traceback.format_exc()
        results.put((rank, error, value))
    results.close()
    results.join_thread()
