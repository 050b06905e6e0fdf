"""``HybridEPBuffer``: Hybrid-EP's buffer over ep4j."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import ep4j
import torch
from ep4j.tensors import without_modes

from .config import number_setting
from .dense import choices_of, dense_map, dense_weights, require_top_k, weights_of
from .devices import engine_of
from .dtypes import FP8, as_ids
from .errors import HANDLE, TENSOR, TOKENS, TOP_K, refused, require_at_least, require_experts
from .hybrid_handle import HybridConfig, HybridRoutes, flat_handle, grouped_handle, hybrid_routes_of
from .layout import counted
from .shapes import Shape, Shapes
from .worlds import World, ranks_per_node_setting

# Choices of a token that a buffer takes at least, where the routing is dense.
_USUAL_TOP_K = 8
_MAX_TOP_K = 64
_USUAL_ALIGNMENT = 128


def indices_to_map(
    topk_idx: torch.Tensor,
    topk_weights: Optional[torch.Tensor],
    num_of_tokens: int,
    num_of_experts: int,
) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """The dense form of a routing: routing_map BOOL [N, E], probs FP32 [N, E] or None.

    Args:
        topk_idx: INT [N, K]; -1 is no expert.
        topk_weights: [N, K] or None.
    """
    if topk_idx.dim() != 2 or topk_idx.shape[0] != num_of_tokens:
        raise refused(
            f"topk_idx has shape {tuple(topk_idx.shape)}; it must be [{num_of_tokens}, top-k]:"
            " pass the ids of all tokens",
            TENSOR,
        )
    routing_map = dense_map(topk_idx, num_of_experts)
    if topk_weights is None:
        return routing_map, None
    return routing_map, dense_weights(topk_weights.float(), topk_idx, num_of_experts)


class BufferSizes(NamedTuple):
    """What a HybridEPBuffer holds at present, under Hybrid-EP's names."""

    hidden_dim: int
    max_num_of_tokens_per_rank: int
    num_of_experts_per_rank: int
    num_of_ranks_per_node: int
    num_of_nodes: int


class Configurer(NamedTuple):
    """The part of Hybrid-EP's configurer that callers read."""

    buffer_config: BufferSizes


