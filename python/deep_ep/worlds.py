"""The ep4j group of a Buffer, made from a ``torch.distributed`` group or an mpi4py communicator.

Rank 0 chooses address, port and secret of the rendezvous. The ranks gather them with their settings, or with the error
of a rank: all ranks raise that, where a rank that raised it alone would leave the others waiting in the collective.
"""

import contextlib
import errno
import hashlib
import os
import platform
import secrets
import socket
from typing import Any, Callable, List, Optional, Tuple

import ep4j
import torch

from .config import number_setting
from .devices import choose_device
from .errors import refused

# Ports that rank 0 tries from that of EP4J_RENDEZVOUS on: one for each open Buffer.
_PORTS = 64
_MAX_PORT = 65535

# DeepEP's limit for a silent rank, on the host (NUM_CPU_TIMEOUT_SECS) and about on GPUs (NUM_TIMEOUT_CYCLES). ep4j's own
# limit is shorter: ranks that write a checkpoint or compile kernels meanwhile would end a program that DeepEP lets run.
PEER_TIMEOUT_SECONDS = 100.0


def ranks_per_node_setting(ranks: int) -> int:
    """``EP4J_RANKS_PER_NODE``: nodes of consecutive ranks, also on one host; 0 where it is not set."""
    declared = number_setting("EP4J_RANKS_PER_NODE")
    if declared and ranks % declared:
        raise refused(
            f"EP4J_RANKS_PER_NODE = {declared}; it must divide the {ranks} ranks: correct it or unset it"
        )
    return declared


