"""Counts of routings without a buffer."""

import ctypes
from typing import NamedTuple, Sequence, Union

import torch

from . import _abi, _jvm, arguments, tensors
from .tensors import Slot, without_modes


class RoutingCounts(NamedTuple):
    """Tokens of this rank by destination; a token counts once for each."""

    tokens_per_rank: torch.Tensor  # int32 [R]
    tokens_per_node: torch.Tensor  # int32 [nodes]
    tokens_per_expert: torch.Tensor  # int32 [E]
    token_in_rank: torch.Tensor  # bool [T, R]: whether a rank has an expert of the token


class RoutingCounter:
    """Counts tokens per rank, node and expert, on a CPU or a CUDA device; local. Experts lie on the
    ranks in blocks. ``Buffer.dispatch_layout`` counts for any placement, and checks the ids.

    On a CUDA device it loads a kernel: make it while no operation of a buffer is in flight there. One
    thread at a time. ``close`` frees it.
    """

    def __init__(self, device: Union[str, torch.device], node_of_rank: Sequence[int]) -> None:
        """
        Args:
            device: of the tensors: "cpu", or a CUDA device; without an index the current one.
            node_of_rank: 0 for the first rank; then the number before, or one more.

        Raises:
            InvalidArgument: other numbers, or no such device.
        """
        self._number = 0
        place = torch.device(device)
        if place.type == "cuda" and place.index is None:
            place = torch.device("cuda", torch.cuda.current_device())
        self._device = place
        self._ranks = len(node_of_rank)
        nodes = [arguments.int32("node_of_rank", node) for node in node_of_rank]
        self._nodes = nodes[-1] + 1 if nodes else 0
        number = ctypes.c_uint64()
        _jvm.check(
            _jvm.start().routing_counter_open(
                _abi.HOST if place.type == "cpu" else place.index,
                (ctypes.c_int32 * len(nodes))(*nodes),
                len(nodes),
                ctypes.addressof(number),
            )
        )
        self._number = number.value
        self._ids = _abi.Tensor()
        self._counts = _abi.LayoutResult()
        self._id_slot = Slot(self._ids, "topk_idx")
        self._slots = tuple(
            Slot(getattr(self._counts, name), name) for name in RoutingCounts._fields
        )

    @without_modes
    def count(self, topk_idx: torch.Tensor, experts: int) -> RoutingCounts:
        """Counts a routing into new tensors. On a CUDA device in the current stream; a CUDA graph may
        capture the call.

        Args:
            topk_idx: int64 or int32 [T, K]. -1, and what is no expert, does not count: the dispatch
                refuses the latter.
            experts: number of experts, E, a multiple of the ranks.

        Raises:
            InvalidArgument: another shape, dtype, device or number of experts.
        """
        self._id_slot.set(topk_idx)
        device = topk_idx.device
        if arguments.int32("experts", experts) < 0:
            raise arguments.invalid_value("experts", experts, "1 or more", "pass their number")
        # One allocation for three results.
        all_counts = torch.empty(
            self._ranks + self._nodes + experts, dtype=torch.int32, device=device
        )
        per_rank, per_node, per_expert = torch.split_with_sizes(
            all_counts, (self._ranks, self._nodes, experts)
        )
        in_rank = torch.empty(
            (topk_idx.shape[0], self._ranks), dtype=torch.bool, device=device
        )
        results = RoutingCounts(per_rank, per_node, per_expert, in_rank)
        for slot, result in zip(self._slots, results):
            slot.set(result)
        stream = tensors.raw_stream(None, device) if device.type == "cuda" else 0
        _jvm.check(
            _jvm.start().routing_counter_count(
                self._number,
                ctypes.addressof(self._ids),
                stream,
                ctypes.addressof(self._counts),
            )
        )
        return results

    def close(self) -> None:
        """Frees the counter, after its last count has been executed."""
        number, self._number = self._number, 0
        if number != 0:
            _jvm.check(_jvm.start().close(number))
