"""Groups: the ranks that exchange rows."""

import ctypes
import dataclasses
from typing import List, Optional

from . import _abi, _jvm, arguments
from .config import RankState, record

_TIMEOUT = 60.0
_HOSTING = {None: 0, True: 1, False: 2}


class Group:
    """The ranks of a job as seen by this rank.

    A context manager: it closes the group. Any thread may use it; one thread of a rank calls the
    collective methods, and all ranks call them in the same order. Times are in seconds.

    Attributes:
        rank: this rank, from 0.
        size: number of ranks, departed ones included.
        job_id: the same on all ranks, different from other jobs on these hosts.
        in_process: whether all ranks are threads of this process.
    """

    def __init__(self, number: int) -> None:
        """Takes over an ep4j_group; programs use the class methods."""
        info = _abi.GroupInfo()
        self.number = number
        _jvm.check(_jvm.start().group_info(number, ctypes.addressof(info)))
        self.rank: int = info.rank
        self.size: int = info.ranks
        self.job_id: str = info.job_id.decode()
        self.in_process = bool(info.in_process)  # type: ignore

    @classmethod
    def from_environment(cls) -> "Group":
        """Joins the group for which this process was started: EP4J_RANK and so on, torchrun,
        mpirun, srun. Without such variables a group of one rank.

        Raises:
            GroupTimeout: ranks are missing.
            JoinRefused: the rendezvous refuses this rank.
        """
        number = ctypes.c_uint64()
        _jvm.check(_jvm.enter().group_from_environment(ctypes.addressof(number)))
        return cls(number.value)

    @classmethod
    def join(
        cls,
        *,
        rank: int,
        ranks: int,
        host: str = "127.0.0.1",
        port: int = 29400,
        secret: str = "",
        job: Optional[str] = None,
        hosting: Optional[bool] = None,
        join_timeout: float = _TIMEOUT,
        heartbeat: float = 0.25,
        liveness: float = 2.0,
    ) -> "Group":
        """Joins a group, and returns when all ranks have joined.

        Args:
            rank: this rank, from 0.
            ranks: number of ranks.
            host: host name or address of the rendezvous.
            port: TCP port of the rendezvous.
            secret: known to the ranks of the job only; required for more than one rank.
            job: name of the job.
            hosting: whether this process hosts the rendezvous; None: rank 0 does.
            join_timeout: wait for all ranks.
            heartbeat: interval between signs of life.
            liveness: silence after which a rank counts as dead.

        Raises:
            InvalidArgument: an argument is not valid.
            GroupTimeout: ranks are missing.
            JoinRefused: the rendezvous refuses this rank; a retry does not help.
        """
        return cls._enter(
            "group_join",
            _Join(rank, ranks, host, port, secret, job, hosting, join_timeout, heartbeat, liveness),
        )

    @classmethod
    def rejoin(
        cls,
        *,
        rank: int,
        ranks: int,
        host: str = "127.0.0.1",
        port: int = 29400,
        secret: str = "",
        job: Optional[str] = None,
        hosting: Optional[bool] = None,
        join_timeout: float = _TIMEOUT,
        heartbeat: float = 0.25,
        liveness: float = 2.0,
    ) -> "Group":
        """Replaces a departed rank, and returns when the live ranks have called `readmit`.

        Arguments and errors are those of `join`.
        """
        return cls._enter(
            "group_rejoin",
            _Join(rank, ranks, host, port, secret, job, hosting, join_timeout, heartbeat, liveness),
        )

    @classmethod
    def _enter(cls, function: str, join: "_Join") -> "Group":
        config = join.structure()
        number = ctypes.c_uint64()
        _jvm.check(
            getattr(_jvm.enter(), function)(ctypes.addressof(config), ctypes.addressof(number))
        )
        return cls(number.value)

    @classmethod
    def in_process(cls, ranks: int) -> "List[Group]":  # type: ignore[no-redef]
        """A group whose ranks are threads of this process: one object for each thread.

        The thread that was the last to call a collective function of a rank's group, or to open
        or reset a buffer of the rank, owns the rank: two seconds after its end the rank is dead.
        """
        count = arguments.int32("ranks", ranks)
        numbers = (ctypes.c_uint64 * max(count, 0))()
        _jvm.check(_jvm.enter().group_in_process(count, ctypes.addressof(numbers)))
        return [cls(number) for number in numbers]

    def rank_state(self, rank: int) -> RankState:
        """A rank as seen by this rank; does not wait."""
        state = _abi.RankState()
        _jvm.check(
            _jvm.start().group_rank_state(
                self.number, arguments.int32("rank", rank), ctypes.addressof(state)
            )
        )
        return record(RankState, state)

    def all_gather(self, data: bytes, timeout: float = _TIMEOUT) -> List[bytes]:
        """Collective: the bytes of all ranks, in rank order.

        Args:
            data: the same number of bytes on all ranks, up to 1 MiB.

        Raises:
            ConfigurationMismatch: ranks passed different numbers of bytes.
            GroupTimeout: ranks did not call in time.
            PeerLost: a rank has left the group.
        """
        data = bytes(data)
        length = len(data)
        received = ctypes.create_string_buffer(max(length * self.size, 1))
        mine = ctypes.c_char_p(data)
        _jvm.check(
            _jvm.start().group_all_gather(
                self.number,
                ctypes.cast(mine, ctypes.c_void_p),
                length,
                ctypes.addressof(received),
                arguments.milliseconds("timeout", timeout),
            )
        )
        return [received.raw[r * length : (r + 1) * length] for r in range(self.size)]

    def barrier(self, timeout: float = _TIMEOUT) -> None:
        """Collective: returns when all ranks have called it.

        Raises:
            GroupTimeout: ranks did not call in time.
            PeerLost: a rank has left the group.
        """
        _jvm.check(
            _jvm.start().group_barrier(self.number, arguments.milliseconds("timeout", timeout))
        )

    def survivors(self, timeout: float = _TIMEOUT) -> "Group":
        """Collective among the live ranks: a new group of them, renumbered from 0."""
        number = ctypes.c_uint64()
        _jvm.check(
            _jvm.start().group_survivors(
                self.number,
                arguments.milliseconds("timeout", timeout),
                ctypes.addressof(number),
            )
        )
        return Group(number.value)

    def readmit(self, timeout: float = _TIMEOUT) -> List[int]:
        """Collective among the live ranks: admits restarted processes; waits for one in `rejoin`;
        returns their ranks, ascending.
        """
        ranks = (ctypes.c_int32 * self.size)()
        count = ctypes.c_int32()
        _jvm.check(
            _jvm.start().group_readmit(
                self.number,
                arguments.milliseconds("timeout", timeout),
                ctypes.addressof(ranks),
                self.size,
                ctypes.addressof(count),
            )
        )
        return list(ranks[: count.value])

    def fail(self, why: str) -> None:
        """Marks this rank as lost, notifies the others at once, and closes the group."""
        text = ctypes.c_char_p(arguments.text("why", why))
        _jvm.check(_jvm.start().group_fail(self.number, ctypes.cast(text, ctypes.c_void_p)))

    def close(self) -> None:
        """Leaves the group in good order; close its buffers before. Closing twice is harmless."""
        _jvm.check(_jvm.start().close(self.number))

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclasses.dataclass(frozen=True)
class _Join:
    """How a rank finds its group."""

    rank: int
    ranks: int
    host: str
    port: int
    secret: str
    job: Optional[str]
    hosting: Optional[bool]
    join_timeout: float
    heartbeat: float
    liveness: float

    def structure(self) -> _abi.GroupConfig:
        config = _abi.GroupConfig()
        for name in ("rank", "ranks", "port"):
            setattr(config, name, arguments.int32(name, getattr(self, name)))
        for name in ("host", "secret", "job"):
            setattr(config, name, arguments.text(name, getattr(self, name)))
        config.hosting = _HOSTING[None if self.hosting is None else bool(self.hosting)]
        for name in ("join_timeout", "heartbeat", "liveness"):
            setattr(config, name + "_ms", arguments.milliseconds(name, getattr(self, name)))
        return config