class HybridEPBuffer:
    """Dispatch and combine with dense routing, also grouped by expert; the constructor is collective.

    Attributes:
        configurer: ``configurer.buffer_config`` has the sizes, for callers that compare them with a batch.
        group, rank, group_size, local_rank, node_rank, num_of_nodes, num_of_hybrid_ep_ranks_per_nvlink_domain
    """

    def __init__(
        self,
        group: Any,
        hidden_dim: int,
        max_num_of_tokens_per_rank: int,
        num_local_experts: int,
        use_fp8: bool = False,
        num_sms_dispatch_api: Optional[int] = None,
        num_sms_combine_api: Optional[int] = None,
        num_sms_preprocessing_api: Optional[int] = None,
        num_blocks_permute: Optional[int] = None,
        num_blocks_unpermute: Optional[int] = None,
        load_cached_kernels: bool = False,
        use_shared_buffer: bool = True,
        enable_custom_allgather: bool = False,
        num_of_hybrid_ep_ranks_per_nvlink_domain: Optional[int] = None,
        use_mnnvl: Optional[bool] = None,
    ) -> None:
        """
        Args:
            group: a torch.distributed group.
            hidden_dim: H; num_local_experts: L, so E = L * ranks.
            max_num_of_tokens_per_rank: largest N. As in Hybrid-EP the buffer grows at a larger batch, which all
                ranks then have in the same call.
            num_sms_dispatch_api, num_sms_combine_api: SMs of these operations on GPUs.
            num_of_hybrid_ep_ranks_per_nvlink_domain: declares nodes of consecutive ranks, as does the variable
                NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN; left out: the ranks of a host.
            use_fp8, num_sms_preprocessing_api, num_blocks_permute, num_blocks_unpermute, load_cached_kernels,
                use_shared_buffer, enable_custom_allgather, use_mnnvl: accepted, without effect: ep4j has no such
                kernels, and one buffer carries BF16 and FP8.
        """
        require_at_least(
            1,
            hidden_dim=hidden_dim,
            max_num_of_tokens_per_rank=max_num_of_tokens_per_rank,
            num_local_experts=num_local_experts,
        )

        def declare(ranks: int) -> int:
            declared = num_of_hybrid_ep_ranks_per_nvlink_domain or number_setting(
                "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"
            )
            if declared and ranks % declared:
                raise refused(
                    f"num_of_hybrid_ep_ranks_per_nvlink_domain = {declared}; it must divide the {ranks} ranks:"
                    " correct it or leave it out"
                )
            return declared or ranks_per_node_setting(ranks)

        self.group = group
        self._world = World(group, declare=declare)
        self.rank = self._world.rank
        self.group_size = self._world.size
        declared = self._world.declared_ranks_per_node
        per_node = declared or self._world.ranks_of_hosts(
            "pass num_of_hybrid_ep_ranks_per_nvlink_domain"
        )
        self.num_of_hybrid_ep_ranks_per_nvlink_domain = per_node
        self.local_rank = self.rank % per_node
        self.node_rank = self.rank // per_node
        self.num_of_nodes = self.group_size // per_node
        self._declared_ranks_per_node = declared
        self._hidden = hidden_dim
        self._local_experts = num_local_experts
        self._sms = {"dispatch": num_sms_dispatch_api, "combine": num_sms_combine_api}
        self._top_k: Dict[int, int] = {}  # by number of experts, agreed among the ranks
        self._shapes = Shapes(self._world, None, max_tokens=max_num_of_tokens_per_rank)

    @property
    def configurer(self) -> Configurer:
        return Configurer(
            BufferSizes(
                self._hidden,
                self._shapes.max_tokens,
                self._local_experts,
                self.num_of_hybrid_ep_ranks_per_nvlink_domain,
                self.num_of_nodes,
            )
        )

    def empty_jit_cache(self) -> None:
        """Nothing: ``./ep4j cache clear`` empties the cache of compiled kernels."""

    def update_template_config(self, **settings: Any) -> "HybridConfig":
        """The settings that were passed: ep4j has no kernel templates to tune."""
        return HybridConfig(self._hidden, self._shapes.max_tokens, self._local_experts, settings)

    @without_modes
    def dispatch(
        self,
        hidden: torch.Tensor,
        scaling_factor: Optional[torch.Tensor] = None,
        topk_idx: Optional[torch.Tensor] = None,
        topk_weights: Optional[torch.Tensor] = None,
        num_of_experts: Optional[int] = None,
        probs: Optional[torch.Tensor] = None,
        routing_map: Optional[torch.Tensor] = None,
        num_dispatched_tokens_tensor: Optional[torch.Tensor] = None,
        num_dispatched_tokens: Optional[int] = None,
        handle: Optional[tuple] = None,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor], Optional[torch.Tensor], tuple]:
        """Sends each token once to each rank that has one of its experts; collective.

        Args:
            hidden: BF16 [N, H], or bytes (FP8) [N, H] with scaling_factor FP32 [N, H/128]. As in Hybrid-EP,
                scales of BF16 rows are not sent.
            routing_map, probs: BOOL and FP32 [N, E]; or topk_idx, topk_weights [N, K] of any strides, with num_of_experts.
            handle: sends along the routes of an earlier dispatch.
            num_dispatched_tokens: rows of the results, without waiting for counts.

        Returns:
            Rows [n, H] by source rank and token; probs FP32 [n, experts of the node], 0 outside of this rank's
            experts, or None; scales or None; handle.
        """
        rows, scales = self._rows(hidden, scaling_factor)
        if handle is None:
            choices, weights, experts = self._routing(
                hidden, topk_idx, topk_weights, num_of_experts, probs, routing_map
            )
            shape = self._shape(hidden, choices, experts, 0)
            fixed = num_dispatched_tokens or 0
            routes = None
        else:
            routes = hybrid_routes_of(handle, grouped=False)
            self._require_tokens(hidden, routes)
            shape, choices, experts, fixed = (
                routes.shape,
                routes.choices,
                routes.experts,
                routes.fixed,
            )
            weights = self._cached_weights(topk_idx, topk_weights, probs, routes)
        shape.use_sms(self._sms["dispatch"])
        resend = routes is not None and weights is None
        received = shape.buffer.dispatch(
            rows,
            None if resend else choices,
            weights,
            scales=scales,
            handle=routes.handle if resend else None,
            max_rows=fixed,
        )
        # First, so that a GPU copies the rows while the host enqueues the small copies.
        received_rows = received.x.clone()
        out_probs = None
        if weights is not None:
            first = self.local_rank * (experts // self.group_size)
            out_probs = dense_weights(
                received.topk_weights, received.topk_idx, experts // self.num_of_nodes, first
            )
        if routes is None:
            routes = HybridRoutes(
                shape,
                received.handle,
                choices,
                experts,
                hidden.shape[0],
                received.rows,
                fixed,
                False,
            )
            routes.dense = routing_map is not None
            routes.local_choices = received.topk_idx.clone()
            handle = flat_handle(
                routes,
                (received.source_tokens >= 0).sum(dtype=torch.int32).view(1),
                dense_map(routes.local_choices, experts // self.group_size),
                self.update_template_config(),
            )
        return (
            received_rows,
            out_probs,
            None if scales is None else received.scales.clone(),
            handle,
        )

    @without_modes
    def combine(
        self,
        hidden: torch.Tensor,
        probs: Optional[torch.Tensor] = None,
        handle: Optional[tuple] = None,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """Returns rows to their tokens and sums them, without weights; collective.

        Args:
            hidden: BF16 [n, H] in the order of the dispatch.
            probs: FP32 [n, experts of the node]; the columns of this rank's experts are returned.

        Returns:
            Sums BF16 [N, H]; probs FP32 [N, E] or None.
        """
        routes = hybrid_routes_of(handle, grouped=False)
        weights = None
        if probs is not None:
            local = routes.experts // self.group_size
            first = self.local_rank * local
            weights = weights_of(probs[:, first : first + local], routes.local_choices)
        return self._combine(hidden, weights, routes)

    @without_modes
    def dispatch_with_permute(
        self,
        *,
        hidden: torch.Tensor,
        topk_idx: Optional[torch.Tensor] = None,
        topk_weights: Optional[torch.Tensor] = None,
        num_of_experts_per_rank: Optional[int] = None,
        num_of_experts: Optional[int] = None,
        use_fp8: Optional[bool] = None,
        routing_map: Optional[torch.Tensor] = None,
        probs: Optional[torch.Tensor] = None,
        scaling_factor: Optional[torch.Tensor] = None,
        num_permuted_tokens: Optional[int] = None,
        pad_multiple: Optional[int] = None,
        handle: Optional[tuple] = None,
        non_blocking: bool = False,
        fuse_permute_dispatch: bool = False,
        num_dispatched_tokens: Optional[int] = None,
        use_host_meta: Optional[bool] = None,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor], Optional[torch.Tensor], torch.Tensor, tuple]:
        """Sends each token to each of its experts, rows grouped by local expert; collective.

        Args:
            hidden, routing_map, probs, topk_idx, topk_weights, scaling_factor: as in dispatch.
            pad_multiple: groups begin at and fill multiples of it, with rows of zeros.
            num_permuted_tokens: P, rows of the results; needed with non_blocking. Rows that do not fit are left
                out, and the overflow flag of the handle is set.
            handle: sends along the routes of an earlier dispatch.
            use_fp8, fuse_permute_dispatch: accepted: the type of `hidden` decides, and rows always travel to
                their groups at once.

        Returns:
            Rows [P, H]; probs FP32 [P] or None; scales or None; tokens of each local expert with padding INT32 [L];
            handle.
        """
        if use_host_meta is not None:
            non_blocking = not use_host_meta
        alignment = pad_multiple or 1
        if non_blocking and num_permuted_tokens is None:
            raise refused(
                "non_blocking = True without num_permuted_tokens: pass the number of rows"
            )
        if non_blocking and num_permuted_tokens % alignment:
            raise refused(
                f"num_permuted_tokens = {num_permuted_tokens}; it must be a multiple of pad_multiple = {alignment}"
            )
        rows, scales = self._rows(hidden, scaling_factor)
        if handle is None:
            choices, weights, experts = self._routing(
                hidden, topk_idx, topk_weights, num_of_experts, probs, routing_map
            )
            if (
                num_of_experts_per_rank is not None
                and num_of_experts_per_rank * self.group_size != experts
            ):
                raise refused(
                    f"num_of_experts_per_rank = {num_of_experts_per_rank};"
                    f" {experts} experts on {self.group_size} ranks"
                    f" are {experts // self.group_size} a rank: correct one of the two"
                )
            shape = self._shape(hidden, choices, experts, alignment)
            fixed = num_permuted_tokens or 0
            routes = None
        else:
            routes = hybrid_routes_of(handle, grouped=True)
            self._require_tokens(hidden, routes)
            shape, choices, experts, fixed = (
                routes.shape,
                routes.choices,
                routes.experts,
                routes.fixed,
            )
            alignment = routes.alignment
            weights = self._cached_weights(topk_idx, topk_weights, probs, routes)
        shape.use_sms(self._sms["dispatch"])
        resend = routes is not None and weights is None
        limit = min(fixed, shape.max_rows)
        received = shape.buffer.dispatch(
            rows,
            None if resend else choices,
            weights,
            scales=scales,
            handle=routes.handle if resend else None,
            max_rows=limit,
            layout=ep4j.EXPERT_MAJOR,
            expert_alignment=alignment,
            zero_padding=True,
        )
        # First, as in dispatch.
        received_rows = _owned(received.x, fixed)
        if routes is None:
            routes = HybridRoutes(
                shape,
                received.handle,
                choices,
                experts,
                hidden.shape[0],
                received.rows,
                fixed,
                True,
            )
            routes.dense = routing_map is not None
            routes.alignment = alignment
            if non_blocking:
                counts = self._counts_without_wait(choices, experts)
            else:
                counts = received.counts.to(hidden.device, copy=True)
            routes.padded = (
                torch.div(counts + (alignment - 1), alignment, rounding_mode="floor") * alignment
            )
            rows_of_groups = routes.padded.sum(dtype=torch.int32).view(1)
            overflow = (
                rows_of_groups > fixed
                if fixed
                else torch.zeros_like(rows_of_groups, dtype=torch.bool)
            )
            handle = grouped_handle(
                routes,
                counts,
                overflow.int(),
                self.update_template_config(pad_multiple=pad_multiple),
            )
        return (
            received_rows,
            None if weights is None else _owned(received.row_weights, fixed),
            None if scales is None else _owned(received.scales, fixed),
            routes.padded,
            handle,
        )

    @without_modes
    def combine_with_unpermute(
        self,
        *,
        hidden: torch.Tensor,
        probs: Optional[torch.Tensor] = None,
        handle: Optional[tuple] = None,
        pad_multiple: Optional[int] = None,
        fuse_unpermute_combine: bool = False,
        num_dispatched_tokens: Optional[int] = None,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """Returns rows of groups to their tokens and sums them, without weights; collective.

        Args:
            hidden: BF16 [P, H] in the order of the dispatch.
            probs: FP32 [P], returned to the tokens.
            pad_multiple, fuse_unpermute_combine: accepted: the handle knows its groups.

        Returns:
            Sums BF16 [N, H]; probs FP32 [N, E] or None.
        """
        routes = hybrid_routes_of(handle, grouped=True)
        if probs is not None and probs.dim() != 1:
            raise refused(
                f"probs has shape {tuple(probs.shape)}; it must be [rows]: reshape it", TENSOR
            )
        return self._combine(hidden, probs, routes)

    def _combine(
        self, hidden: torch.Tensor, weights: Optional[torch.Tensor], routes: HybridRoutes
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        if hidden.dim() != 2 or hidden.shape[0] < routes.rows:
            raise refused(
                f"hidden has shape {tuple(hidden.shape)}; it must have the {routes.rows} rows of the"
                " dispatch: pass them all",
                TENSOR,
            )
        routes.shape.use_sms(self._sms["combine"])
        out = torch.empty(
            (routes.tokens, hidden.shape[1]), dtype=hidden.dtype, device=hidden.device
        )
        combined = routes.shape.buffer.combine(
            hidden[: routes.rows],
            routes.handle,
            topk_weights=None if weights is None else weights[: routes.rows].float().contiguous(),
            out=out,
        )
        if weights is None:
            return out, None
        return out, dense_weights(combined.topk_weights, routes.choices, routes.experts)

    def _rows(
        self, hidden: torch.Tensor, scaling_factor: Optional[torch.Tensor]
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        if hidden.dim() != 2 or hidden.dtype not in (
            torch.bfloat16,
            torch.float16,
            torch.uint8,
            FP8,
        ):
            raise refused(
                f"hidden is {hidden.dtype} {tuple(hidden.shape)}; it must be torch.bfloat16 or"
                " torch.uint8 [tokens, hidden]",
                TENSOR,
            )
        if hidden.element_size() == 1:
            if scaling_factor is None:
                raise refused(
                    "FP8 rows without scaling_factor: pass FP32 [tokens, hidden / 128]", TENSOR
                )
            return hidden, scaling_factor
        return hidden, None

    def _routing(
        self,
        hidden: torch.Tensor,
        topk_idx: Optional[torch.Tensor],
        topk_weights: Optional[torch.Tensor],
        num_of_experts: Optional[int],
        probs: Optional[torch.Tensor],
        routing_map: Optional[torch.Tensor],
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor], int]:
        """Choices INT64 [N, K], their weights FP32 [N, K] or None, and the number of experts."""
        if routing_map is None and topk_idx is None:
            raise refused(
                "no routing: pass routing_map, or topk_idx with num_of_experts, or a handle"
            )
        if routing_map is None:
            if num_of_experts is None:
                raise refused("topk_idx without num_of_experts: pass it")
            choices = as_ids(topk_idx).contiguous()
            return choices, _contiguous(topk_weights), self._experts(num_of_experts)
        if (
            routing_map.dtype != torch.bool
            or routing_map.dim() != 2
            or routing_map.shape[0] != hidden.shape[0]
        ):
            raise refused(
                f"routing_map is {routing_map.dtype} {tuple(routing_map.shape)}; it must be torch.bool"
                f" [{hidden.shape[0]}, experts]",
                TENSOR,
            )
        experts = self._experts(routing_map.shape[1])
        top_k = self._agreed_top_k(routing_map)
        worst = require_top_k(routing_map, top_k)
        if worst is not None:
            raise refused(
                f"token {worst[0]} has {worst[1]} experts; the buffer takes {top_k}, as the ranks agreed at its first"
                " call: call first with a routing_map that has the largest number, or pass topk_idx",
                TOP_K,
            )
        choices = choices_of(routing_map, top_k)
        return choices, None if probs is None else weights_of(probs, choices), experts

    def _experts(self, experts: int) -> int:
        require_experts(experts, self.group_size)
        return experts

    def _agreed_top_k(self, routing_map: torch.Tensor) -> int:
        """The largest number of experts of a token of all ranks, at the first dense routing; at least 8."""
        experts = routing_map.shape[1]
        top_k = self._top_k.get(experts)
        if top_k is None:
            mine = int(routing_map.sum(1).max()) if routing_map.numel() else 0
            top_k = min(max(self._world.most(mine), _USUAL_TOP_K), experts)
            if top_k > _MAX_TOP_K:
                raise refused(f"a token has {top_k} experts; ep4j takes {_MAX_TOP_K}", TOP_K)
            self._top_k[experts] = top_k
        return top_k

    def _shape(
        self, hidden: torch.Tensor, choices: torch.Tensor, experts: int, alignment: int
    ) -> Shape:
        fits = hidden.shape[0] <= self._shapes.max_tokens
        largest = self._shapes.max_tokens if fits else self._grown(hidden)
        return self._shapes.throughput(
            engine_of(hidden),
            hidden.shape[1],
            choices.shape[1],
            experts,
            hidden.shape[0],
            fixed_tokens=largest,
            grouped=alignment > 0,
            expert_alignment=max(alignment, _USUAL_ALIGNMENT),
            ranks_per_node=self._declared_ranks_per_node,
        )

    def _grown(self, hidden: torch.Tensor) -> int:
        """Tokens a rank of a buffer for the largest batch of any rank; collective."""
        tokens = hidden.shape[0]
        what = f"a batch has {tokens} tokens; the buffer takes {self._shapes.max_tokens} a rank"
        if hidden.is_cuda and torch.cuda.is_current_stream_capturing():
            raise refused(
                f"{what}, and cannot grow while a CUDA graph is captured: call once outside with the largest batch",
                TOKENS,
            )
        try:
            # At least twice as large: all buffers then take no more memory than two of the last one.
            return max(self._world.most(tokens), 2 * self._shapes.max_tokens)
        except (ep4j.PeerLost, ep4j.GroupTimeout) as error:
            raise type(error)(
                f"{error}; {what}, and all ranks together open a larger one: let all pass more than that in the same"
                " call, or pass a larger max_num_of_tokens_per_rank to the constructor. Nothing was sent",
                error.code,
                error.rank,
            ) from error

    def _counts_without_wait(self, choices: torch.Tensor, experts: int) -> torch.Tensor:
        """INT32 [L]: tokens of this rank's experts, on the device, also in a CUDA graph.

        ep4j delivers its counts to the host. This costs a sum over the ranks of the caller's group.
        """
        counts = counted(choices, experts)
        torch.distributed.all_reduce(counts, group=self.group)
        local = experts // self.group_size
        return counts[self.rank * local : (self.rank + 1) * local].clone()

    def _cached_weights(
        self,
        topk_idx: Optional[torch.Tensor],
        topk_weights: Optional[torch.Tensor],
        probs: Optional[torch.Tensor],
        routes: HybridRoutes,
    ) -> Optional[torch.Tensor]:
        """Weights to send along the routes of a handle: the routing is sent again with them."""
        if probs is None and topk_weights is not None and routes.dense:
            if topk_idx is None:
                raise refused(
                    "topk_weights without topk_idx; the handle is that of a routing_map, whose choices have another"
                    " order: pass probs, or topk_idx too"
                )
            probs = dense_weights(topk_weights, as_ids(topk_idx), routes.experts)
        return _contiguous(topk_weights) if probs is None else weights_of(probs, routes.choices)

    def _require_tokens(self, hidden: torch.Tensor, routes: HybridRoutes) -> None:
        if hidden.shape[0] != routes.tokens:
            raise refused(
                f"hidden has {hidden.shape[0]} tokens; the handle is that of a dispatch of"
                f" {routes.tokens}: pass as many",
                HANDLE,
            )

    def __del__(self) -> None:
        shapes = getattr(self, "_shapes", None)
        if shapes is not None:
            try:
                shapes.close()
            except ep4j.Error:
                pass  # The process ends, or the group is lost: no caller can act on it here.


def _contiguous(weights: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """Weights as ep4j takes them. Hybrid-EP takes any strides, such as the first columns of a sort."""
    return None if weights is None else weights.contiguous()


def _owned(view: torch.Tensor, rows: int) -> torch.Tensor:
    """A copy of a view, with `rows` rows where the caller fixed their number."""
    if rows <= view.shape[0]:
        return view.clone()
    larger = view.new_empty((rows, *view.shape[1:]))
    larger[: view.shape[0]] = view
    # As bytes: not each version of torch fills FP8.
    larger[view.shape[0] :].view(torch.uint8).zero_()
    return larger
