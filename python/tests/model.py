"""An independent reference in plain torch: what each rank sends, and what must arrive.

Every rank knows the rows and choices of all ranks. Values are small integers and weights powers of
two, so sums are exact in bfloat16.
"""

import torch

HIDDEN = 512
TOP_K = 3
EXPERTS = 8
MAX_TOKENS = 8


def tokens_of(rank, ranks):
    """Ranks have different numbers of tokens; the last of several has none."""
    return 0 if ranks > 1 and rank == ranks - 1 else 5 + rank % 3


def inputs(rank, ranks, seed=0):
    """Rows [T, H], choices [T, K] and weights [T, K] of a rank."""
    generator = torch.Generator().manual_seed(seed * 1000 + rank)
    tokens = tokens_of(rank, ranks)
    x = torch.randint(-8, 9, (tokens, HIDDEN), generator=generator).bfloat16()
    topk_idx = torch.empty(tokens, TOP_K, dtype=torch.int64)
    for token in range(tokens):
        topk_idx[token] = torch.randperm(EXPERTS, generator=generator)[:TOP_K]
        if token % 4 == 1:
            topk_idx[token, 2] = -1
    weights = 0.5 ** torch.randint(0, 3, (tokens, TOP_K), generator=generator).float()
    return x, topk_idx, weights


def owner(expert, ranks):
    return expert // (EXPERTS // ranks)


def flat(rank, ranks, seed=0):
    """(source, token) of the rows that a rank receives, in order."""
    rows = []
    for source in range(ranks):
        _, topk_idx, _ = inputs(source, ranks, seed)
        for token in range(topk_idx.shape[0]):
            chosen = [int(e) for e in topk_idx[token] if e >= 0]
            if any(owner(expert, ranks) == rank for expert in chosen):
                rows.append((source, token))
    return rows


def grouped(rank, ranks, seed=0):
    """For each local expert, (source, token, slot) of its rows in order."""
    local = EXPERTS // ranks
    groups = [[] for _ in range(local)]
    for source in range(ranks):
        _, topk_idx, _ = inputs(source, ranks, seed)
        for token in range(topk_idx.shape[0]):
            for slot in range(TOP_K):
                expert = int(topk_idx[token, slot])
                if expert >= 0 and owner(expert, ranks) == rank:
                    groups[expert - rank * local].append((source, token, slot))
    return groups


def local_choices(rank, ranks, source, token, seed=0):
    """Choices and weights of a token as `rank` sees them: local numbers, -1 and 0 for others."""
    _, topk_idx, weights = inputs(source, ranks, seed)
    local = EXPERTS // ranks
    ids = topk_idx[token].clone()
    mine = (ids >= 0) & (ids // local == rank)
    return torch.where(mine, ids - rank * local, -torch.ones_like(ids)), torch.where(
        mine, weights[token], torch.zeros(TOP_K)
    )


def destinations(rank, ranks, seed=0):
    """Number of ranks that each token of a rank goes to, [T, 1]."""
    _, topk_idx, _ = inputs(rank, ranks, seed)
    counts = [
        len({owner(int(e), ranks) for e in topk_idx[t] if e >= 0}) for t in range(len(topk_idx))
    ]
    return torch.tensor(counts, dtype=torch.float32).reshape(-1, 1)


def expert_factor(expert):
    """What an expert multiplies its rows by: a power of two."""
    return 2.0 ** (expert % 3 - 1)


def mixture(rank, ranks, seed=0):
    """Weighted sums of the experts' rows, float32 [T, H]."""
    x, topk_idx, weights = inputs(rank, ranks, seed)
    result = torch.zeros(x.shape)
    for token in range(x.shape[0]):
        for slot in range(TOP_K):
            expert = int(topk_idx[token, slot])
            if expert >= 0:
                factor = float(weights[token, slot]) * expert_factor(expert)
                result[token] += factor * x[token].float()
    return result


def quantise(x):
    """FP8 E4M3 stand-in: bytes of a row and float32 scales [T, H/128]; dispatch keeps all bits."""
    codes = (x.float() + 128).to(torch.uint8)
    scales = x.float().reshape(x.shape[0], HIDDEN // 128, 128).abs().amax(-1) / 448
    return codes, scales.contiguous()
