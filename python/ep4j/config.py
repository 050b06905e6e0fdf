"""Configuration of a buffer, and what a buffer tells of itself."""

import ctypes
import dataclasses
import enum
from typing import Any, List, NamedTuple, Optional, Sequence, Type, TypeVar

from . import _abi, _jvm, arguments

T = TypeVar("T")


class RankState(NamedTuple):
    """A rank as seen by this rank."""

    alive: bool
    incarnation: int  # restarted processes that have replaced the rank so far
    has_replacement: bool  # a restarted process waits in Group.rejoin
    address: str  # IP address at which this rank reaches the host of the rank
    report: str  # how and when the departure was noticed; empty while it is alive


class BufferInfo(NamedTuple):
    """An open buffer with the choices of the engine."""

    rank: int
    ranks: int
    experts: int
    local_experts: int  # experts of this rank, L
    parallelism: int
    ranks_per_node: int
    max_receive_rows: int  # 0 without high-throughput operations
    engine: str
    wire: str
    backend: str


class BufferSizes(NamedTuple):
    """Memory that a buffer reserves on each rank, in bytes."""

    symmetric_bytes: int  # memory that peers can reach
    private_bytes: int  # memory of the rank alone, when the buffer is open
    low_latency_bytes: int  # the part of symmetric_bytes that low-latency operations need
    first_use_bytes: int  # memory of the rank alone that operations add at their first use

    @property
    def total(self) -> int:
        return self.symmetric_bytes + self.private_bytes + self.first_use_bytes


class Statistics(NamedTuple):
    """Counters of this rank since the buffer was opened."""

    dispatches: int
    combines: int
    low_latency_dispatches: int
    low_latency_combines: int
    rows_sent: int  # own ones included
    rows_received: int  # own ones included
    payload_bytes_sent: int
    symmetric_bytes: int
    private_bytes: int
    abandoned_threads: int  # threads of the process that a native library does not return
    wire_paths: int
    combines_in_place: int  # combines for which the rows of this rank lay where its node can read them


class Observation(NamedTuple):
    """What this rank has seen in its last operations, from Buffer.observe."""

    operations: int  # that nanoseconds, rows and waited count: up to 200, a multiple of 20
    nanoseconds: int  # from the first of these to the end of the last
    rows: int  # that these received, own ones included
    timeouts: int  # operations that ended in a timeout since the buffer was opened
    timeout_peer: int  # the rank for which the last of those waited; -1: none
    waited: List[int]  # nanoseconds for which these waited for each rank
    tokens: List[int]  # of this rank's experts since the buffer was opened, by local number


class Cause(enum.IntEnum):
    """What makes the ranks of a buffer wait."""

    TOO_EARLY = _abi.VERDICT_TOO_EARLY  # fewer than 60 operations
    NONE = _abi.VERDICT_NONE  # no rank and no link stands out
    SLOW_RANK = _abi.VERDICT_SLOW_RANK  # a rank comes late to operations
    SLOW_LINK = _abi.VERDICT_SLOW_LINK  # one rank alone waits for another one
    SKEW = _abi.VERDICT_SKEW  # a rank comes late that receives far more rows than the others


class Verdict(NamedTuple):
    """What makes the ranks of a buffer wait, from Buffer.verdict; the same on all ranks."""

    cause: Cause
    rank: int  # the slow or overloaded rank, of a slow link its receiver; -1: none
    sender: int  # of a slow link; otherwise -1
    percent: int  # of the time of an operation that it costs
    saved_nanoseconds: int  # by which an operation would be shorter without it
    text: str  # one sentence for people


class WirePath(NamedTuple):
    """A path over which the wire 'verbs' sends to another rank."""

    peer: int
    queue_pair: int
    bytes: int
    port: str  # "mlx5_0:1"


def record(kind: Type[T], structure: ctypes.Structure) -> T:
    """The fields of a structure as a named tuple."""
    values: List[Any] = []
    for name in kind._fields:  # type: ignore[attr-defined]
        value = getattr(structure, name)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif kind.__annotations__[name] is bool:
            value = bool(value)
        values.append(value)
    return kind(*values)


_LAYOUT_BITS = {_abi.FLAT: _abi.LAYOUT_FLAT, _abi.EXPERT_MAJOR: _abi.LAYOUT_EXPERT_MAJOR}


