"""``EPHandle``: the routes of a dispatch of ``ElasticBuffer``, with the members of DeepEP V2."""

import functools
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import torch

from .config import round_up
from .dense import dense_map
from .errors import HANDLE, refused
from .event import EventHandle
from .expansion import Expansion, chosen_by, repeated, tokens_of
from .layout import counted
from .routes import Routes, positions


class Settings(NamedTuple):
    """What a dispatch was asked for."""

    do_expand: bool
    num_experts: int
    expert_alignment: int
    num_max_tokens_per_rank: int
    num_sms: int


def _after_dispatch(compute: Callable[[Any], torch.Tensor]) -> Any:
    """A member that is computed when it is first read, on the current stream, after the dispatch."""

    @functools.wraps(compute)
    def computed(handle: "EPHandle") -> torch.Tensor:
        if handle.dispatched is not None:
            handle.dispatched.current_stream_wait()
        return compute(handle)

    return functools.cached_property(computed)


class EPHandle:
    """Routes for cached dispatches and combines. Members with a docstring are computed when they are first read.

    Attributes:
        do_expand: whether rows are those of choices, grouped by local expert.
        num_experts, expert_alignment, num_max_tokens_per_rank, num_sms: of the dispatch.
        topk_idx: [T, K] in the integer type of the caller, a copy, or with do_handle_copy = False the caller's tensor.
        num_recv_tokens: n, tokens that this rank received; num_max_tokens_per_rank * ranks without do_cpu_sync.
        num_expanded_tokens: P, rows of choices with padding; the largest possible number without do_cpu_sync.
        num_recv_tokens_per_expert_list: rows of each local expert with padding; [] without do_cpu_sync.
        dispatched: event of an asynchronous dispatch, for which the current stream waits before it computes a member.
        token_metadata_at_forward, channel_linked_list: None: only DeepEP's transport reads them.
    """

    token_metadata_at_forward: None = None
    channel_linked_list: None = None

    def __init__(
        self,
        routes: Routes,
        choices: torch.Tensor,
        counts: Optional[List[int]],
        topk_idx: torch.Tensor,
        settings: Settings,
        *,
        rank: int,
        num_ranks: int,
        num_scaleup_ranks: int,
    ) -> None:
        """
        Args:
            routes: of the dispatch, with sources: token and rank of each row.
            choices: INT64 [n, K], local expert of each choice or -1, a tensor that nobody else has.
            counts: tokens of each local expert; None without do_cpu_sync.
        """
        self.routes = routes
        self.choices = choices
        self.topk_idx = topk_idx
        self.do_expand = settings.do_expand
        self.num_experts = settings.num_experts
        self.expert_alignment = settings.expert_alignment
        self.num_max_tokens_per_rank = settings.num_max_tokens_per_rank
        self.num_sms = settings.num_sms
        self._rank, self._ranks, self._scaleup_ranks = rank, num_ranks, num_scaleup_ranks
        self.dispatched: Optional[EventHandle] = None
        self.num_recv_tokens = routes.rows
        if counts is None:
            self.num_recv_tokens_per_expert_list: List[int] = []
            self.num_expanded_tokens = self._most_rows()
        else:
            aligned = [round_up(count, self.expert_alignment) for count in counts]
            self.num_recv_tokens_per_expert_list = aligned
            self.num_expanded_tokens = sum(aligned)
        self.expansion: Optional[Expansion] = None
        if self.do_expand:
            chosen = chosen_by(choices, self._local_experts)
            tokens_of_experts = tokens_of(chosen)
            self.num_unaligned_recv_tokens_per_expert = tokens_of_experts
            starts = self.psum_num_recv_tokens_per_expert - tokens_of_experts
            self.expansion = Expansion(choices, chosen, starts, self.num_expanded_tokens)

    def tensors(self) -> Tuple[torch.Tensor, ...]:
        """The tensors that the handle holds."""
        held = (*vars(self).values(), *self.routes.sources)
        places = () if self.expansion is None else self.expansion.tensors()
        return tuple(one for one in (*held, *places) if isinstance(one, torch.Tensor))

    @property
    def _local_experts(self) -> int:
        return self.num_experts // self._ranks

    def _most_rows(self) -> int:
        """The largest possible number of rows of choices, with padding."""
        of_choices = self.num_recv_tokens * min(self.topk_idx.shape[1], self._local_experts)
        padding = (self.expert_alignment - 1) * self._local_experts
        return round_up(of_choices + padding, self.expert_alignment)

    @_after_dispatch
    def num_unaligned_recv_tokens_per_expert(self) -> torch.Tensor:
        """INT32 [L]: tokens of each local expert, without padding."""
        return tokens_of(chosen_by(self.choices, self._local_experts))

    @_after_dispatch
    def psum_num_recv_tokens_per_expert(self) -> torch.Tensor:
        """INT32 [L]: where the rows of each local expert end, with padding; with do_expand without its own padding."""
        counts, alignment = self.num_unaligned_recv_tokens_per_expert, self.expert_alignment
        aligned = (counts + (alignment - 1)).div(alignment, rounding_mode="floor") * alignment
        ends = aligned.cumsum(0, dtype=torch.int32)
        return ends - aligned + counts if self.do_expand else ends

    @_after_dispatch
    def psum_num_recv_tokens_per_scaleup_rank(self) -> torch.Tensor:
        """INT32 [U]: tokens from the ranks with place 0 to i in their node; the last element is their number."""
        ranks = self.routes.sources[1]
        places = ranks.remainder(self._scaleup_ranks).masked_fill(ranks < 0, -1)
        return counted(places, self._scaleup_ranks).cumsum(0, dtype=torch.int32)

    @_after_dispatch
    def recv_src_metadata(self) -> torch.Tensor:
        """INT32 [n, K + 2] of each received token; -1 where there is none.

        Column 0 is its source rank * num_max_tokens_per_rank + its number there, column 1 the place of the source in
        its node * K + its first choice of this rank, the others with do_expand the rows of its choices, else -1.
        """
        tokens, ranks = (source.long() for source in self.routes.sources)
        choices = self.choices
        first = (choices >= 0).int().argmax(1)
        columns = torch.stack(
            [
                ranks * self.num_max_tokens_per_rank + tokens,
                ranks.remainder(self._scaleup_ranks) * choices.shape[1] + first,
            ],
            dim=1,
        ).masked_fill((ranks < 0).unsqueeze(1), -1)
        rows = torch.full_like(choices, -1) if self.expansion is None else self.expansion.places
        return torch.cat([columns, rows], dim=1).int()

    @_after_dispatch
    def dst_buffer_slot_idx(self) -> torch.Tensor:
        """INT32 [T, K]: at the first choice of each rank, this rank * num_max_tokens_per_rank + the number of the
        token among those of this rank that go there; -1 elsewhere."""
        ids = self.topk_idx.long()
        ranks = ids.div(self._local_experts, rounding_mode="floor").masked_fill(ids < 0, -1)
        numbers = positions(dense_map(ranks, self._ranks)).gather(1, ranks.clamp(min=0))
        slots = numbers + self._rank * self.num_max_tokens_per_rank
        return slots.masked_fill(repeated(ranks) | (ranks < 0), -1)


def handle_of(given: object) -> EPHandle:
    """Checks the argument `handle`."""
    if not isinstance(given, EPHandle):
        raise refused(
            f"handle is {type(given).__name__}; it must be the EPHandle of a dispatch: pass what"
            " ElasticBuffer.dispatch returned",
            HANDLE,
        )
    return given
