"""``Config``: accepts DeepEP's chunk sizes, keeps the number of SMs, and gives sizes that ep4j needs."""

import os
from typing import Any

import ep4j

from .devices import choose_device
from .errors import refused

#: Tokens a rank that a buffer holds at least, where the caller grants the memory.
USUAL_TOKENS = 4096

# For sizes that are asked for before top-k and experts are known.
_ASSUMED_TOP_K = 16
_ASSUMED_LOCAL_EXPERTS = 32


def number_setting(name: str) -> int:
    """A variable that holds a positive number; 0 where it is not set."""
    text = os.environ.get(name, "")
    if not text:
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise refused(f"{name} = {text}; it must be a number, at least 1: correct it or unset it")
    return int(text)


def max_tokens_setting() -> int:
    """``EP4J_MAX_TOKENS``, or 0 where it is not set."""
    return number_setting("EP4J_MAX_TOKENS")


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def zero_copy() -> bool:
    """``EP4J_DEEPEP_ZERO_COPY``: results are views, valid until the next dispatch of their shape."""
    text = os.environ.get("EP4J_DEEPEP_ZERO_COPY", "0")
    if text not in ("0", "1"):
        raise refused(f"EP4J_DEEPEP_ZERO_COPY = {text}; it must be 0 or 1: correct it or unset it")
    return text == "1"


class Config:
    """Tuning of the high-throughput operations.

    ep4j has no chunked rings: of the five numbers only ``num_sms`` has an effect, on GPUs.
    """

    def __init__(
        self,
        num_sms: int = 20,
        num_max_nvl_chunked_send_tokens: int = 6,
        num_max_nvl_chunked_recv_tokens: int = 256,
        num_max_rdma_chunked_send_tokens: int = 6,
        num_max_rdma_chunked_recv_tokens: int = 256,
    ) -> None:
        if num_sms < 0:
            raise refused(
                f"num_sms = {num_sms}; it must not be negative: pass 0 for the choice of ep4j"
            )
        self.num_sms = num_sms
        self.num_max_nvl_chunked_send_tokens = num_max_nvl_chunked_send_tokens
        self.num_max_nvl_chunked_recv_tokens = num_max_nvl_chunked_recv_tokens
        self.num_max_rdma_chunked_send_tokens = num_max_rdma_chunked_send_tokens
        self.num_max_rdma_chunked_recv_tokens = num_max_rdma_chunked_recv_tokens

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """Bytes that a buffer for rows of `hidden_bytes` reserves on each rank.

        The buffer takes ``EP4J_MAX_TOKENS`` tokens a rank, 4096 where that is not set.
        """
        tokens = max_tokens_setting() or USUAL_TOKENS
        return round_up(throughput_bytes(tokens, hidden_bytes // 2, num_ranks), 128)

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """0: the bytes of ``get_nvl_buffer_size_hint`` include those for other nodes."""
        return 0


def throughput_bytes(
    max_tokens: int, hidden: int, num_ranks: int, top_k: int = _ASSUMED_TOP_K, **settings: Any
) -> int:
    """Bytes that high-throughput operations of this shape reserve on each rank; `settings`: of BufferConfig."""
    choose_device()
    config = ep4j.BufferConfig(
        hidden=hidden,
        top_k=top_k,
        experts=_ASSUMED_LOCAL_EXPERTS * num_ranks,
        max_tokens=max_tokens,
        **settings,
    )
    return config.sizes(num_ranks).total


def low_latency_size_hint(max_tokens: int, hidden: int, num_ranks: int, num_experts: int) -> int:
    """Bytes that low-latency operations of this shape reserve on each rank."""
    choose_device()
    sizes = ep4j.BufferConfig(
        hidden=hidden,
        top_k=min(_ASSUMED_TOP_K, num_experts),
        experts=num_experts,
        low_latency_max_tokens=max_tokens,
    ).sizes(num_ranks)
    return round_up(sizes.total, 128)
