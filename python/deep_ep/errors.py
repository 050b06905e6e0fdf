"""Errors that ``deep_ep`` finds itself: ep4j's classes and codes."""

from ep4j.errors import InvalidArgument, InvalidUse

ARGUMENT = 1000  # an argument or a setting has a value that is not allowed
TENSOR = 1400  # a tensor has another type or shape than the operation takes
TOKENS = 1408  # a batch has more tokens than the buffer takes
TOP_K = 1409  # a routing has another top-k than the buffer takes
EXPERT = 1415  # a routing names an expert that does not exist
CLOSED = 2303  # the buffer is closed
HANDLE = 1424  # a handle is not one of a dispatch of this buffer
OVERFLOW = 4001  # more rows are routed to a rank than its results hold


def refused(text: str, code: int = ARGUMENT) -> InvalidArgument:
    """An argument that is not accepted: `text` says what is wrong and what to do."""
    return InvalidArgument(f"EP4J-{code}: {text}", code)


def require_at_least(minimum: int, **values: int) -> None:
    """Refuses arguments that are smaller."""
    for name, value in values.items():
        if value < minimum:
            raise refused(f"{name} = {value}; it must be at least {minimum}: correct it")


def require_experts(num_experts: int, ranks: int) -> None:
    """Refuses a number of experts that does not divide among the ranks."""
    if num_experts < 1 or num_experts % ranks:
        raise refused(
            f"num_experts = {num_experts}; it must be a multiple of the {ranks} ranks: pad the experts"
        )


def misused(text: str, code: int) -> InvalidUse:
    """A call that the state of the object does not allow."""
    return InvalidUse(f"EP4J-{code}: {text}", code)
