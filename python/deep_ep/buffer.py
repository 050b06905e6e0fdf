"""``Buffer``: DeepEP's buffer over ep4j."""

from typing import Any, Dict, Optional

import torch

from .config import Config, low_latency_size_hint
from .errors import refused, require_at_least
from .event import EventHandle, EventOverlap
from .layout import LayoutCounter
from .lifetime import Lifetime
from .low_latency import LowLatency
from .runtime import Runtime
from .shapes import Shapes
from .streams import CommunicationStream
from .throughput import Throughput
from .worlds import World

# Chunk sizes that callers read: NVLink send and receive, RDMA send and receive, by number of ranks.
_DISPATCH_CHUNKS: Dict[int, tuple] = {
    2: (24, 256, 6, 128),
    4: (6, 256, 6, 128),
    8: (6, 256, 6, 128),
    16: (36, 288, 20, 128),
    **dict.fromkeys((24, 32, 48, 64), (32, 288, 8, 128)),
    96: (20, 480, 12, 128),
    128: (20, 560, 12, 128),
    144: (32, 720, 12, 128),
    160: (28, 720, 12, 128),
}
_COMBINE_CHUNKS: Dict[int, tuple] = {
    2: (10, 256, 6, 128),
    4: (9, 256, 6, 128),
    8: (4, 256, 6, 128),
    16: (4, 288, 12, 128),
    **dict.fromkeys((24, 32, 48, 64), (1, 288, 8, 128)),
    96: (1, 480, 8, 128),
    128: (1, 560, 8, 128),
    **dict.fromkeys((144, 160), (2, 720, 8, 128)),
}


class Buffer(Throughput, LowLatency, Lifetime):
    """Expert parallelism among the ranks of a group; the constructor is collective.

    Attributes:
        num_sms: SMs of high-throughput operations on GPUs, for all buffers: ``set_num_sms``.
        group: the group or communicator of the caller.
        rank, group_size, num_nvl_bytes, num_rdma_bytes, low_latency_mode, explicitly_destroy, enable_shrink
    """

    num_sms: int = 20

    def __init__(
        self,
        group: Any,
        num_nvl_bytes: int = 0,
        num_rdma_bytes: int = 0,
        low_latency_mode: bool = False,
        num_qps_per_rank: int = 24,
        allow_nvlink_for_low_latency_mode: bool = True,
        allow_mnnvl: bool = False,
        explicitly_destroy: bool = False,
        enable_shrink: bool = False,
        comm: Any = None,
        *,
        use_fabric: bool = False,
        allow_nvlink_for_normal_mode: bool = True,
    ) -> None:
        """
        Args:
            group: a torch.distributed group.
            comm: an mpi4py communicator, in place of `group`.
            num_nvl_bytes, num_rdma_bytes: memory that ep4j may use, together. It warns where a shape needs more.
            low_latency_mode: kept as an attribute: a buffer has both kinds of operation.
            num_qps_per_rank, allow_mnnvl, use_fabric: accepted, without effect: EP4J_IB_QPS_PER_PORT sets the
                queue pairs of the wire 'verbs', and rows between hosts of one NVLink domain pass over NVLink
                unless EP4J_RANKS_PER_NODE declares smaller nodes.
            allow_nvlink_for_low_latency_mode, allow_nvlink_for_normal_mode: False: rows take the wire between
                all ranks.
            explicitly_destroy: the caller calls ``destroy``; else the buffer closes when it is collected.
            enable_shrink: low-latency operations mask late ranks in place of failing.
        """
        require_at_least(0, num_nvl_bytes=num_nvl_bytes, num_rdma_bytes=num_rdma_bytes)
        self.group = group if group is not None else comm
        self.num_nvl_bytes = num_nvl_bytes
        self.num_rdma_bytes = num_rdma_bytes
        self.low_latency_mode = low_latency_mode
        self.explicitly_destroy = explicitly_destroy
        self.enable_shrink = enable_shrink
        self._world = World(group, comm)
        self.rank = self._world.rank
        self.group_size = self._world.size
        self._shapes = Shapes(self._world, num_nvl_bytes + num_rdma_bytes)
        self._streams = CommunicationStream()
        declared = self._world.declared_ranks_per_node
        self._throughput_ranks_per_node = declared if allow_nvlink_for_normal_mode else 1
        self._low_latency_ranks_per_node = declared if allow_nvlink_for_low_latency_mode else 1
        self._nodes = (
            self._world.node_of_rank
            if allow_nvlink_for_normal_mode
            else list(range(self.group_size))
        )
        self._layouts = LayoutCounter(self._nodes)
        self.runtime: Optional[Runtime] = Runtime(self._world)

    def get_local_buffer_tensor(
        self, dtype: torch.dtype, size: Any = None, offset: int = 0, use_rdma_buffer: bool = False
    ) -> torch.Tensor:
        """An empty tensor: ep4j has no raw buffer, so there is nothing that a caller must clear. With a size: refused."""
        if size is not None or offset:
            raise refused(
                f"get_local_buffer_tensor with size = {size}, offset = {offset}: ep4j has no raw buffer: use the"
                " tensors that dispatch returns, or get_next_low_latency_combine_buffer(handle)"
            )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.empty(0, dtype=dtype, device=device)

    @staticmethod
    def is_sm90_compiled() -> bool:
        """True: FP8 rows are always available."""
        return True

    @staticmethod
    def set_num_sms(new_num_sms: int) -> None:
        """SMs of later high-throughput operations of all buffers; 0: the choice of ep4j. Even, as in DeepEP."""
        if new_num_sms < 0 or new_num_sms % 2:
            raise refused(
                f"new_num_sms = {new_num_sms}; it must be even and not negative: correct it"
            )
        Buffer.num_sms = new_num_sms

    @staticmethod
    def capture() -> EventOverlap:
        """An event after the present work of the current stream."""
        return EventOverlap(EventHandle())

    @staticmethod
    def get_dispatch_config(num_ranks: int) -> Config:
        """A Config with ``Buffer.num_sms``; any number of ranks."""
        return Config(Buffer.num_sms, *_DISPATCH_CHUNKS.get(num_ranks, _DISPATCH_CHUNKS[8]))

    @staticmethod
    def get_combine_config(num_ranks: int) -> Config:
        """A Config with ``Buffer.num_sms``; any number of ranks."""
        return Config(Buffer.num_sms, *_COMBINE_CHUNKS.get(num_ranks, _COMBINE_CHUNKS[8]))

    @staticmethod
    def get_low_latency_rdma_size_hint(
        num_max_dispatch_tokens_per_rank: int, hidden: int, num_ranks: int, num_experts: int
    ) -> int:
        """Bytes that low-latency operations of this shape reserve on each rank."""
        return low_latency_size_hint(
            num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts
        )

    def _close(self) -> None:
        if self.runtime is not None:
            super()._close()
            self._layouts.close()
