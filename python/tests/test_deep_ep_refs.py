"""deep_ep.utils.refs against loops over tokens, and deep_ep.utils.gate; also on GPUs, as in deep_ep_ranks."""

import unittest

import torch

import deep_ep_ranks
from elastic_model import HIDDEN, LOCAL, TOP_K, World, parts, same


def _raises(code, function, *arguments):
    try:
        function(*arguments)
    except ValueError as error:
        assert error.code == code, error
    else:
        raise AssertionError(f"no error, EP4J-{code} expected")


def _check_dispatch(world, x_of, weights_of, ids):
    from deep_ep.utils import refs

    mine = world.mine
    x, choices, weights, sources, counts = refs.dispatch(
        x_of(mine), mine.topk_idx.to(ids), weights_of(mine), world.most, world.experts
    )
    assert isinstance(x, tuple) == isinstance(x_of(mine), tuple)
    for part, *sent in zip(parts(x), *(parts(x_of(batch)) for batch in world.batches)):
        assert part.shape[0] == len(world.tokens)
        for row, (source, token) in enumerate(world.tokens):
            same(part[row], sent[source][token])
    local = torch.tensor([world.local(*token) for token in world.tokens], dtype=ids)
    same(choices, local)
    if weights_of(mine) is None:
        assert weights is None
    else:
        sent = torch.stack([weights_of(world.batches[s])[t] for s, t in world.tokens])
        same(weights, sent.masked_fill(local < 0, 0))
    wanted = torch.tensor([s * world.most + t for s, t in world.tokens], dtype=torch.int32)
    same(sources, wanted)
    assert counts.device.type == "cpu" and counts.dtype == torch.int32
    assert counts.tolist() == [sum(s == r for s, _ in world.tokens) for r in range(world.ranks)]


def dispatches(group, tokens, seed):
    world = World(group, tokens, seed)
    weights, none = lambda batch: batch.weights, lambda batch: None
    for ids in (torch.int64, torch.int32):
        _check_dispatch(world, lambda batch: batch.rows, weights, ids)
        _check_dispatch(world, lambda batch: batch.x(True), weights, ids)
    _check_dispatch(world, lambda batch: batch.rows, none, torch.int64)
    # The scales of ranks in an order of their own: as many bytes of another order.
    by_columns = lambda batch: (batch.x(True)[0], batch.scales.t().contiguous().t())
    _check_dispatch(world, by_columns, weights, torch.int64)
    with torch.inference_mode():
        _check_dispatch(world, lambda batch: batch.x(True), weights, torch.int64)
    return True


def dispatch_refusals(group):
    from deep_ep.utils import refs

    batch = World(group, [5, 5], 3).mine
    rows, ids, weights = batch.rows, batch.topk_idx, batch.weights
    _raises(1408, refs.dispatch, rows, ids, weights, 4, 2 * LOCAL)
    _raises(1000, refs.dispatch, rows, ids, weights, 5, 2 * LOCAL + 1)
    _raises(1400, refs.dispatch, rows[:4], ids, weights, 5, 2 * LOCAL)
    _raises(1400, refs.dispatch, (rows, batch.scales[:, 0]), ids, weights, 5, 2 * LOCAL)
    _raises(1400, refs.dispatch, rows, ids, weights[:4], 5, 2 * LOCAL)
    return True


