"""ep4j.h in ctypes: constants, structures and the table of functions.

A test compares all of them with the header. Fields are described there.
"""

import ctypes
from ctypes import c_char, c_char_p, c_float, c_int32, c_int64, c_uint64, c_void_p
from typing import Any, Callable, Tuple

ABI_VERSION = 1

# Element types.
BF16, FP16, FP32, FP8_E4M3, NVFP4, INT32, INT64, UE8M0, UINT8 = range(1, 10)

# Orders of received rows.
FLAT, EXPERT_MAJOR, RANK_MAJOR = range(1, 4)

# Bits of ep4j_buffer_config.layouts.
LAYOUT_FLAT, LAYOUT_EXPERT_MAJOR = 1, 2

# Rows of a low-latency dispatch.
ROWS_BF16, ROWS_FP8, ROWS_NVFP4 = range(1, 4)

# FP8 scales of a low-latency dispatch.
SCALES_FLOAT32, SCALES_FLOAT32_POW2, SCALES_UE8M0 = range(1, 4)

# What makes ranks wait.
VERDICT_TOO_EARLY, VERDICT_NONE, VERDICT_SLOW_RANK, VERDICT_SLOW_LINK, VERDICT_SKEW = range(1, 6)

# Bits of BufferConfig.wire_options.
WIRE_LANES, WIRE_QUEUE_PAIRS, WIRE_SERVICE_LEVEL, WIRE_TRAFFIC_CLASS, WIRE_GPU_DIRECT = (
    1 << bit for bit in range(5)
)

HOST = -1


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_uint64),
        ("shape", c_int64 * 3),
        ("strides", c_int64 * 3),
        ("dimensions", c_int32),
        ("dtype", c_int32),
        ("device", c_int32),
        ("reserved", c_int32),
    ]


class Execution(ctypes.Structure):
    _fields_ = [
        ("stream", c_uint64),
        ("previous", c_uint64),
        ("on_stream", c_int32),
        # Named `async` in C, which is a keyword of Python.
        ("async_", c_int32),
    ]


class Sized(ctypes.Structure):
    """A structure that begins with its size, which the constructor sets."""

    def __init__(self) -> None:
        super().__init__()
        self.size = ctypes.sizeof(self)


def _sized(*fields: Tuple[str, Any]) -> list:
    return [("size", c_uint64), *fields]


class Error(Sized):
    _fields_ = _sized(
        ("code", c_int32),
        ("kind", c_int32),
        ("rank", c_int32),
        ("reserved", c_int32),
        ("text", c_char * 4072),
    )


class GroupConfig(Sized):
    _fields_ = _sized(
        ("rank", c_int32),
        ("ranks", c_int32),
        ("host", c_char_p),
        ("secret", c_char_p),
        ("job", c_char_p),
        ("port", c_int32),
        ("hosting", c_int32),
        ("join_timeout_ms", c_int64),
        ("heartbeat_ms", c_int64),
        ("liveness_ms", c_int64),
    )


class GroupInfo(Sized):
    _fields_ = _sized(
        ("rank", c_int32),
        ("ranks", c_int32),
        ("in_process", c_int32),
        ("reserved", c_int32),
        ("job_id", c_char * 48),
    )


class RankState(Sized):
    _fields_ = _sized(
        ("alive", c_int32),
        ("incarnation", c_int32),
        ("has_replacement", c_int32),
        ("reserved", c_int32),
        ("address", c_char * 64),
        ("report", c_char * 512),
    )


class BufferConfig(Sized):
    _fields_ = _sized(
        ("hidden", c_int32),
        ("top_k", c_int32),
        ("experts", c_int32),
        ("parallelism", c_int32),
        ("rank_of_expert", c_void_p),
        ("max_tokens", c_int32),
        ("row_dtype", c_int32),
        ("max_receive_rows", c_int64),
        ("expert_alignment", c_int32),
        ("combine_in_place", c_int32),
        ("low_latency_max_tokens", c_int32),
        ("masking", c_int32),
        ("timeout_ms", c_int64),
        ("engine", c_char_p),
        ("wire", c_char_p),
        ("backend", c_char_p),
        ("ranks_per_node", c_int32),
        ("wire_options", c_int32),
        ("wire_lanes", c_int32),
        ("wire_queue_pairs", c_int32),
        ("wire_service_level", c_int32),
        ("wire_traffic_class", c_int32),
        ("wire_gpu_direct", c_int32),
        ("layouts", c_int32),
        ("lost_ranks", c_int32),
        ("reserved", c_int32),
    )


class BufferInfo(Sized):
    _fields_ = _sized(
        ("rank", c_int32),
        ("ranks", c_int32),
        ("experts", c_int32),
        ("local_experts", c_int32),
        ("parallelism", c_int32),
        ("ranks_per_node", c_int32),
        ("max_receive_rows", c_int64),
        ("engine", c_char * 32),
        ("wire", c_char * 32),
        ("backend", c_char * 32),
    )


class BufferSizes(Sized):
    _fields_ = _sized(
        ("symmetric_bytes", c_int64),
        ("private_bytes", c_int64),
        ("low_latency_bytes", c_int64),
        ("first_use_bytes", c_int64),
    )


