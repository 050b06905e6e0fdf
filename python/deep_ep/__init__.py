"""The interface of DeepEP over ep4j: callers of ``Buffer``, ``ElasticBuffer`` and ``HybridEPBuffer`` run unchanged.

Nothing is compiled. Tensors may be CUDA tensors or CPU tensors. docs/deep_ep.md lists the differences.
"""

from .buffer import Buffer
from .config import Config
from .dtypes import topk_idx_t
from .elastic_buffer import ElasticBuffer
from .elastic_handle import EPHandle
from .event import EventHandle, EventOverlap
from .hybrid_ep_buffer import HybridEPBuffer

__all__ = [
    "Buffer",
    "Config",
    "ElasticBuffer",
    "EPHandle",
    "EventHandle",
    "EventOverlap",
    "HybridEPBuffer",
    "topk_idx_t",
]
