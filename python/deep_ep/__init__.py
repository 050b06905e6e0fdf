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
from .utils.envs import get_logical_domain_size, get_physical_domain_size

#: The version of DeepEP whose interface this is, and a mark that it is none of its builds.
__version__ = "2.1.0+ep4j"

__all__ = [
    "Buffer",
    "Config",
    "ElasticBuffer",
    "EPHandle",
    "EventHandle",
    "EventOverlap",
    "HybridEPBuffer",
    "get_logical_domain_size",
    "get_physical_domain_size",
    "topk_idx_t",
]
