"""Which engine and which GPU serve the tensors of this process."""

import os

import ep4j
import torch

from .errors import TENSOR, refused


def choose_device() -> None:
    """Lets ep4j use torch's current GPU. The JVM reads the variable once: call this before ep4j starts."""
    if torch.cuda.is_available():
        os.environ.setdefault("EP4J_CUDA_DEVICE", str(torch.cuda.current_device()))


def engine_of(tensor: torch.Tensor) -> str:
    """Name of the ep4j engine for tensors on the device of `tensor`."""
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise refused(
            f"a tensor is on {tensor.device}; it must be on a CPU or a CUDA device: copy it there",
            TENSOR,
        )
    return "cuda" if kind == "cuda" else "host"


def device_of(buffer: "ep4j.Buffer") -> str:
    """The kind of device on which the tensors of a buffer are."""
    return "cuda" if buffer.config.engine == "cuda" else "cpu"
