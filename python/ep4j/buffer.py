"""Buffers: memory and operations of a group."""

import ctypes
from typing import Any, Callable, List

import torch

from . import _abi, _jvm, arguments, tensors
from .config import (
    BufferConfig,
    BufferInfo,
    Cause,
    Observation,
    Statistics,
    Verdict,
    WirePath,
    record,
)
from .group import Group
from .low_latency import LowLatencyOperations
from .throughput import ThroughputOperations


class Buffer(ThroughputOperations, LowLatencyOperations):
    """Memory on every rank of a group, and the operations between them.

    A context manager: it closes the buffer. One thread at a time uses a buffer and its results
    (EP4J-2302 otherwise). Opening, warm_up, barrier, reset, readmit and all operations but
    dispatch_layout are collective: all ranks call them in the same order.

    Attributes:
        group: the group; it stays open until the buffer is closed.
        config: the configuration.
        number: the ep4j_buffer.
    """

    def __init__(self, group: Group, config: BufferConfig) -> None:
        """Opens a buffer on every rank of the group; collective.

        Raises:
            InvalidArgument: the configuration is not valid.
            ConfigurationMismatch: ranks have different configurations.
            Unavailable: the engine cannot run on this machine.
        """
        self._open(group, config, _jvm.enter().buffer_open)

    @classmethod
    def rejoin(cls, group: Group, config: BufferConfig) -> "Buffer":
        """Opens the buffer of a restarted rank, after Group.rejoin; the others call readmit."""
        buffer = cls.__new__(cls)
        buffer._open(group, config, _jvm.enter().buffer_rejoin)
        return buffer

    def _open(self, group: Group, config: BufferConfig, function: Callable[..., int]) -> None:
        structure = config.structure()
        number = ctypes.c_uint64()
        _jvm.check(
            function(group.number, ctypes.addressof(structure), ctypes.addressof(number))
        )
        super().__init__(number.value)
        self.group = group
        self.config = config

    @property
    def info(self) -> BufferInfo:
        """The choices of the engine."""
        info = _abi.BufferInfo()
        _jvm.check(_jvm.start().buffer_info(self.number, ctypes.addressof(info)))
        return record(BufferInfo, info)

    def placement(self) -> List[int]:
        """The rank of each expert."""
        ranks = (ctypes.c_int32 * self.info.experts)()
        _jvm.check(_jvm.start().buffer_placement(self.number, ctypes.addressof(ranks), len(ranks)))
        return list(ranks)

    def statistics(self) -> Statistics:
        """Counters of this rank since the buffer was opened."""
        statistics = _abi.Statistics()
        _jvm.check(_jvm.start().buffer_statistics(self.number, ctypes.addressof(statistics)))
        return record(Statistics, statistics)

    def observe(self) -> Observation:
        """What this rank has seen in its last operations; never waits.

        Any thread, also while another one is inside an operation. Operations count in steps of 20, without
        the last, incomplete step. On GPUs a step counts once the operation behind it has ended, and tokens
        are those of the last step that counts.
        """
        info = self.info
        seen = _abi.Observation()
        waited = (ctypes.c_int64 * info.ranks)()
        tokens = (ctypes.c_int64 * info.local_experts)()
        _jvm.check(
            _jvm.start().buffer_observe(
                self.number,
                ctypes.addressof(seen),
                ctypes.addressof(waited),
                len(waited),
                ctypes.addressof(tokens) if len(tokens) > 0 else None,
                len(tokens),
            )
        )
        return Observation(
            seen.operations,
            seen.nanoseconds,
            seen.rows,
            seen.timeouts,
            seen.timeout_peer,
            list(waited),
            list(tokens),
        )

    def verdict(self, timeout: float = 60.0) -> Verdict:
        """Gathers what all ranks have seen and judges it: which rank or link is slow.

        Collective among the ranks of the group, between any operations.

        Args:
            timeout: seconds to wait for the other ranks.

        Raises:
            GroupTimeout: ranks did not call in time.
            PeerLost: a rank has left the group.
        """
        found = _abi.Verdict()
        _jvm.check(
            _jvm.start().buffer_verdict(
                self.number,
                self.group.number,
                arguments.milliseconds("timeout", timeout),
                ctypes.addressof(found),
            )
        )
        return Verdict(
            Cause(found.cause),
            found.rank,
            found.sender,
            found.percent,
            found.saved_nanoseconds,
            found.text.decode(errors="replace"),
        )

    def wire_paths(self) -> List[WirePath]:
        """The paths over which the wire 'verbs' sends; empty with other wires."""
        paths = []
        for index in range(self.statistics().wire_paths):
            path = _abi.WirePath()
            _jvm.check(_jvm.start().buffer_wire_path(self.number, index, ctypes.addressof(path)))
            paths.append(record(WirePath, path))
        return paths

    def set_parallelism(self, parallelism: int) -> None:
        """SMs or threads that later operations may use; 0: the engine chooses."""
        _jvm.check(
            _jvm.start().buffer_set_parallelism(
                self.number, arguments.int32("parallelism", parallelism)
            )
        )

    def warm_up(self) -> None:
        """Runs the configured operations with a few zeros, so that later calls take their usual
        time; collective.
        """
        _jvm.check(_jvm.start().buffer_warm_up(self.number))

    def barrier(self) -> None:
        """Returns when all ranks have called it that `reset` has not left out; collective. Masks
        do not count: a masked rank that lives calls it too, and one that is dead is an error.
        """
        _jvm.check(_jvm.start().buffer_barrier(self.number))

    def reset(self) -> None:
        """Makes the buffer usable after PeerTimeout; collective among the live ranks. Results and
        handles before it are outdated.
        """
        self._valid.clear()
        _jvm.check(_jvm.start().buffer_reset(self.number))

    def readmit(self) -> None:
        """Readmits restarted ranks; collective among the live ranks, after Group.readmit."""
        self._valid.clear()
        _jvm.check(_jvm.start().buffer_readmit(self.number))

    def mask(self, rank: int, masked: bool = True) -> None:
        """Masks a rank, or unmasks it: low-latency operations send nothing to a masked rank and do
        not wait for it.
        """
        _jvm.check(
            _jvm.start().mask_set(self.number, arguments.int32("rank", rank), 1 if masked else 0)
        )

    def masked(self, rank: int) -> bool:
        """Whether a rank is masked."""
        masked = ctypes.c_int32()
        _jvm.check(
            _jvm.start().mask_get(
                self.number, arguments.int32("rank", rank), ctypes.addressof(masked)
            )
        )
        return bool(masked.value)

    def read_masks(self, out: torch.Tensor) -> torch.Tensor:
        """Writes 1 for masked ranks and 0 for others; returns `out`. The host waits for torch's current stream where
        `out` is on a GPU.

        Args:
            out: int32 [R], on the CPU or on the buffer's GPU.
        """
        described = tensors.described("out", out)
        tensors.await_current_stream(out)
        _jvm.check(_jvm.start().mask_read(self.number, ctypes.addressof(described)))
        return out

    def clear_masks(self) -> None:
        """Unmasks all ranks; on all ranks, while none is inside a low-latency operation."""
        _jvm.check(_jvm.start().mask_clear(self.number))

    def close(self) -> None:
        """Waits for queued operations, and frees the memory: tensors of results are invalid after
        it. Closing twice is harmless.
        """
        self._valid.clear()
        _jvm.check(_jvm.start().close(self.number))
        self._in_flight.end_all()

    def __enter__(self) -> "Buffer":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
