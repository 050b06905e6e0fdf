"""What a dispatch and a combine have to return, by operations of torch alone: for tests.

T tokens of this rank, H elements a row, K choices a token, E experts, L = E / ranks experts of this rank, N the most
tokens of any rank. All ranks of the default group of ``torch.distributed`` call ``dispatch``. It is made for tests: each
rank gathers the batches of all ranks, and picks what is for it.
"""

import functools
from typing import Optional, Tuple, Union

import torch
import torch.distributed as dist

from ..dtypes import as_bytes
from ..errors import TENSOR, TOKENS, refused, require_experts
from .envs import get_global_seed

Rows = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]

# A prime: sums of two products of smaller numbers are INT32.
_PRIME = 32749


def dispatch(
    x: Rows,
    topk_idx: torch.Tensor,
    topk_weights: Optional[torch.Tensor],
    num_max_tokens_per_rank: int,
    num_experts: int,
) -> Tuple[Rows, torch.Tensor, Optional[torch.Tensor], torch.Tensor, torch.Tensor]:
    """The rows of all ranks' tokens that have an expert of this rank, by source rank and token; collective.

    Args:
        x: [T, H] of any type, or such rows with their scales [T, S].
        topk_idx: INT64 or INT32 [T, K], -1 for no choice; topk_weights: FP32 [T, K] or None.
        num_max_tokens_per_rank: N, the same on all ranks.

    Returns:
        Rows [n, H], or rows and scales; local experts [n, K], -1 for choices of other ranks; weights [n, K], 0 for
        these, or None; INT32 [n] source rank * N + token; INT32 [ranks] on the CPU: rows from each rank.

    Raises:
        ep4j.InvalidArgument: shapes do not fit together, T is above N, or experts do not divide among the ranks. If
            that is so on one rank alone, the others wait until the timeout of the default group.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tokens = len(topk_idx)
    require_experts(num_experts, ranks)
    if tokens > num_max_tokens_per_rank:
        raise refused(
            f"topk_idx has {tokens} rows; num_max_tokens_per_rank = {num_max_tokens_per_rank}: raise it",
            TOKENS,
        )
    sent = x if isinstance(x, tuple) else (x,)
    for part in sent if topk_weights is None else (*sent, topk_weights):
        if part.dim() != 2 or len(part) != tokens:
            raise refused(
                f"topk_idx has {tokens} rows, beside a tensor of {tuple(part.shape)}: pass as many rows",
                TENSOR,
            )
    local = num_experts // ranks
    chosen = _of_all_ranks(topk_idx, num_max_tokens_per_rank) - rank * local
    here = (chosen >= 0) & (chosen < local)
    sources = here.any(1).nonzero().view(-1)

    def received(part: torch.Tensor) -> torch.Tensor:
        return _of_all_ranks(part, num_max_tokens_per_rank)[sources]

    parts = tuple(received(part) for part in sent)
    elsewhere = ~here[sources]
    weights = None if topk_weights is None else received(topk_weights).masked_fill(elsewhere, 0)
    return (
        parts if isinstance(x, tuple) else parts[0],
        chosen[sources].masked_fill(elsewhere, -1),
        weights,
        sources.int(),
        torch.bincount(sources.cpu() // num_max_tokens_per_rank, minlength=ranks).int(),
    )


def generate_pre_combine_data(
    src_token_global_idx: torch.Tensor, num_max_tokens_per_rank: int, num_topk: int, hidden: int
) -> torch.Tensor:
    """What the experts answer: a function of token, choice, element, and the seed of ``init_seed``.

    Integers make it, so a token has the same answers on each rank and on each device.

    Args:
        src_token_global_idx: [n], source rank * N + token; num_max_tokens_per_rank: N, without effect.

    Returns:
        BF16 [n, K, H] between -1 and 1.
    """
    device = src_token_global_idx.device
    choices = src_token_global_idx.long().unsqueeze(1) * num_topk
    choices = choices + torch.arange(num_topk, device=device) + 1 + 1_000_003 * get_global_seed()
    elements = torch.arange(hidden, device=device)
    # Two digits of a choice, each times a number of the element, modulo the prime: one line for each choice.
    words = _below(choices).unsqueeze(2) * _below(7_919 * elements + 1)
    words += _below(choices // _PRIME).unsqueeze(2) * _below(104_729 * elements + 5)
    return ((words % _PRIME - _PRIME // 2).float() / 2**14).bfloat16()


def ordered_accumulate(
    data: torch.Tensor, initial_value: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """Adds up choices in their order, in FP32, onto `initial_value` [T, H] where it is given.

    Args:
        data: [T, K, H].

    Returns:
        [T, H] of the type of `data`.
    """
    if initial_value is None:
        initial_value = torch.zeros_like(data[:, 0], dtype=torch.float32)
    total = functools.reduce(torch.add, data.unbind(1), initial_value.float())
    return total.to(data.dtype)


def combine(
    y: torch.Tensor,
    topk_idx: torch.Tensor,
    num_scaleout_ranks: int,
    num_scaleup_ranks: int,
    num_experts: int,
    bias: Union[None, torch.Tensor, Tuple[torch.Tensor, torch.Tensor]],
    reduce_in_local: bool,
    reduce_in_scaleup: bool,
) -> torch.Tensor:
    """Sums of the answers of this rank's tokens, with the roundings of a combine; not collective.

    Sums are FP32 in the order of the choices, and rounded to the type of `y` where they travel. A sum takes the place
    of the last choice that it has.

    Args:
        y: [T, K, H], the answer to each choice; topk_idx: [T, K], -1 for no choice, which counts nothing.
        bias: [T, H], two of them, or None.
        reduce_in_local: each rank sums the choices of its experts.
        reduce_in_scaleup: then each node does so with the sums of its ranks.

    Returns:
        [T, H] of the type of `y`.

    Raises:
        ep4j.InvalidArgument: nodes sum and ranks do not, shapes do not fit together, or experts do not divide among
            the ranks.
    """
    if reduce_in_scaleup and not reduce_in_local:
        raise refused(
            "reduce_in_scaleup = True, reduce_in_local = False; nodes sum what their ranks have summed: set both"
        )
    ranks = num_scaleout_ranks * num_scaleup_ranks
    require_experts(num_experts, ranks)
    if topk_idx.shape != y.shape[:2]:
        raise refused(
            f"y has shape {tuple(y.shape)}, topk_idx {tuple(topk_idx.shape)}: pass an id for each answer",
            TENSOR,
        )
    y = y.masked_fill((topk_idx < 0).unsqueeze(2), 0)
    rank_of_choice = torch.div(topk_idx, num_experts // ranks, rounding_mode="floor")
    if reduce_in_local:
        y = _summed(y, rank_of_choice)
    if reduce_in_scaleup:
        y = _summed(y, torch.div(rank_of_choice, num_scaleup_ranks, rounding_mode="floor"))
    biases = bias if isinstance(bias, tuple) else () if bias is None else (bias,)
    return ordered_accumulate(y, sum(one.float() for one in biases) if biases else None)


@torch.inference_mode(False)  # gloo writes from another thread
def _of_all_ranks(part: torch.Tensor, most: int) -> torch.Tensor:
    """[T, W] of each rank to [ranks * most, W]. Bytes of rows that a rank does not have are 255: ids of -1.

    Bytes travel, because gloo does not take each type, and gloo does not take each operation on a GPU.
    """
    mine = as_bytes(part.contiguous())
    padded = torch.full((most, mine.shape[1]), 255, dtype=torch.uint8, device=part.device)
    padded[: len(mine)] = mine
    if dist.get_backend() == "gloo":
        padded = padded.cpu()
    everyone = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, padded)
    gathered = torch.cat(everyone).to(part.device)
    return gathered if part.dtype == torch.uint8 else gathered.view(part.dtype)


def _below(numbers: torch.Tensor) -> torch.Tensor:
    """INT64 to INT32 below the prime."""
    return (numbers % _PRIME).int()


def _summed(y: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """[T, K, H]: the sum of each group of a token in place of its last choice, 0 in place of the others.

    Args:
        groups: [T, K], the group of each choice.
    """
    same = groups.unsqueeze(2) == groups.unsqueeze(1)  # symmetric
    sums = y.to(torch.float32, copy=True)
    for k in range(1, y.shape[1]):
        # The choice before this one in its group has the sum so far.
        numbers = torch.arange(1, k + 1, device=y.device) * same[:, k, :k]
        before, place = numbers.max(1).values, torch.arange(len(y), device=y.device)
        place, before = place[before > 0], before[before > 0] - 1
        sums[place, k] += sums[place, before]
    followed = same.triu(1).any(2)
    return sums.masked_fill(followed.unsqueeze(2), 0).to(y.dtype)