class Statistics(Sized):
    _fields_ = _sized(
        ("dispatches", c_int64),
        ("combines", c_int64),
        ("low_latency_dispatches", c_int64),
        ("low_latency_combines", c_int64),
        ("rows_sent", c_int64),
        ("rows_received", c_int64),
        ("payload_bytes_sent", c_int64),
        ("symmetric_bytes", c_int64),
        ("private_bytes", c_int64),
        ("abandoned_threads", c_int64),
        ("wire_paths", c_int64),
        ("combines_in_place", c_int64),
    )


class Observation(Sized):
    _fields_ = _sized(
        ("operations", c_int64),
        ("nanoseconds", c_int64),
        ("rows", c_int64),
        ("timeouts", c_int64),
        ("timeout_peer", c_int32),
        ("reserved", c_int32),
    )


class Verdict(Sized):
    _fields_ = _sized(
        ("cause", c_int32),
        ("rank", c_int32),
        ("sender", c_int32),
        ("percent", c_int32),
        ("saved_nanoseconds", c_int64),
        ("text", c_char * 256),
    )


class WirePath(Sized):
    _fields_ = _sized(
        ("peer", c_int32),
        ("queue_pair", c_int32),
        ("bytes", c_int64),
        ("port", c_char * 64),
    )


class DispatchArgs(Sized):
    _fields_ = _sized(
        ("x", Tensor),
        ("scales", Tensor),
        ("global_scales", Tensor),
        ("topk_idx", Tensor),
        ("topk_weights", Tensor),
        ("handle", c_uint64),
        ("execution", Execution),
        ("max_rows", c_int64),
        ("layout", c_int32),
        ("experts", c_int32),
        ("expert_alignment", c_int32),
        ("zero_padding", c_int32),
        ("scale_columns", c_int32),
        ("reserved", c_int32),
        ("logical_idx", Tensor),
    )


class DispatchResult(Sized):
    _fields_ = _sized(
        ("result", c_uint64),
        ("handle", c_uint64),
        ("event", c_uint64),
        ("rows", c_int64),
        ("x", Tensor),
        ("scales", Tensor),
        ("global_scales", Tensor),
        ("topk_idx", Tensor),
        ("topk_weights", Tensor),
        ("row_weights", Tensor),
        ("source_tokens", Tensor),
        ("source_ranks", Tensor),
        ("received_rows", c_int64),
        ("missing_rows", c_int64),
        ("aligned_counts", Tensor),
        ("counts", Tensor),
        ("rank_offsets", Tensor),
        ("expert_offsets", Tensor),
    )


class CombineArgs(Sized):
    _fields_ = _sized(
        ("y", Tensor),
        ("handle", c_uint64),
        ("topk_weights", Tensor),
        ("bias0", Tensor),
        ("bias1", Tensor),
        ("out", Tensor),
        ("execution", Execution),
        ("apply_weights", c_int32),
        ("single_rounding", c_int32),
        ("by_experts", c_int32),
        ("reserved", c_int32),
    )


class CombineResult(Sized):
    _fields_ = _sized(
        ("result", c_uint64),
        ("event", c_uint64),
        ("x", Tensor),
        ("topk_weights", Tensor),
    )


class LayoutResult(Sized):
    _fields_ = _sized(
        ("tokens_per_rank", Tensor),
        ("tokens_per_node", Tensor),
        ("tokens_per_expert", Tensor),
        ("token_in_rank", Tensor),
    )


class LowLatencyDispatchArgs(Sized):
    _fields_ = _sized(
        ("x", Tensor),
        ("topk_idx", Tensor),
        ("topk_weights", Tensor),
        ("cumulative_stats", Tensor),
        ("wait_stats", Tensor),
        ("global_scale", Tensor),
        ("execution", Execution),
        ("layout", c_int32),
        ("experts", c_int32),
        ("format", c_int32),
        ("scale_kind", c_int32),
        ("scale_columns", c_int32),
        ("deliver_weights", c_int32),
        ("return_hook", c_int32),
        ("reserved", c_int32),
    )


class LowLatencyDispatchResult(Sized):
    _fields_ = _sized(
        ("result", c_uint64),
        ("event", c_uint64),
        ("x", Tensor),
        ("scales", Tensor),
        ("counts", Tensor),
        ("topk_idx", Tensor),
        ("topk_weights", Tensor),
        ("row_weights", Tensor),
        ("src_info", Tensor),
        ("layout_range", Tensor),
    )


class LowLatencyCombineArgs(Sized):
    _fields_ = _sized(
        ("dispatched", c_uint64),
        ("y", Tensor),
        ("topk_idx", Tensor),
        ("topk_weights", Tensor),
        ("out", Tensor),
        ("wait_stats", Tensor),
        ("execution", Execution),
        ("log_fmt", c_int32),
        ("zero_copy", c_int32),
        ("partial_rounding", c_int32),
        ("return_hook", c_int32),
        ("by_experts", c_int32),
        ("reserved", c_int32),
        ("logical_idx", Tensor),
    )