@dataclasses.dataclass(frozen=True)
class BufferConfig:
    """Shape and limits of a buffer; the same on every rank.

    A buffer has high-throughput operations (max_tokens > 0), low-latency operations
    (low_latency_max_tokens > 0), or both.
    """

    hidden: int  # largest number of elements of a row, H
    top_k: int  # largest number of choices of a token, K, 1 to 64
    experts: int  # number of experts, E
    max_tokens: int = 0  # high throughput: tokens per rank; 0: no such operations
    low_latency_max_tokens: int = 0  # low latency: tokens per rank, M; 0: no such operations
    rank_of_expert: Optional[Sequence[int]] = None  # [E]; None: consecutive blocks
    row_dtype: Any = _abi.BF16  # widest row type that is sent, a torch dtype or ep4j.BF16 and so on
    layouts: Sequence[int] = (_abi.FLAT,)  # FLAT, EXPERT_MAJOR: of high-throughput dispatches
    max_receive_rows: int = 0  # rows of the receive region; 0: the worst case of the layouts
    expert_alignment: int = 128  # largest alignment of a call
    combine_in_place: bool = False  # combine_input is the memory of the received rows
    masking: bool = False  # low-latency operations mask late ranks instead of failing
    parallelism: int = 0  # SMs or threads of an operation; 0: the engine chooses
    timeout: float = 30.0  # wait for a silent peer, in seconds
    engine: Optional[str] = None  # "host", "cuda"; None: "auto"
    wire: Optional[str] = None  # "tcp", "verbs", "ucx", ... between nodes; None: "auto"
    backend: Optional[str] = None  # "direct", "nccl", "nvshmem" between GPUs; None: "auto"
    ranks_per_node: int = 0  # consecutive ranks of a node; 0: the ranks of a host
    wire_lanes: Optional[int] = None  # lanes to each peer; None: EP4J_IB_* or the default
    wire_queue_pairs: Optional[int] = None  # verbs: queue pairs to each peer on each port
    wire_service_level: Optional[int] = None  # verbs: 0 to 15
    wire_traffic_class: Optional[int] = None  # verbs: 0 to 255
    wire_gpu_direct: Optional[bool] = None  # verbs: ports read and write GPU memory
    lost_ranks: int = 0  # GPUs: ranks of each node that may be lost while reset continues

    def sizes(self, ranks: int) -> BufferSizes:
        """Memory that a buffer reserves on each of `ranks` ranks; opens nothing.

        Raises:
            InvalidArgument: a field is not valid.
        """
        sizes = _abi.BufferSizes()
        structure = self.structure()
        _jvm.check(
            _jvm.start().buffer_sizes(
                ctypes.addressof(structure),
                arguments.int32("ranks", ranks),
                ctypes.addressof(sizes),
            )
        )
        return record(BufferSizes, sizes)

    def structure(self) -> _abi.BufferConfig:
        """The ep4j_buffer_config; it owns the memory to which it points."""
        config = _abi.BufferConfig()
        for name in (
            "hidden",
            "top_k",
            "experts",
            "parallelism",
            "max_tokens",
            "expert_alignment",
            "lost_ranks",
            "low_latency_max_tokens",
            "ranks_per_node",
        ):
            setattr(config, name, arguments.int32(name, getattr(self, name)))
        config.row_dtype = self._row_type()
        config.max_receive_rows = arguments.int64("max_receive_rows", self.max_receive_rows)
        config.layouts = self._layouts()
        config.combine_in_place = 1 if self.combine_in_place else 0
        config.masking = 1 if self.masking else 0
        config.timeout_ms = arguments.milliseconds("timeout", self.timeout)
        for name in ("engine", "wire", "backend"):
            setattr(config, name, arguments.text(name, getattr(self, name)))
        self._write_placement(config)
        self._write_wire(config)
        return config

    def _layouts(self) -> int:
        bits = 0
        for layout in self.layouts:
            if layout not in _LAYOUT_BITS:
                raise arguments.invalid_value(
                    "layouts", layout, "FLAT, EXPERT_MAJOR or both", "name the layouts of dispatches"
                )
            bits |= _LAYOUT_BITS[layout]
        return bits

    def _row_type(self) -> int:
        if isinstance(self.row_dtype, int):
            return self.row_dtype
        from . import tensors  # Needs torch, as a caller with a torch dtype has.

        return tensors.dtype_number("row_dtype", self.row_dtype)

    def _write_placement(self, config: _abi.BufferConfig) -> None:
        if self.rank_of_expert is None:
            return
        ranks = [arguments.int32("rank_of_expert", rank) for rank in self.rank_of_expert]
        if len(ranks) != self.experts:
            raise arguments.invalid_value(
                "len(rank_of_expert)", len(ranks), f"experts, {self.experts}", "name all ranks"
            )
        config.table = (ctypes.c_int32 * len(ranks))(*ranks)
        config.rank_of_expert = ctypes.addressof(config.table)

    def _write_wire(self, config: _abi.BufferConfig) -> None:
        for name, bit in (
            ("wire_lanes", _abi.WIRE_LANES),
            ("wire_queue_pairs", _abi.WIRE_QUEUE_PAIRS),
            ("wire_service_level", _abi.WIRE_SERVICE_LEVEL),
            ("wire_traffic_class", _abi.WIRE_TRAFFIC_CLASS),
            ("wire_gpu_direct", _abi.WIRE_GPU_DIRECT),
        ):
            value = getattr(self, name)
            if value is not None:
                config.wire_options |= bit
                setattr(config, name, arguments.int32(name, value))