def answers_of_a_token(group):
    """Answers to choices of the same token on all ranks; another seed gives others."""
    from deep_ep.utils import envs, refs

    numbers = torch.tensor([0, 3, 70_000, 70_000, 2_000_000_000 // 8], dtype=torch.int32)
    seed = envs.get_global_seed()
    try:
        envs.init_seed(5)
        answers = refs.generate_pre_combine_data(numbers, 100_000, TOP_K, HIDDEN)
        alone = refs.generate_pre_combine_data(numbers[2:3].long(), 100_000, TOP_K, HIDDEN)
        envs.init_seed(6)
        others = refs.generate_pre_combine_data(numbers, 100_000, TOP_K, HIDDEN)
    finally:
        envs.init_seed(seed)
    assert (answers.dtype, answers.shape) == (torch.bfloat16, (5, TOP_K, HIDDEN))
    same(answers[2:3], alone)
    same(answers[2], answers[3])
    # Tokens and choices differ in nearly all elements.
    lines = torch.cat([answers[[0, 1, 2, 4]].flatten(0, 1), others[[0, 1, 2, 4]].flatten(0, 1)])
    for number, line in enumerate(lines):
        assert ((lines == line).sum(1) > HIDDEN // 8).sum() == 1, number
    assert float(answers.float().abs().max()) <= 1 and float(answers.float().std()) > 0.4
    return answers.float().cpu().tolist()


class DispatchTest(unittest.TestCase):
    def test_two_ranks_receive_rows_of_both_types(self):
        self.assertEqual(deep_ep_ranks.run(2, dispatches, [6, 9], 1), [True] * 2)

    def test_four_ranks_one_of_them_without_tokens(self):
        self.assertEqual(deep_ep_ranks.run(4, dispatches, [7, 0, 5, 9], 2), [True] * 4)

    def test_wrong_shapes_are_refused_before_anything_is_sent(self):
        self.assertEqual(deep_ep_ranks.run(2, dispatch_refusals), [True] * 2)

    def test_answers_depend_on_token_choice_and_seed_alone(self):
        one, other = deep_ep_ranks.run(2, answers_of_a_token)
        self.assertEqual(one, other)


def _loop(y, topk_idx, ranks_of_node, local, biases, in_rank, in_node):
    """combine, token by token: sums of FP32, each in place of the last choice that it has."""
    tokens, choices, hidden = y.shape
    result = torch.zeros(tokens, hidden, dtype=y.dtype)
    for token in range(tokens):
        ranks = [e // local for e in topk_idx[token].tolist()]
        # Place of a value among the choices, rank, value.
        values = [(k, ranks[k], y[token, k]) for k in range(choices) if ranks[k] >= 0]
        for group in [lambda rank: rank] * in_rank + [lambda rank: rank // ranks_of_node] * in_node:
            sums = {}
            for place, rank, value in values:
                before = sums[group(rank)][2] if group(rank) in sums else torch.zeros(hidden)
                sums[group(rank)] = (place, rank, before + value.float())
            values = sorted((p, r, value.to(y.dtype)) for p, r, value in sums.values())
        total = torch.zeros(hidden)
        for bias in biases:
            total = total + bias[token].float()
        for _, _, value in values:
            total = total + value.float()
        result[token] = total.to(y.dtype)
    return result


class CombineTest(unittest.TestCase):
    def test_sums_have_the_roundings_of_a_loop(self):
        from deep_ep.utils import refs

        torch.manual_seed(7)
        tokens, choices, hidden = 24, 6, 16
        results = set()
        for nodes, ranks, local in ((1, 2, 4), (2, 2, 3), (2, 4, 2), (1, 1, 8)):
            experts = nodes * ranks * local
            topk_idx = torch.rand(tokens, experts).topk(choices, dim=1)[1]
            topk_idx[torch.rand(tokens, choices) < 0.2] = -1
            topk_idx[3] = -1
            # Large values that cancel show each rounding and the order of each sum.
            sizes = 4.0 ** torch.randint(0, 8, (tokens, choices, 1)).float()
            y = (torch.randn(tokens, choices, hidden) * sizes).bfloat16()
            biases = [(torch.randn(tokens, hidden) * 100).bfloat16() for _ in range(2)]
            kept = y.clone()
            for number, bias in enumerate((None, biases[0], tuple(biases))):
                for recipe in ((False, False), (True, False), (True, True)):
                    got = refs.combine(y, topk_idx, nodes, ranks, experts, bias, *recipe)
                    wanted = _loop(y, topk_idx, ranks, local, biases[:number], *recipe)
                    same(got, wanted)
                    results.add(tuple(got.flatten().tolist()))
            same(y, kept)
        # One rank, or one rank on each node: no sums of sums differ.
        self.assertGreater(len(results), 24)

    def test_ids_of_either_type_and_batches_without_tokens(self):
        from deep_ep.utils import refs

        y, ids = torch.randn(5, 2, 8).bfloat16(), torch.tensor([[0, 3]] * 5)
        same(
            refs.combine(y, ids.int(), 1, 2, 4, None, True, False),
            refs.combine(y, ids, 1, 2, 4, None, True, False),
        )
        none = refs.combine(y[:0], ids[:0], 1, 2, 4, None, True, True)
        same(none, torch.empty(0, 8).bfloat16())

    def test_recipes_and_experts_that_make_no_sense_are_refused(self):
        from deep_ep.utils import refs

        y, ids = torch.zeros(1, 2, 8).bfloat16(), torch.zeros(1, 2).long()
        _raises(1000, refs.combine, y, ids, 1, 2, 4, None, False, True)
        _raises(1000, refs.combine, y, ids, 1, 2, 5, None, True, False)
        _raises(1000, refs.combine, y, ids, 1, 2, 0, None, True, False)
        _raises(1400, refs.combine, y, ids[:, :1], 1, 2, 4, None, True, False)

    def test_choices_are_added_in_their_order(self):
        from deep_ep.utils.refs import ordered_accumulate

        # 2^24 + 1 is no FP32: the order decides.
        data = torch.tensor([2.0**24, 1, -(2.0**24), 1]).view(1, 4, 1)
        start = torch.tensor([[1.0]])
        self.assertEqual(ordered_accumulate(data).item(), 1)
        self.assertEqual(ordered_accumulate(data.flip(1)).item(), 2)
        self.assertEqual(ordered_accumulate(data[:, 1:2], start).item(), 2)
        self.assertEqual(
            (start.item(), ordered_accumulate(data.bfloat16()).dtype), (1, torch.bfloat16)
        )


def _tokens_of_ranks(scores, ranks, top_k):
    owners = scores.topk(top_k, dim=1).indices // (scores.shape[1] // ranks)
    return [int((owners == rank).any(1).sum()) for rank in range(ranks)]


class GateTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)
        self.addCleanup(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.bfloat16)  # as init_dist does

    def scores(self, tokens, experts, ranks, top_k, ratio, precise):
        from deep_ep.utils.gate import get_unbalanced_scores

        scores = get_unbalanced_scores(tokens, experts, ranks, top_k, ratio, precise)
        self.assertEqual((scores.dtype, scores.shape), (torch.float32, (tokens, experts)))
        self.assertEqual(scores.is_cuda, torch.cuda.is_available())
        self.assertGreaterEqual(float(scores.min()), 0)
        return scores

    def test_precise_ratios_hold_and_other_ranks_are_even(self):
        shapes = ((2, 4, 1), (4, 1, 3), (4, 4, 4), (8, 8, 6), (8, 8, 8), (16, 2, 2), (16, 16, 9))
        cases = 0
        for ranks, local, top_k in shapes:
            for ratio in (1, 1.25, 2, 4):
                if -(-top_k // local) > int((ranks - 1) / ratio) + 1:
                    continue
                cases += 1
                scores = self.scores(2048, ranks * local, ranks, top_k, ratio, True)
                self.assertLessEqual(float(scores.max()), 1)
                first, *others = _tokens_of_ranks(scores, ranks, top_k)
                self.assertLessEqual(max(others) - min(others), 1, (ranks, local, top_k, ratio))
                self.assertLessEqual(abs(first - ratio * sum(others) / len(others)), ratio + 1)
        self.assertGreater(cases, 20)

    def test_tokens_keep_the_number_of_their_ranks_without_a_ratio(self):
        of = lambda precise: sum(_tokens_of_ranks(self.scores(4096, 64, 8, 6, 1, precise), 8, 6))
        self.assertLess(abs(of(True) - of(False)), 0.02 * of(False))

    def test_random_ratios_hold_as_far_as_scores_reach_them(self):
        for ranks, local, top_k, ratio in (
            (2, 8, 2, 1.5),
            (4, 8, 4, 2),
            (8, 8, 6, 2),
            (8, 8, 2, 4),
        ):
            scores = self.scores(2048, ranks * local, ranks, top_k, ratio, False)
            first, *others = _tokens_of_ranks(scores, ranks, top_k)
            self.assertLess(abs(first * len(others) / sum(others) / ratio - 1), 0.02)
        scores = self.scores(64, 8, 2, 8, 3, False)
        self.assertEqual(_tokens_of_ranks(scores, 2, 8), [64, 64])
        first, *others = _tokens_of_ranks(self.scores(4096, 64, 8, 6, 1, False), 8, 6)
        self.assertLess(abs(first * len(others) / sum(others) - 1), 0.1)

    def test_calls_differ_and_few_tokens_or_ranks_pass(self):
        for precise in (True, False):
            one, other = (self.scores(16, 8, 4, 2, 1.0, precise) for _ in range(2))
            self.assertFalse(torch.equal(one, other))
            for ranks, ratio in ((1, 2.0), (4, 1.0), (4, 3.0)):
                self.scores(1, 8, ranks, 2, ratio, precise)

    def test_what_cannot_be_is_refused(self):
        from deep_ep.utils.gate import get_unbalanced_scores

        for arguments in (
            (0, 8, 2, 2, 1.0, True),
            (4, 9, 2, 2, 1.0, False),
            (4, 4, 2, 5, 1.0, False),
            (4, 8, 2, 2, 0.5, False),
            (4, 8, 2, 2, float("nan"), True),
            (4, 8, 8, 4, 4.0, True),  # four choices are four ranks; at most two are left
        ):
            _raises(1000, get_unbalanced_scores, *arguments)


if __name__ == "__main__":
    unittest.main()
