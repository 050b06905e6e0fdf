"""deep_ep with CUDA tensors, a GPU each of two ranks. Skipped where there are fewer.

    EP4J_TEST_DEVICE=cuda python3 -m unittest test_gpu test_deep_ep_throughput ...

also runs the tests of deep_ep_ranks with two ranks on the GPUs.
"""

import copy
import os
import unittest
import unittest.mock

import torch

import deep_ep_ranks
import test_deep_ep_callers as callers

try:
    from transformers.models.qwen3_moe import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import (
        Qwen3MoeExperts,
        Qwen3MoeSparseMoeBlock,
    )
except ImportError:
    Qwen3MoeConfig = None

RANKS = 2
PAIRS = 10_000
# Growth of a process over that many pairs, after as many.
ALLOWED_BYTES = 4 << 20
# A heap that cannot grow: what grows is native, or the JVM runs out of memory.
FIXED_HEAP = "-Xms96m -Xmx96m -XX:+AlwaysPreTouch -XX:TieredStopAtLevel=1"


if Qwen3MoeConfig is not None:

    class _SpreadExperts(torch.nn.Module):
        """The experts of a block, a part on each rank: takes the place of Qwen3MoeExperts."""

        def __init__(self, whole, part, config, buffer):
            super().__init__()
            self.buffer, self.experts = buffer, config.num_experts
            self.local = part.stop - part.start
            mine = copy.deepcopy(config)
            mine.num_experts = self.local
            self.mine = Qwen3MoeExperts(mine).to(whole.gate_up_proj.dtype)
            with torch.no_grad():
                self.mine.gate_up_proj.copy_(whole.gate_up_proj[part])
                self.mine.down_proj.copy_(whole.down_proj[part])

        def forward(self, hidden_states, top_k_index, top_k_weights):
            rows, ids, weights, handle = callers._Dispatch.apply(
                hidden_states, top_k_index, top_k_weights.float(), self.experts, self.buffer
            )
            # A choice of another rank counts as expert 0 with weight 0.
            outputs = self.mine(rows, ids.clamp(min=0), weights.masked_fill(ids < 0, 0.0))
            return callers._Combine.apply(outputs.to(rows.dtype), handle, self.buffer)


def qwen3_block(group):
    """Relative errors by name: of one GPU in BF16, and of two ranks, both against FP32."""
    import deep_ep

    rank, ranks = group.rank(), group.size()
    config = Qwen3MoeConfig(
        hidden_size=1024,
        moe_intermediate_size=512,
        num_experts=32,
        num_experts_per_tok=8,
        norm_topk_prob=True,
    )
    torch.manual_seed(11)
    exact = Qwen3MoeSparseMoeBlock(config).float()
    with torch.no_grad():
        for parameter in exact.parameters():
            parameter.copy_((torch.randn_like(parameter) * 0.05).bfloat16())
    batch = (torch.randn(ranks, 256, config.hidden_size)).bfloat16()
    out_gradient = torch.randn_like(batch)
    one, two = (Qwen3MoeSparseMoeBlock(config).bfloat16() for _ in range(2))
    one.load_state_dict(exact.state_dict())
    two.load_state_dict(exact.state_dict())
    local = config.num_experts // ranks
    part = slice(rank * local, (rank + 1) * local)
    buffer = deep_ep.Buffer(group, 1 << 28, 0, explicitly_destroy=True)
    two.experts = _SpreadExperts(one.experts, part, config, buffer)

    # The router decides in BF16 on all: other choices are no error of a sum.
    def routed(hidden):
        with torch.no_grad():
            return one.gate(hidden.reshape(-1, config.hidden_size).bfloat16())[2]

    def run(block, x, gradient, dtype):
        x = x.to(dtype).clone().requires_grad_()
        ids = routed(x)
        logits = torch.nn.functional.linear(x.reshape(-1, config.hidden_size), block.gate.weight)
        scores = torch.softmax(logits.float(), -1).gather(1, ids)
        scores = scores / scores.sum(-1, keepdim=True)
        y = block.experts(x.reshape(-1, config.hidden_size), ids, scores.to(dtype))
        y.backward(gradient.reshape(y.shape).to(dtype))
        return y.detach(), x.grad.reshape(y.shape), block

    errors = {}
    wanted = run(exact, batch, out_gradient, torch.float32)
    whole = run(one, batch, out_gradient, torch.bfloat16)
    mine = slice(rank, rank + 1)
    spread = run(two, batch[mine], out_gradient[mine], torch.bfloat16)
    torch.distributed.all_reduce(two.gate.weight.grad)
    rows = slice(rank * batch.shape[1], (rank + 1) * batch.shape[1])
    for name, want, alone, got in (
        ("output", wanted[0][rows], whole[0][rows], spread[0]),
        ("gradient of x", wanted[1][rows], whole[1][rows], spread[1]),
        ("gradient of the router", exact.gate.weight.grad, one.gate.weight.grad, two.gate.weight.grad),
        (
            "gradient of gate and up",
            exact.experts.gate_up_proj.grad[part],
            one.experts.gate_up_proj.grad[part],
            two.experts.mine.gate_up_proj.grad,
        ),
        (
            "gradient of down",
            exact.experts.down_proj.grad[part],
            one.experts.down_proj.grad[part],
            two.experts.mine.down_proj.grad,
        ),
    ):
        errors[name] = tuple(
            float((value.float() - want).norm() / want.norm()) for value in (alone, got)
        )
    buffer.destroy()
    return errors


