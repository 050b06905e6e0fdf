"""Operations of DeepEP V2's ``ElasticBuffer`` that ep4j does not provide."""

import contextlib
from typing import Any, Callable, Iterator

from .errors import refused

_ENGRAM = (
    "ep4j has no remote table: keep the table on each rank, or exchange indices and entries with"
    " torch.distributed.all_to_all_single"
)
_PIPELINE = (
    "ep4j has no messages between two ranks: use torch.distributed.send and recv, or"
    " torch.distributed.batch_isend_irecv"
)
_GATHER = (
    "ep4j has no all-gather: use torch.distributed.all_gather_into_tensor and"
    " torch.distributed.reduce_scatter_tensor"
)


def _refusal(name: str, remedy: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise refused(f"ElasticBuffer.{name} is not provided: {remedy}")

    refuse.__name__ = name
    refuse.__doc__ = f"Refused: {remedy}."
    return refuse


class RefusedOperations:
    """Engram, pipeline messages, all-gather and reduce-scatter: each call is ``ep4j.InvalidArgument``, EP4J-1000."""

    get_engram_storage_size_hint = staticmethod(_refusal("get_engram_storage_size_hint", _ENGRAM))
    engram_write = _refusal("engram_write", _ENGRAM)
    engram_fetch = _refusal("engram_fetch", _ENGRAM)
    get_pp_buffer_size_hint = staticmethod(_refusal("get_pp_buffer_size_hint", _PIPELINE))
    pp_set_config = _refusal("pp_set_config", _PIPELINE)
    pp_send = _refusal("pp_send", _PIPELINE)
    pp_recv = _refusal("pp_recv", _PIPELINE)
    get_agrs_num_max_session_bytes = staticmethod(
        _refusal("get_agrs_num_max_session_bytes", _GATHER)
    )
    get_agrs_buffer_size_hint = staticmethod(_refusal("get_agrs_buffer_size_hint", _GATHER))
    agrs_set_config = _refusal("agrs_set_config", _GATHER)
    agrs_get_inplace_tensor = _refusal("agrs_get_inplace_tensor", _GATHER)
    create_agrs_session = _refusal("create_agrs_session", _GATHER)
    destroy_agrs_session = _refusal("destroy_agrs_session", _GATHER)
    all_gather = _refusal("all_gather", _GATHER)

    @contextlib.contextmanager
    def agrs_new_session(self, enabled: bool = True) -> Iterator[None]:
        """A context without effect where `enabled` is False; else refused like the other operations."""
        if enabled:
            raise refused(f"ElasticBuffer.agrs_new_session is not provided: {_GATHER}")
        yield