class LowLatencyCombineResult(Sized):
    _fields_ = _sized(
        ("result", c_uint64),
        ("event", c_uint64),
        ("x", Tensor),
    )


# Parameters of the functions. A pointer is an address, or what ctypes.byref returns.
_NUMBER, _POINTER, _INT, _LONG = c_uint64, c_void_p, c_int32, c_int64

# Names and parameter types, in the order of the table.
FUNCTIONS: Tuple[Tuple[str, Tuple[Any, ...]], ...] = (
    ("last_error", (_POINTER,)),
    ("close", (_NUMBER,)),
    ("group_from_environment", (_POINTER,)),
    ("group_join", (_POINTER, _POINTER)),
    ("group_rejoin", (_POINTER, _POINTER)),
    ("group_in_process", (_INT, _POINTER)),
    ("group_info", (_NUMBER, _POINTER)),
    ("group_rank_state", (_NUMBER, _INT, _POINTER)),
    ("group_all_gather", (_NUMBER, _POINTER, _LONG, _POINTER, _LONG)),
    ("group_barrier", (_NUMBER, _LONG)),
    ("group_survivors", (_NUMBER, _LONG, _POINTER)),
    ("group_readmit", (_NUMBER, _LONG, _POINTER, _INT, _POINTER)),
    ("group_fail", (_NUMBER, _POINTER)),
    ("buffer_sizes", (_POINTER, _INT, _POINTER)),
    ("buffer_open", (_NUMBER, _POINTER, _POINTER)),
    ("buffer_rejoin", (_NUMBER, _POINTER, _POINTER)),
    ("buffer_info", (_NUMBER, _POINTER)),
    ("buffer_placement", (_NUMBER, _POINTER, _INT)),
    ("buffer_statistics", (_NUMBER, _POINTER)),
    ("buffer_wire_path", (_NUMBER, _INT, _POINTER)),
    ("buffer_set_parallelism", (_NUMBER, _INT)),
    ("buffer_warm_up", (_NUMBER,)),
    ("buffer_barrier", (_NUMBER,)),
    ("buffer_reset", (_NUMBER,)),
    ("buffer_readmit", (_NUMBER,)),
    ("dispatch_layout", (_NUMBER, _POINTER, _INT, _POINTER)),
    ("dispatch", (_NUMBER, _POINTER, _POINTER)),
    ("dispatch_result", (_NUMBER, _POINTER)),
    ("combine_input", (_NUMBER, _INT, _POINTER)),
    ("combine", (_NUMBER, _POINTER, _POINTER)),
    ("combine_result", (_NUMBER, _POINTER)),
    ("low_latency_dispatch", (_NUMBER, _POINTER, _POINTER)),
    ("low_latency_dispatch_result", (_NUMBER, _POINTER)),
    ("low_latency_combine_input", (_NUMBER, _POINTER)),
    ("low_latency_combine", (_NUMBER, _POINTER, _POINTER)),
    ("low_latency_combine_result", (_NUMBER, _POINTER)),
    ("low_latency_receive", (_NUMBER,)),
    ("mask_set", (_NUMBER, _INT, _INT)),
    ("mask_get", (_NUMBER, _INT, _POINTER)),
    ("mask_read", (_NUMBER, _POINTER)),
    ("mask_clear", (_NUMBER,)),
    ("event_query", (_NUMBER, _POINTER)),
    ("event_wait", (_NUMBER, _LONG, _POINTER)),
    ("tensor_read", (_POINTER, _POINTER)),
    ("tensor_write", (_POINTER, _POINTER)),
    ("routing_from_dense", (_POINTER, _POINTER, _POINTER, _POINTER)),
    ("routing_to_dense", (_POINTER, _POINTER, _POINTER)),
    ("caller", (_POINTER,)),
    ("interrupt", (_NUMBER,)),
    ("routing_counter_open", (_INT, _POINTER, _INT, _POINTER)),
    ("routing_counter_count", (_NUMBER, _POINTER, _NUMBER, _POINTER)),
    ("buffer_observe", (_NUMBER, _POINTER, _POINTER, _INT, _POINTER, _INT)),
    ("buffer_verdict", (_NUMBER, _NUMBER, _LONG, _POINTER)),
)

# The table begins with its size and its version.
_FIRST = 16


def table_size() -> int:
    """Bytes of the table that this module describes."""
    return _FIRST + len(FUNCTIONS) * ctypes.sizeof(c_void_p)


class Api:
    """The functions of a table, callable under their names; each returns a status.

    A call releases the lock of the interpreter. After a fork the attributes of the child are
    replaced, so callers look a function up for each call.
    """

    def __init__(self, address: int) -> None:
        for position, (name, parameters) in enumerate(FUNCTIONS):
            entry = _FIRST + position * ctypes.sizeof(c_void_p)
            pointer = c_uint64.from_address(address + entry).value
            setattr(self, name, ctypes.CFUNCTYPE(c_int32, *parameters)(pointer))

    def replace_all(self, function: Callable[..., int]) -> None:
        """Puts a function in the place of all."""
        for name, _ in FUNCTIONS:
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Callable[..., int]:
        raise AttributeError(name)  # For type checkers: the attributes are functions.