def growth(group, pairs):
    """Bytes by which the process and its GPU grow over `pairs` of each kind, after as many."""
    import deep_ep

    experts = 8
    buffer = deep_ep.Buffer(group, 1 << 28, 0, explicitly_destroy=True)
    x = torch.randn(64, 1024).bfloat16()
    ids = torch.rand(64, experts).topk(4, dim=1)[1]
    weights = torch.rand(64, 4)
    per_rank, per_node, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids, experts)
    sizes = []
    for _ in range(2):
        for number in range(pairs):
            rows, _, _, _, handle, event = buffer.dispatch(
                x,
                num_tokens_per_rank=per_rank,
                num_tokens_per_rdma_rank=per_node,
                is_token_in_rank=in_rank,
                num_tokens_per_expert=per_expert,
                topk_idx=ids,
                topk_weights=weights,
                async_finish=number % 2 == 0,
            )
            event.current_stream_wait()
            buffer.combine(rows, handle)
            if number % 4 == 0:
                quick, _, handle, _, hook = buffer.low_latency_dispatch(
                    x, ids, 64, experts, use_fp8=False, return_recv_hook=True
                )
                hook()
                buffer.low_latency_combine(quick, ids, weights, handle)
        torch.cuda.synchronize()
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        free, total = torch.cuda.mem_get_info()
        sizes.append((resident, total - free))
    buffer.destroy()
    return tuple(after - before for before, after in zip(*sizes))


@unittest.skipUnless(
    torch.cuda.is_available() and torch.cuda.device_count() >= RANKS, f"needs {RANKS} GPUs"
)
class GpuTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        deep_ep_ranks.close()
        cls._device = os.environ.get("EP4J_TEST_DEVICE")
        os.environ["EP4J_TEST_DEVICE"] = "cuda"

    @classmethod
    def tearDownClass(cls):
        deep_ep_ranks.close()
        if cls._device is None:
            del os.environ["EP4J_TEST_DEVICE"]
        else:
            os.environ["EP4J_TEST_DEVICE"] = cls._device

    def test_blocks_train_as_one_process_does(self):
        self.assertEqual(deep_ep_ranks.run(RANKS, callers.megatron), [True] * RANKS)

    @unittest.skipIf(Qwen3MoeConfig is None, "no transformers with Qwen3-MoE")
    def test_a_block_of_transformers_over_ranks_equals_that_of_one_gpu(self):
        for errors in deep_ep_ranks.run(RANKS, qwen3_block):
            print(errors)
            for name, (alone, spread) in errors.items():
                # BF16 keeps 8 bits; a rank rounds its share of a sum once more than one GPU.
                self.assertLess(spread, alone * 1.5 + 2.0**-9, name)
                self.assertLess(spread, 4 * 2.0**-8, name)

    @unittest.mock.patch.dict(os.environ, EP4J_JVM_OPTIONS=FIXED_HEAP)
    def test_memory_does_not_grow(self):
        deep_ep_ranks.close()
        for process, gpu in deep_ep_ranks.run(RANKS, growth, PAIRS):
            print(f"grew by {process} bytes, its GPU by {gpu}")
            self.assertLess(process, ALLOWED_BYTES)
            self.assertLess(gpu, ALLOWED_BYTES)


if __name__ == "__main__":
    unittest.main()
