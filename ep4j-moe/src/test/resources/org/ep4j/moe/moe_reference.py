"""Results and gradients of the MoE blocks of `transformers`, for CudaMoeLayerTest.

Usage: moe_reference.py DIRECTORY [hidden intermediate]

Makes DIRECTORY/mixtral, /qwen3_moe and /deepseek_v3, each with a checkpoint of one block with random
weights in BF16 (config.json, model.safetensors) and with inputs and outputs: inputs.safetensors has `x` and
`grad` [T, H], values of BF16; outputs.safetensors has `y` and the gradients of sum(y * grad) by `x` and by
each matrix, under the names of the checkpoint. The block computes in FP32.
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import DeepseekV3Config, MixtralConfig, Qwen3MoeConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

TOKENS = 61

MATRICES = ["gate_proj", "up_proj", "down_proj"]


def models(hidden, intermediate):
    """Kind of config, kind of block, fields of config.json, prefix and names of tensors."""
    sizes = {"hidden_size": hidden, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 8}
    yield "mixtral", MixtralConfig, MixtralSparseMoeBlock, heads, {
        **sizes,
        "intermediate_size": intermediate,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }, "model.layers.1.block_sparse_moe.", ["w1", "w3", "w2"]
    yield "qwen3_moe", Qwen3MoeConfig, Qwen3MoeSparseMoeBlock, heads, {
        **sizes,
        "moe_intermediate_size": intermediate,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }, "model.layers.1.mlp.", MATRICES
    yield "deepseek_v3", DeepseekV3Config, DeepseekV3MoE, heads, {
        **sizes,
        "moe_intermediate_size": intermediate,
        "n_routed_experts": 16,
        "num_experts_per_tok": 4,
        "n_shared_experts": 2,
        "n_group": 4,
        "topk_group": 2,
        "routed_scaling_factor": 2.5,
        "norm_topk_prob": True,
        "first_k_dense_replace": 1,
    }, "model.layers.1.mlp.", MATRICES


def experts_of(block, names, grad):
    """Matrices of each expert, or their gradients: the block keeps them apart, or all in one tensor."""

    def value(parameter):
        return (parameter.grad if grad else parameter).detach()

    experts = block.experts
    if hasattr(experts, "gate_up_proj"):
        both, down = value(experts.gate_up_proj), value(experts.down_proj)
        half = both.shape[1] // 2
        # Linear layers: [out, in] for each expert.
        assert both.shape[2] == down.shape[1] and down.shape[2] == half, (both.shape, down.shape)
        return [[both[e, :half], both[e, half:], down[e]] for e in range(len(both))]
    return [
        [
            torch.zeros_like(getattr(expert, name).weight)
            if grad and getattr(expert, name).weight.grad is None
            else value(getattr(expert, name).weight)
            for name in names
        ]
        for expert in experts
    ]


def tensors_of(block, prefix, names, grad):
    gate = block.gate.weight.grad if grad else block.gate.weight
    tensors = {prefix + "gate.weight": gate}
    for e, matrices in enumerate(experts_of(block, names, grad)):
        for name, matrix in zip(names, matrices):
            tensors[f"{prefix}experts.{e}.{name}.weight"] = matrix
    if hasattr(block, "shared_experts"):
        for name in names:
            weight = getattr(block.shared_experts, name).weight
            tensors[f"{prefix}shared_experts.{name}.weight"] = weight.grad if grad else weight
    return tensors


def bf16(shape, generator, scale):
    return (torch.randn(shape, generator=generator) * scale).bfloat16().float()


def write(path, tensors, dtype):
    save_file({name: t.detach().to(dtype).contiguous().clone() for name, t in tensors.items()}, path)


def main(directory, hidden=256, intermediate=128):
    generator = torch.Generator().manual_seed(35)
    for name, config_type, block_type, heads, fields, prefix, names in models(hidden, intermediate):
        config = config_type(**fields, **heads)
        config._experts_implementation = "eager"
        block = block_type(config).float().eval()
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.copy_(bf16(parameter.shape, generator, parameter.shape[-1] ** -0.5))
            bias = getattr(block.gate, "e_score_correction_bias", None)
            if bias is not None:
                bias.copy_(torch.randn(bias.shape, generator=generator) * 0.1)
        x = bf16((TOKENS, hidden), generator, 1).requires_grad_()
        grad = bf16((TOKENS, hidden), generator, 1)
        y = block(x[None])
        y = (y[0] if isinstance(y, tuple) else y).reshape(TOKENS, hidden)
        (y * grad).sum().backward()

        out = os.path.join(directory, name)
        os.makedirs(out, exist_ok=True)
        with open(os.path.join(out, "config.json"), "w") as file:
            json.dump({"model_type": name, **fields}, file)
        weights = {n: t.detach().bfloat16() for n, t in tensors_of(block, prefix, names, False).items()}
        if bias is not None:
            weights[prefix + "gate.e_score_correction_bias"] = bias.detach().float()
        save_file({n: t.contiguous().clone() for n, t in weights.items()}, os.path.join(out, "model.safetensors"))
        write(os.path.join(out, "inputs.safetensors"), {"x": x, "grad": grad}, torch.bfloat16)
        results = {"y": y, "x": x.grad, **tensors_of(block, prefix, names, True)}
        write(os.path.join(out, "outputs.safetensors"), results, torch.float32)
        print(f"{out}: {len(weights)} tensors")


if __name__ == "__main__":
    main(sys.argv[1], *(int(size) for size in sys.argv[2:]))
