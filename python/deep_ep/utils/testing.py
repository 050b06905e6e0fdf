"""Times of calls and of kernels."""

import contextlib
import json
import os
import tempfile
import time
from typing import Any, Callable, Iterator, List, Optional, Tuple, Union

import torch
import torch.distributed as dist

from ..errors import refused

_CACHE_BYTES = 256_000_000  # more than the L2 cache of any GPU
_SLEEP_CYCLES = 20_000_000  # about 10 ms: kernels of all ranks are queued before the first starts


def bench(
    fn: Callable[[], Any],
    num_warmups: int = 50,
    num_tests: int = 50,
    post_fn: Optional[Callable[[], Any]] = None,
    flush_l2: bool = True,
) -> Tuple[float, float, float]:
    """Seconds of a call: average, smallest, largest, without the first. CUDA events, on a CPU its clock."""
    for _ in range(num_warmups):
        fn()
    times = (_gpu_times if torch.cuda.is_available() else _cpu_times)(
        fn, num_tests, post_fn, flush_l2
    )[1:]
    return sum(times) / len(times), min(times), max(times)


def _cpu_times(
    fn: Callable, num_tests: int, post_fn: Optional[Callable], flush_l2: bool
) -> List[float]:
    times = []
    for _ in range(num_tests):
        begin = time.perf_counter()
        fn()
        times.append(time.perf_counter() - begin)
        if post_fn is not None:
            post_fn()
    return times


def _gpu_times(
    fn: Callable, num_tests: int, post_fn: Optional[Callable], flush_l2: bool
) -> List[float]:
    spans = []
    for _ in range(num_tests):
        if flush_l2:
            _flush_l2()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        fn()
        end.record()
        spans.append((begin, end))
        if post_fn is not None:
            post_fn()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) / 1e3 for begin, end in spans]


def bench_kineto(
    fn: Callable[[], Any],
    kernel_names: Union[str, Tuple[str, ...]],
    num_tests: int = 30,
    suppress_kineto_output: bool = False,
    trace_path: Optional[str] = None,
    flush_l2: bool = True,
    barrier_comm_profiling: bool = False,
    num_kernels_per_period: int = 1,
    barrier: Optional[Callable[[], Any]] = None,
) -> Any:
    """Average seconds of the kernels whose names contain a word, by torch's profiler.

    Returns:
        A number for a word, a list for a tuple of them; with `num_kernels_per_period` a list for each word: the
        averages of the first, second, ... kernel of a period. 1 where EP_USE_NVIDIA_TOOLS=1: another profiler runs.
    """
    names = (kernel_names,) if isinstance(kernel_names, str) else kernel_names
    if os.environ.get("EP_USE_NVIDIA_TOOLS", "0") == "1":
        return 1 if isinstance(kernel_names, str) else (1,) * len(names)
    if not torch.cuda.is_available():
        raise refused("bench_kineto measures kernels of a GPU, and there is none: use bench")
    fn()
    torch.cuda.synchronize()
    signal = torch.ones(1, dtype=torch.float32, device="cuda")
    with _quiet() if suppress_kineto_output else contextlib.nullcontext():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            for _ in range(num_tests):
                if flush_l2:
                    _flush_l2()
                if barrier_comm_profiling:
                    torch.cuda._sleep(_SLEEP_CYCLES)
                    barrier() if barrier is not None else dist.all_reduce(signal)
                fn()
            torch.cuda.synchronize()
    kernels = _kernels(profiler, trace_path)
    results = []
    for name in names:
        times = [seconds for kernel, seconds in kernels if name in kernel]
        if num_kernels_per_period == 1:
            results.append(_average(times))
        else:
            results.append(
                [_average(times[i::num_kernels_per_period]) for i in range(num_kernels_per_period)]
            )
    return results[0] if isinstance(kernel_names, str) else results


def _average(times: List[float]) -> float:
    return sum(times) / len(times) if times else 0.0


def _kernels(profiler: Any, trace_path: Optional[str]) -> List[Tuple[str, float]]:
    """Names and seconds of the kernels, in the order of their start."""
    with tempfile.TemporaryDirectory() as directory:
        path = trace_path or os.path.join(directory, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            events = [
                event for event in json.load(file)["traceEvents"] if event.get("cat") == "kernel"
            ]
    return [
        (event["name"], event["dur"] / 1e6)
        for event in sorted(events, key=lambda event: event["ts"])
    ]


def _flush_l2() -> None:
    torch.empty(_CACHE_BYTES // 4, dtype=torch.int32, device="cuda").zero_()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Discards what the process writes to its standard streams."""
    saved = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w") as nothing:
        for number in (1, 2):
            os.dup2(nothing.fileno(), number)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), saved):
            os.dup2(copy, number)
            os.close(copy)
