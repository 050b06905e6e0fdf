"""Python's share of a warm dispatch and combine, in microseconds.

A group of one rank with small rows makes real calls first. Then the functions of the table are
replaced by one of the C library that does nothing: what is left is the time of Python and ctypes.

    cd python && PYTHONPATH=. python3 benchmarks/call_overhead.py
"""

import ctypes
import statistics
import sys
import time

import ep4j
import torch
from ep4j import _abi

CALLS = 100
ROUNDS = 300


def microseconds(function):
    """Median of the times of a call."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            function()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(times), min(times)


def main():
    group = ep4j.Group.from_environment()
    config = ep4j.BufferConfig(
        hidden=512, top_k=3, experts=8, max_tokens=16, low_latency_max_tokens=16
    )
    buffer = ep4j.Buffer(group, config)
    x = torch.zeros(5, 512, dtype=torch.bfloat16)
    topk_idx = torch.tensor([[0, 1, 2], [3, 4, -1], [5, 6, 7], [0, 2, 4], [1, 3, 5]])
    weights = torch.rand(5, 3)

    def pair():
        received = buffer.dispatch(x, topk_idx, weights)
        received.counts
        return buffer.combine(received.x, received.handle).x

    def low_latency():
        received = buffer.low_latency_dispatch(x, topk_idx, format=ep4j.ROWS_BF16)
        received.counts
        return buffer.low_latency_combine(received, received.x, topk_idx, weights).x

    for name, function in (("dispatch and combine", pair), ("low latency", low_latency)):
        total = microseconds(function)
        print(f"{name}: {total[0]:.1f} us with the engine (minimum {total[1]:.1f})")
    number, buffer.number = buffer.number, 0  # labs(0), which is the status 0
    nothing = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    kept = {name: getattr(buffer._api, name) for name, _ in _abi.FUNCTIONS}
    for name, parameters in _abi.FUNCTIONS:
        if name != "close":
            setattr(buffer._api, name, ctypes.CFUNCTYPE(ctypes.c_int32, *parameters)(nothing))
    # Handles are numbers of objects: close them without effect.
    buffer._api.close = lambda number, close=kept["close"]: close(0)
    for name, function in (("dispatch and combine", pair), ("low latency", low_latency)):
        share = microseconds(function)
        print(f"{name}: {share[0]:.1f} us without it: Python's share (minimum {share[1]:.1f})")
    buffer.number = number
    for name, function in kept.items():
        setattr(buffer._api, name, function)
    buffer.close()
    group.close()


if __name__ == "__main__":
    sys.exit(main())
