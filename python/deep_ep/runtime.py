"""``Buffer.runtime``: the methods of DeepEP's native object that callers use."""

import torch

from .worlds import World


class Runtime:
    """Ranks and nodes. A node is a host; ``rdma`` ranks are nodes, as in DeepEP."""

    def __init__(self, world: World) -> None:
        self._world = world

    def is_available(self) -> bool:
        return True

    def is_internode_available(self) -> bool:
        return self._world.nodes > 1

    def get_num_rdma_ranks(self) -> int:
        return self._world.nodes

    def get_rdma_rank(self) -> int:
        return self._world.node_of_rank[self._world.rank]

    def get_root_rdma_rank(self, is_global: bool = False) -> int:
        """The rank of the first host with the place of this rank on its own host; its node without `is_global`."""
        nodes = self._world.node_of_rank
        place = nodes[: self._world.rank].count(nodes[self._world.rank])
        return [rank for rank, node in enumerate(nodes) if node == 0][place] if is_global else 0

    def get_local_device_id(self) -> int:
        return torch.cuda.current_device() if torch.cuda.is_available() else 0
