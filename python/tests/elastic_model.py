"""What ElasticBuffer has to deliver: loops over the batches of all ranks.

Every rank draws the batches of all ranks from their seeds, so nothing that is compared has travelled by ep4j alone.
"""

import torch

HIDDEN, TOP_K, LOCAL = 128, 3, 3
NAN = float("nan")


class Batch:
    """What a rank sends, and what its experts answer."""

    def __init__(self, rank, ranks, tokens, seed):
        torch.manual_seed(1000 * seed + rank)
        experts = LOCAL * ranks
        self.topk_idx = torch.rand(tokens, experts).topk(TOP_K, dim=1)[1]
        self.topk_idx[torch.rand(tokens, TOP_K) < 0.2] = -1
        self.weights = torch.rand(tokens, TOP_K)
        self.weights[self.topk_idx < 0] = 0
        self.other_weights = torch.rand(tokens, TOP_K)
        self.rows = torch.randn(tokens, HIDDEN).bfloat16()
        self.codes = torch.randint(0, 256, (tokens, HIDDEN)).byte()
        self.scales = torch.rand(tokens, HIDDEN // 32)
        self.answers = torch.randn(tokens, TOP_K, HIDDEN).bfloat16()
        self.biases = torch.randn(2, tokens, HIDDEN).bfloat16()

    def x(self, fp8):
        from deep_ep.dtypes import as_fp8

        return (as_fp8(self.codes), self.scales) if fp8 else self.rows


class World:
    """The batches of all ranks, and by loops over them what arrives at one."""

    def __init__(self, group, tokens, seed):
        self.rank, self.ranks = group.rank(), group.size()
        self.most = max(tokens) + 1
        self.experts = LOCAL * self.ranks
        self.batches = [Batch(r, self.ranks, t, seed) for r, t in enumerate(tokens)]
        self.mine = self.batches[self.rank]
        self.tokens = [
            (source, token)
            for source, batch in enumerate(self.batches)
            for token, ids in enumerate(batch.topk_idx.tolist())
            if any(e >= 0 and e // LOCAL == self.rank for e in ids)
        ]
        self.groups = [
            [
                (source, token, batch.topk_idx[token].tolist().index(e))
                for source, batch in enumerate(self.batches)
                for token in range(len(batch.topk_idx))
                if e in batch.topk_idx[token].tolist()
            ]
            for e in range(self.rank * LOCAL, (self.rank + 1) * LOCAL)
        ]
        self.counts = [len(group) for group in self.groups]

    def local(self, source, token):
        """Local expert of each choice of a token, or -1."""
        ids = self.batches[source].topk_idx[token].tolist()
        return [e - self.rank * LOCAL if e >= 0 and e // LOCAL == self.rank else -1 for e in ids]

    def places(self, alignment):
        """Row of each (source, token, choice) of rows of choices, the number of rows, and where groups end."""
        places, ends, start = {}, [], 0
        for group in self.groups:
            for number, choice in enumerate(group):
                places[choice] = start + number
            ends.append(start + len(group))
            start += -(-len(group) // alignment) * alignment
        return places, start, ends

    def sums(self, biases, exact):
        """Sums of the answers of this rank's tokens: by rank, rounded unless `exact`, then over the ranks."""
        batch = self.mine
        result = torch.zeros(batch.rows.shape)
        for bias in batch.biases[:biases]:
            result += bias.float()
        for rank in range(self.ranks):
            of_rank = torch.zeros(batch.rows.shape)
            for k in range(TOP_K):
                here = (batch.topk_idx[:, k] >= 0) & (batch.topk_idx[:, k] // LOCAL == rank)
                of_rank[here] += batch.answers[here, k].float()
            result += of_rank if exact else of_rank.bfloat16().float()
        return result.bfloat16()

    def answers(self, handle):
        """The input of a combine; rows that must not be read are NaN."""
        if handle.do_expand:
            y = torch.full((handle.num_expanded_tokens, HIDDEN), NAN).bfloat16()
            for (source, token, k), place in self.places(handle.expert_alignment)[0].items():
                y[place] = self.batches[source].answers[token, k]
            return y
        y = torch.full((handle.num_recv_tokens, HIDDEN), NAN).bfloat16()
        for row, (source, token) in enumerate(self.tokens):
            total = torch.zeros(HIDDEN)
            for k, expert in enumerate(self.local(source, token)):
                if expert >= 0:
                    total += self.batches[source].answers[token, k].float()
            y[row] = total.bfloat16()
        return y

    def sent_weights(self, handle):
        """The weights of the tokens as the input of a combine, NaN where no token is."""
        if handle.do_expand:
            weights = torch.full((handle.num_expanded_tokens,), NAN)
            for (source, token, k), place in self.places(handle.expert_alignment)[0].items():
                weights[place] = self.batches[source].weights[token, k]
            return weights
        weights = torch.full((handle.num_recv_tokens, TOP_K), NAN)
        for row, (source, token) in enumerate(self.tokens):
            here = torch.tensor(self.local(source, token)) >= 0
            weights[row] = self.batches[source].weights[token].masked_fill(~here, 0)
        return weights


def same(got, wanted):
    """The same bytes, types and shapes; the strides may differ."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), (got, wanted)
    assert torch.equal(as_bytes(got), as_bytes(wanted)), (got, wanted)


def as_bytes(tensor):
    """The bytes of a tensor: not each version of torch compares, stacks or fills FP8."""
    return tensor.contiguous().view(-1).view(torch.uint8)


def parts(x):
    return x if isinstance(x, tuple) else (x,)