class World:
    """Ranks of a Buffer, and the ep4j group that joins them.

    Attributes:
        timeout: seconds for which a rank waits for a silent one, in operations and collectives once all have joined.
    """

    def __init__(
        self,
        group: Any = None,
        comm: Any = None,
        declare: Callable[[int], int] = ranks_per_node_setting,
        timeout: float = PEER_TIMEOUT_SECONDS,
    ) -> None:
        """
        Args:
            declare: the ranks of a node that this rank declares, from the number of ranks; 0: those of a host.
        """
        if group is not None:
            self.rank, self.size = group.rank(), group.size()
        elif comm is not None:
            self.rank, self.size = comm.Get_rank(), comm.Get_size()
        else:
            raise refused(
                "group = None and comm = None; one must be given: pass a torch.distributed group or mpi4py's"
            )
        self.timeout = timeout
        with contextlib.ExitStack() as reserved:

            def mine() -> Tuple[int, Optional[Tuple[str, int, str]]]:
                choose_device()
                return declare(self.size), _rendezvous(reserved) if self.rank == 0 else None

            of_ranks = _gathered(mine, group, comm)
            self.declared_ranks_per_node = _same_on_all([declared for declared, _ in of_ranks])
            host, port, secret = of_ranks[0][1]
            self.group = ep4j.Group.join(
                rank=self.rank,
                ranks=self.size,
                host=host,
                port=port,
                secret=secret,
                hosting=self.rank == 0,
            )
        try:
            self.node_of_rank = self._nodes()
        except BaseException:
            self.group.close()
            raise

    @property
    def nodes(self) -> int:
        """Number of hosts of the ranks."""
        return len(set(self.node_of_rank))

    def _nodes(self) -> List[int]:
        declared = self.declared_ranks_per_node
        if declared:
            return [rank // declared for rank in range(self.size)]
        return _numbered(self.group.all_gather(_own_host()))

    def ranks_of_hosts(self, remedy: str) -> int:
        """Ranks of each host. If hosts differ, all ranks close the world and raise.

        `remedy`: what the caller of the buffer can do.
        """
        try:
            return _ranks_of_each(self.node_of_rank, remedy)
        except ep4j.InvalidArgument:
            self.close()
            raise

    def most(self, value: int) -> int:
        """The largest `value` of all ranks; collective."""
        return max(
            int.from_bytes(mine, "little") for mine in self.all_gather(value.to_bytes(8, "little"))
        )

    def all_gather(self, data: bytes) -> List[bytes]:
        """The bytes of all ranks, as many on each; collective."""
        return self.group.all_gather(data, self.timeout)

    def barrier(self) -> None:
        """Returns when all ranks have called it."""
        self.group.barrier(self.timeout)

    def close(self) -> None:
        self.group.close()


def _gathered(prepare: Callable[[], Any], group: Any, comm: Any = None) -> List[Any]:
    """What `prepare` returns on each rank; where it fails on a rank, all raise the error of the first such one.

    Collective of a torch.distributed group, or of an mpi4py communicator.
    """
    try:
        mine = prepare()
    except ep4j.Error as error:
        mine = error
    except Exception as error:
        # The other ranks may not know its class.
        mine = RuntimeError(f"{type(error).__name__}: {error}")
    if group is None:
        gathered = comm.allgather(mine)
    else:
        # Not a broadcast of rank 0, whose global number torch has of registered groups alone. Engines that grow and
        # shrink make groups that are not registered; torch gathers over these, too.
        gathered = [None] * group.size()
        torch.distributed.all_gather_object(gathered, mine, group=group)
    for rank, found in enumerate(gathered):
        text = f"{found} (on rank {rank})"
        if isinstance(found, ep4j.Error):
            raise type(found)(text, found.code, rank)
        if isinstance(found, Exception):
            raise RuntimeError(text)
    return gathered


def _same_on_all(declared: List[int]) -> int:
    """The ranks of a node, which each rank declares."""
    if len(set(declared)) > 1:
        raise refused(
            f"the ranks declare nodes of {declared} ranks, 0 where they declare none: set EP4J_RANKS_PER_NODE, or what"
            " else declares nodes, to the same number on all, or on none"
        )
    return declared[0]


def _rendezvous(reserved: contextlib.ExitStack) -> Tuple[str, int, str]:
    """Address and port at which rank 0 hosts the rendezvous, and a new secret.

    The port stays reserved until `reserved` is closed.
    """
    given = os.environ.get("EP4J_RENDEZVOUS", "")
    if not given:
        port = _reserve(0, reserved)
        assert port is not None
        return _own_address(), port, secrets.token_hex(16)
    host, _, text = given.rpartition(":")
    first = int(text) if text.isdecimal() else 0
    if not host or not 1 <= first <= _MAX_PORT:
        raise refused(
            f"EP4J_RENDEZVOUS = {given}; it must be host:port, port 1 to {_MAX_PORT}: correct it or unset it"
        )
    last = min(first + _PORTS - 1, _MAX_PORT)
    for candidate in range(first, last + 1):
        port = _reserve(candidate, reserved)
        if port is not None:
            return host, port, secrets.token_hex(16)
    raise refused(
        f"EP4J_RENDEZVOUS = {given}; none of the ports {first} to {last} is free: choose another port or unset it"
    )


def _reserve(port: int, reserved: contextlib.ExitStack) -> Optional[int]:
    """Binds a port, 0 for any free one; None if another program has it.

    The socket does not listen, so ep4j can bind the port beside it, and no other program gets it meanwhile: with
    SO_REUSEADDR Linux shares a port among sockets of which none listens, and gives it to nobody who asks for any.
    """
    probe = reserved.enter_context(socket.socket())
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("", port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return None
    return probe.getsockname()[1]


def _own_address() -> str:
    """The address of this host towards MASTER_ADDR, which other hosts reach too."""
    master = os.environ.get("MASTER_ADDR") or "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((master, 9))
            own = probe.getsockname()[0]
        except OSError:
            return master
    # Some hosts map their own name to a loopback address, which other hosts cannot use.
    return master if own.startswith("127.") else own


def physical_ranks_per_node(group: Any) -> int:
    """Ranks of each node of a torch.distributed group: ``EP4J_RANKS_PER_NODE``, or those of a host; collective."""
    of_ranks = _gathered(lambda: (ranks_per_node_setting(group.size()), _own_host()), group)
    return _same_on_all([declared for declared, _ in of_ranks]) or _ranks_of_each(
        _numbered([host for _, host in of_ranks]), "set EP4J_RANKS_PER_NODE"
    )


def _ranks_of_each(nodes: List[int], remedy: str) -> int:
    """Ranks of a node where each node has as many consecutive ranks; else raises."""
    per_node = nodes.count(0)
    if nodes != [rank // per_node for rank in range(len(nodes))]:
        raise refused(
            f"the ranks are on hosts number {nodes}; each host must have equally many consecutive ranks: start them"
            f" so, or {remedy}"
        )
    return per_node


def _own_host() -> bytes:
    """16 bytes that the processes of this host have in common."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read()
    except OSError:
        boot = ""
    return hashlib.sha256(f"{platform.node()} {boot}".encode()).digest()[:16]


def _numbered(hosts: List[bytes]) -> List[int]:
    """Number of the host of each rank, hosts in the order of their first rank."""
    order = list(dict.fromkeys(hosts))
    return [order.index(host) for host in hosts]
