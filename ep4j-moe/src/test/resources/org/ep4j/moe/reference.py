"""A MoE layer of a checkpoint in plain PyTorch, double precision, with gradients by autograd.

Usage: reference.py DIRECTORY LAYER INPUTS OUTPUTS

Reads DIRECTORY/config.json and model.safetensors, and from INPUTS the tensors `x` and `grad` [T, H].
Writes `y`, the gradients of sum(y * grad) by `x` and by each tensor of the layer, under its name.
"""

import json
import struct
import sys

import torch


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        types = {"F32": torch.float32, "BF16": torch.bfloat16}
        values = torch.frombuffer(bytearray(data[begin:end]), dtype=types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"]).to(torch.float64)
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.detach().to(torch.float32).contiguous().numpy().tobytes()
        offsets = [len(data), len(data) + len(values)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def route(config, logits, bias):
    """Ids and weights of the chosen experts, [T, K]."""
    if config["model_type"] == "deepseek_v3":
        scores = logits.sigmoid()
        wanted = scores.detach() + bias
        groups = wanted.view(len(wanted), config["n_group"], -1)
        best = groups.topk(2, dim=-1).values.sum(-1).topk(config["topk_group"], dim=-1).indices
        kept = torch.zeros_like(groups[:, :, 0]).scatter(1, best, 1).bool()
        wanted = groups.masked_fill(~kept.unsqueeze(-1), float("-inf")).flatten(1)
    else:
        scores = wanted = logits.softmax(-1)
    ids = wanted.topk(config["num_experts_per_tok"], dim=-1).indices
    weights = scores.gather(1, ids)
    if config.get("norm_topk_prob", config["model_type"] == "mixtral"):
        weights = weights / weights.sum(-1, keepdim=True)
    return ids, weights * config.get("routed_scaling_factor", 1)


def swiglu(x, w1, w3, w2):
    return (torch.nn.functional.silu(x @ w1.T) * (x @ w3.T)) @ w2.T


def main(directory, layer, inputs, outputs):
    with open(directory + "/config.json") as file:
        config = json.load(file)
    mixtral = config["model_type"] == "mixtral"
    block = "block_sparse_moe" if mixtral else "mlp"
    matrices = ["w1", "w3", "w2"] if mixtral else ["gate_proj", "up_proj", "down_proj"]
    prefix = f"model.layers.{layer}.{block}."
    tensors = read(directory + "/model.safetensors")
    layer = {name: value.requires_grad_() for name, value in tensors.items() if name.startswith(prefix)}
    given = read(inputs)
    x = given["x"].requires_grad_()

    def expert(name):
        return [layer[f"{prefix}{name}.{matrix}.weight"] for matrix in matrices]

    logits = x @ layer[prefix + "gate.weight"].T
    ids, weights = route(config, logits, layer.get(prefix + "gate.e_score_correction_bias"))
    rows = []
    for token in range(len(x)):
        terms = [
            weights[token, k] * swiglu(x[token], *expert(f"experts.{ids[token, k]}"))
            for k in range(ids.shape[1])
        ]
        if config.get("n_shared_experts"):
            terms.append(swiglu(x[token], *expert("shared_experts")))
        rows.append(sum(terms))
    y = torch.stack(rows)
    (y * given["grad"]).sum().backward()
    results = {"y": y, "x": x.grad}
    for name, value in layer.items():
        results[name] = value.grad if value.grad is not None else torch.zeros_like(value)
    write(outputs, results)


main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
