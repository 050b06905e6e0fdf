"""ep4j: expert parallelism (Mixture-of-Experts dispatch and combine) for torch tensors.

    import ep4j

    with ep4j.Group.from_environment() as group:
        config = ep4j.BufferConfig(hidden=4096, top_k=8, experts=64, max_tokens=1024)
        with ep4j.Buffer(group, config) as buffer:
            received = buffer.dispatch(x, topk_idx, topk_weights)
            y = experts(received.x, received.counts)
            x = buffer.combine(y, received.handle).x

The package starts a JVM in the process at the first call, with the jars of EP4J_HOME or of the
bundle or clone that holds the package. CUDA tensors and CPU tensors are read where they lie;
results are views of the buffer's memory. Errors are exceptions, ep4j.Error, with a stable code.
"""

from typing import TYPE_CHECKING, Any

from ._abi import (
    BF16,
    EXPERT_MAJOR,
    FLAT,
    FP8_E4M3,
    FP16,
    FP32,
    INT32,
    INT64,
    NVFP4,
    RANK_MAJOR,
    ROWS_BF16,
    ROWS_FP8,
    ROWS_NVFP4,
    SCALES_FLOAT32,
    SCALES_FLOAT32_POW2,
    SCALES_UE8M0,
    UE8M0,
    UINT8,
)
from ._jvm import version
from .config import (
    BufferConfig,
    BufferInfo,
    BufferSizes,
    Cause,
    Observation,
    RankState,
    Statistics,
    Verdict,
    WirePath,
)
from .errors import (
    ConfigurationMismatch,
    Defect,
    Error,
    ErrorKind,
    GroupError,
    GroupTimeout,
    Interrupted,
    InvalidArgument,
    InvalidUse,
    JoinRefused,
    Overflow,
    PeerLost,
    PeerTimeout,
    SystemFailure,
    Unavailable,
)
from .event import Event
from .group import Group

if TYPE_CHECKING:
    from .buffer import Buffer
    from .dense import routing_from_dense, routing_to_dense
    from .low_latency import LowLatencyCombined, LowLatencyDispatched
    from .routing_counter import RoutingCounter, RoutingCounts
    from .throughput import Combined, Dispatched, Handle, Layout

# Names whose modules import torch, which takes seconds: groups do without.
_WITH_TORCH = {
    "Buffer": "buffer",
    "Combined": "throughput",
    "Dispatched": "throughput",
    "Handle": "throughput",
    "Layout": "throughput",
    "LowLatencyCombined": "low_latency",
    "LowLatencyDispatched": "low_latency",
    "RoutingCounter": "routing_counter",
    "RoutingCounts": "routing_counter",
    "routing_from_dense": "dense",
    "routing_to_dense": "dense",
}

__all__ = [
    "BF16",
    "Buffer",
    "BufferConfig",
    "BufferInfo",
    "BufferSizes",
    "Cause",
    "Combined",
    "ConfigurationMismatch",
    "Defect",
    "Dispatched",
    "EXPERT_MAJOR",
    "Error",
    "ErrorKind",
    "Event",
    "FLAT",
    "FP16",
    "FP32",
    "FP8_E4M3",
    "Group",
    "GroupError",
    "GroupTimeout",
    "Handle",
    "INT32",
    "INT64",
    "Interrupted",
    "InvalidArgument",
    "InvalidUse",
    "JoinRefused",
    "Layout",
    "LowLatencyCombined",
    "LowLatencyDispatched",
    "NVFP4",
    "Observation",
    "Overflow",
    "PeerLost",
    "PeerTimeout",
    "RANK_MAJOR",
    "ROWS_BF16",
    "ROWS_FP8",
    "ROWS_NVFP4",
    "RankState",
    "RoutingCounter",
    "RoutingCounts",
    "SCALES_FLOAT32",
    "SCALES_FLOAT32_POW2",
    "SCALES_UE8M0",
    "Statistics",
    "SystemFailure",
    "UE8M0",
    "UINT8",
    "Unavailable",
    "Verdict",
    "WirePath",
    "routing_from_dense",
    "routing_to_dense",
    "version",
]


def __getattr__(name: str) -> Any:
    module = _WITH_TORCH.get(name)
    if module is None:
        raise AttributeError(f"module 'ep4j' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module("." + module, __name__), name)
    globals()[name] = value
    return value
