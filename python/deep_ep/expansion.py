"""Rows of choices, grouped by local expert, from rows of tokens and back.

A dispatch brings a token to a rank once. The expanded form has a row for each choice that the rank has of it:

    rows of tokens       choices, K = 2      rows of choices, alignment 4
    0: a                 0  2                expert 0: a c . .
    1: b                 2 -1                expert 1: c . . .
    2: c                 1  0                expert 2: a b . .

All of it is operations of torch whose shapes do not depend on the routing: on a GPU nothing waits, and a graph may
capture them.
"""

from typing import Tuple

import torch

from .dtypes import as_bytes


def chosen_by(choices: torch.Tensor, experts: int) -> torch.Tensor:
    """INT32 [L + 1, n]: 1 where a token has the expert, from choices INT64 [n, K]. Row L takes what is no choice."""
    slots = choices.masked_fill(choices < 0, experts)
    tokens = choices.shape[0]
    chosen = torch.zeros((experts + 1, tokens), dtype=torch.int32, device=choices.device)
    return chosen.scatter_(0, slots.t(), 1)


def tokens_of(chosen: torch.Tensor) -> torch.Tensor:
    """INT32 [L]: tokens of each expert, from what `chosen_by` returns."""
    return chosen[:-1].sum(1, dtype=torch.int32)


def repeated(ids: torch.Tensor) -> torch.Tensor:
    """BOOL [n, K]: whether an earlier element of the row is the same."""
    return (ids.unsqueeze(2) == ids.unsqueeze(1)).tril(-1).any(2)


class Expansion:
    """Where each choice of each received token has its row.

    Attributes:
        rows: P, rows of choices with padding.
        places: INT64 [n, K], the row of each choice, -1 where the rank has none.
    """

    def __init__(
        self, choices: torch.Tensor, chosen: torch.Tensor, starts: torch.Tensor, rows: int
    ) -> None:
        """
        Args:
            choices: INT64 [n, K], local expert of each choice, or -1.
            chosen: INT32 [L + 1, n], `chosen_by` of these choices.
            starts: INT32 [L], the first row of each expert.
            rows: P, at least the end of the last expert with its padding.
        """
        self.rows = rows
        tokens, self._top_k = choices.shape
        # If a token chooses an expert twice, only the first choice has a row: the kernels count the expert once, so P
        # has room for one row, and a combine adds it once. With CPU tensors the sender refuses such a token.
        none = (choices < 0) | repeated(choices)
        expert = choices.clamp(min=0)
        # Along the last dimension: along another one CUDA adds the tokens one by one.
        number = chosen.cumsum(1, dtype=torch.int32).gather(0, expert.t()).t() - 1
        self.places = (starts.long()[expert] + number).masked_fill(none, -1)
        # Element P takes what has no row.
        choice = torch.full((rows + 1,), -1, dtype=torch.int64, device=choices.device)
        choice.scatter_(
            0,
            self.places.masked_fill(none, rows).reshape(-1),
            torch.arange(tokens * self._top_k, device=choices.device),
        )
        self._choice = choice[:rows]  # number of the choice of each row, -1: padding

    def tensors(self) -> Tuple[torch.Tensor, ...]:
        return self.places, self._choice

    def expanded(self, rows: torch.Tensor, clear: bool = False) -> torch.Tensor:
        """Rows of choices [P, ...] from rows of tokens [n, ...]. `clear`: padding is 0, else undefined."""
        return self._taken(rows, self._choice.div(self._top_k, rounding_mode="floor"), clear)

    def expanded_weights(self, weights: torch.Tensor, clear: bool = False) -> torch.Tensor:
        """FP32 [P] from FP32 [n, K]. `clear`: padding is 0, else undefined."""
        return self._taken(weights.reshape(-1), self._choice, clear)

    def _taken(self, rows: torch.Tensor, index: torch.Tensor, clear: bool) -> torch.Tensor:
        words = _words(rows)
        taken = words.index_select(0, index.clamp(min=0))
        if clear:
            padding = (self._choice < 0).view(-1, *(1,) * (taken.dim() - 1))
            taken.masked_fill_(padding, 0)
        return taken.view(rows.dtype)

    def summed(self, rows: torch.Tensor, exactly: bool) -> torch.Tensor:
        """Sums [n, H] of the rows of each token, from rows of choices [P, H]: in FP32, in the order of its choices.

        Rows of padding have no effect.

        Args:
            exactly: return FP32; else the sums are rounded to the type of the rows.
        """
        given = rows.detach()
        if self.places.shape[0] == 0:
            sums = given.new_empty((0, given.shape[1]))
        elif given.is_cuda and not exactly:
            sums = self.bagged(given)
        else:
            sums = self.added(given)
        return sums.to(torch.float32 if exactly else given.dtype)

    def added(self, rows: torch.Tensor) -> torch.Tensor:
        """The sums, FP32, choice by choice: this needs no FP32 copy of all rows."""
        sums = torch.zeros(
            (self.places.shape[0], rows.shape[1]), dtype=torch.float32, device=rows.device
        )
        for places in self.places.unbind(1):
            row = rows.index_select(0, places.clamp(min=0)).float()
            sums += row.masked_fill((places < 0).unsqueeze(1), 0)
        return sums

    def bagged(self, rows: torch.Tensor) -> torch.Tensor:
        """The same sums in the type of the rows, in one kernel; on a CPU of FP32 rows alone.

        An infinite row makes the sum of its token NaN where a choice of the token has no row.
        """
        valid = self.places >= 0
        # A choice without a row has the weight 0, and any row of its token: padding may be NaN.
        own = self.places.masked_fill(~valid, self.rows).amin(1, keepdim=True)
        own = own.clamp(max=self.rows - 1)
        return torch.nn.functional.embedding_bag(
            torch.where(valid, self.places, own),
            rows,
            mode="sum",
            per_sample_weights=valid.to(rows.dtype),
        )

    def returned_weights(self, weights: torch.Tensor) -> torch.Tensor:
        """FP32 [n, K] from FP32 [P]; 0 where the rank has no such choice."""
        return weights[self.places.clamp(min=0)].masked_fill(self.places < 0, 0.0)


def _words(rows: torch.Tensor) -> torch.Tensor:
    """Rows of bytes, FP8 among them, as INT32 where they divide: torch copies these faster, and FP8 not everywhere."""
    if rows.element_size() > 1:
        return rows
    divides = rows.dim() == 2 and rows.shape[1] % 4 == 0
    return rows.view(torch.int32) if divides else as_bytes(rows)
