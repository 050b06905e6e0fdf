"""Scores of a gate whose first rank gets more tokens than the others."""

from typing import Optional, Union

import torch

from ..errors import refused, require_at_least, require_experts
from .math import ceil_div

Device = Union[torch.device, str, None]

# With this factor about one score of rank 0 in 1000 is below 1: more brings hardly another token.
_LARGEST_FACTOR = 1e3
_HALVINGS = 20


def get_unbalanced_scores(
    num_tokens: int,
    num_experts: int,
    num_ranks: int,
    num_topk: int,
    ratio: float,
    precise: bool,
    device: Device = None,
) -> torch.Tensor:
    """Random scores by which rank 0 receives `ratio` times as many tokens as another rank on average.

    A token counts once for each rank that has one of its `num_topk` largest scores.

    Args:
        ratio: at least 1; 1 asks for no difference.
        precise: the other ranks receive the same number of tokens, and the ratio holds up to rounding. The
            choices of a token no longer resemble those of a model. Else only rank 0 differs, by larger scores;
            where they cannot reach the ratio, it is as large as they make it.
        device: left out: the current GPU, or the CPU where there is none.

    Returns:
        FP32 [num_tokens, num_experts], from 0 on; at most 1 if `precise` or `ratio` = 1.

    Raises:
        ep4j.InvalidArgument: experts do not divide among the ranks, a number is too small, there are fewer
            experts than choices, or no choices of a token have the precise ratio.
    """
    require_at_least(1, num_tokens=num_tokens, num_ranks=num_ranks, num_topk=num_topk)
    require_experts(num_experts, num_ranks)
    if num_experts < num_topk:
        raise refused(
            f"num_topk = {num_topk}; a token has at most num_experts = {num_experts} choices: lower it"
        )
    if not ratio >= 1:
        raise refused(f"ratio = {ratio}; it must be at least 1: correct it")
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    uniform = torch.rand(num_tokens, num_experts, dtype=torch.float32, device=device)
    make = _precise if precise else _larger
    return make(uniform, num_ranks, num_topk, float(ratio))


def _reached(scores: torch.Tensor, ranks: int, top_k: int) -> torch.Tensor:
    """BOOL [T, ranks]: whether a rank has one of the largest scores of a token."""
    owners = scores.topk(top_k, dim=1).indices // (scores.shape[1] // ranks)
    reached = torch.zeros((len(scores), ranks), dtype=torch.bool, device=scores.device)
    return reached.scatter_(1, owners, True)


def _larger(uniform: torch.Tensor, ranks: int, top_k: int, ratio: float) -> torch.Tensor:
    """Multiplies the scores of rank 0 by the smallest factor with the ratio, found by halving its interval."""

    def scaled(factor: float) -> torch.Tensor:
        scores = uniform.clone()
        scores[:, : uniform.shape[1] // ranks] *= factor
        return scores

    if ratio == 1 or ranks == 1:
        return uniform
    # The tokens of rank 0 become more with the factor, those of the others fewer: one factor parts them.
    small, large = 1.0, _LARGEST_FACTOR
    for _ in range(_HALVINGS):
        middle = (small * large) ** 0.5
        first, *others = _reached(scaled(middle), ranks, top_k).sum(0).tolist()
        if first * len(others) < ratio * sum(others):
            small = middle
        else:
            large = middle
    return scaled(large)


def _precise(uniform: torch.Tensor, ranks: int, top_k: int, ratio: float) -> torch.Tensor:
    """Raises the scores of chosen experts above all others.

    A token keeps the number of its ranks, if rank 0 then can have its share. Rank 0 is one of them for as many tokens
    as the ratio says. The other ranks take turns.
    """
    tokens, experts = uniform.shape
    local, others, device = experts // ranks, ranks - 1, uniform.device
    # Rank 0 has at most every token once, so another rank has 1 / ratio of them on average.
    mean = (others + ratio) / ratio
    fewest, most = ceil_div(top_k, local), min(top_k, ranks, int(mean))
    if fewest > most:
        raise refused(
            f"ratio = {ratio}; {top_k} choices of a token reach at least {fewest} of {ranks} ranks, and with this"
            f" ratio at most {most}: choose a smaller ratio, or more experts"
        )
    per_token = _reached(uniform, ranks, top_k).sum(1).clamp(max=most)
    every = per_token == ranks  # rank 0 is one of these
    share = round(ratio * int(per_token.sum()) / (others + ratio))
    share = min(max(share, int(every.sum())), tokens)
    has_first = torch.zeros(tokens, dtype=torch.bool, device=device)
    # Those first that have every rank, then others at random.
    drawn = torch.rand(tokens, dtype=torch.float32, device=device) + every
    has_first[drawn.topk(share).indices] = True

    # [T, n]: the ranks of a token; the turn of the next token begins where that of the last one ends.
    place = torch.arange(most, device=device)
    taken = per_token - has_first.long()
    turn = (taken.cumsum(0) - taken).unsqueeze(1) + place - has_first.long().unsqueeze(1)
    order = 1 + torch.randperm(max(others, 1), device=device)
    of_token = order[turn % max(others, 1)]
    of_token[:, 0].masked_fill_(has_first, 0)

    # [T, ranks]: how many choices of a token are experts of a rank. A random one of its ranks begins.
    begin = torch.randint(top_k * ranks, (tokens, 1), device=device)
    slots = (begin + torch.arange(top_k, device=device)) % per_token.unsqueeze(1)
    counts = torch.zeros((tokens, ranks), dtype=torch.long, device=device)
    counts.scatter_add_(1, of_token.gather(1, slots), torch.ones_like(slots))

    by_rank = uniform.view(tokens, ranks, local)
    places = by_rank.argsort(dim=2, descending=True).argsort(dim=2)
    chosen = places < counts.unsqueeze(2)
    return ((by_rank + chosen) / 2).view(tokens, experts)
