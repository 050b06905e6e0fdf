"""A Mixture-of-Experts layer of PyTorch on one device, to stand beside `ep4j bench moe` with the same shapes.

    python3 moe_eager.py [--tokens N --hidden N --intermediate N --experts N --topk N] [--json FILE]

The layer is that of `ep4j bench moe`: softmax router with weights that sum to 1, SwiGLU experts, BF16 (on CPUs FP32).
`loop` calls each expert in turn, as model code without fused kernels does; `grouped` sorts the rows by expert and uses
torch's grouped products, if this version has them. `products alone` are the products of the experts over rows that are
sorted already, one call of torch.matmul each: the library's own rate for these groups. Times are medians between two
events of the stream.
"""

import argparse
import json
import statistics
import time

import torch
from torch.nn import functional


# Of the largest element, for results that BF16 has rounded on the way.
TOLERANCE = 0.02


class Layer:
    """Weights, tokens and the choices of experts, which all variants share."""

    def __init__(self, options):
        self.device = torch.device(options.device)
        self.type = torch.bfloat16 if options.device == "cuda" else torch.float32
        generator = torch.Generator(self.device).manual_seed(options.seed)

        def values(scale, *shape):
            uniform = torch.rand(shape, generator=generator, device=self.device) * 2 - 1
            return (uniform * scale).to(self.type)

        self.topk, self.experts = options.topk, options.experts
        self.x = values(1, options.tokens, options.hidden)
        self.router = values(1, options.experts, options.hidden)
        # w1 above w3, by experts, so that the largest temporary is that of one expert.
        inner, outer = options.hidden**-0.5, options.intermediate**-0.5
        self.w13 = torch.stack([values(inner, 2 * options.intermediate, options.hidden) for _ in range(options.experts)])
        self.w2 = torch.stack([values(outer, options.hidden, options.intermediate) for _ in range(options.experts)])

    def route(self):
        scores = functional.softmax((self.x @ self.router.T).float(), dim=-1)
        weights, ids = scores.topk(self.topk, dim=-1)
        return weights / weights.sum(-1, keepdim=True), ids

    def expert(self, e, rows):
        gate, up = (rows @ self.w13[e].T).chunk(2, dim=-1)
        return (functional.silu(gate) * up) @ self.w2[e].T

    def loop(self):
        weights, ids = self.route()
        sums = torch.zeros_like(self.x, dtype=torch.float32)
        for e in range(self.experts):
            token, choice = torch.where(ids == e)
            results = self.expert(e, self.x[token])
            sums.index_add_(0, token, results.float() * weights[token, choice, None])
        return sums.to(self.type)

    def sorted_rows(self, ids):
        """Choices in the order of their experts, and the end of each expert's rows."""
        order = ids.flatten().argsort(stable=True)
        ends = torch.bincount(ids.flatten(), minlength=self.experts).cumsum(0).to(torch.int32)
        return order, ends

    def grouped(self):
        weights, ids = self.route()
        order, ends = self.sorted_rows(ids)
        rows = self.x[order // self.topk]
        gate, up = torch._grouped_mm(rows, self.w13.transpose(1, 2), offs=ends).chunk(2, dim=-1)
        results = torch._grouped_mm(functional.silu(gate) * up, self.w2.transpose(1, 2), offs=ends)
        weighted = results.float() * weights.flatten()[order, None]
        sums = torch.zeros_like(self.x, dtype=torch.float32)
        return sums.index_add_(0, order // self.topk, weighted).to(self.type)

    def products(self):
        """Calls of each product of the experts, without SwiGLU, over sorted rows."""
        order, ends = self.sorted_rows(self.route()[1])
        rows = self.x[order // self.topk]
        inner = rows.new_empty(len(rows), self.w2.shape[2]).normal_()
        first_results = rows.new_empty(len(rows), self.w13.shape[1])
        second_results = rows.new_empty(len(rows), self.w2.shape[1])
        bounds = [0, *ends.tolist()]
        parts = [(e, slice(bounds[e], bounds[e + 1])) for e in range(self.experts) if bounds[e] < bounds[e + 1]]

        def run():
            for e, part in parts:
                torch.matmul(rows[part], self.w13[e].T, out=first_results[part])
            for e, part in parts:
                torch.matmul(inner[part], self.w2[e].T, out=second_results[part])

        return run


def micros(call, iterations, device):
    """Median time of a call, after a fifth of the iterations as warm-up."""
    for _ in range(max(3, iterations // 5)):
        call()
    times = []
    for _ in range(iterations):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(1e3 * begin.elapsed_time(end))
        else:
            start = time.perf_counter()
            call()
            times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json")
    for name, value in (
        ("tokens", 4096),
        ("hidden", 7168),
        ("intermediate", 2048),
        ("experts", 64),
        ("topk", 8),
        ("iterations", 30),
        ("seed", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with torch.no_grad():
        layer = Layer(options)
        result = {
            **vars(options),
            "torch": torch.__version__,
            "name": torch.cuda.get_device_name() if options.device == "cuda" else "CPU",
        }
        variants = {"loop": layer.loop}
        if options.device == "cuda" and hasattr(torch, "_grouped_mm"):
            expected = layer.loop()
            difference = float((layer.grouped() - expected).abs().max() / expected.abs().max())
            if not difference < TOLERANCE:
                raise AssertionError(f"the variants differ by {difference} of the largest element")
            result["difference_of_variants"] = difference
            variants["grouped"] = layer.grouped
        variants.update({"route": layer.route, "products alone": layer.products()})
        for name, call in variants.items():
            result[name.replace(" ", "_") + "_us"] = micros(call, options.iterations, layer.device)
    operations = 6 * options.tokens * options.topk * options.hidden * options.intermediate
    result["products_alone_tflops"] = operations / result["products_alone_us"] / 1e6
    print(f"PyTorch {result['torch']}, {result['name']}")
    for name in variants:
        print(f"{name:>16}: {result[name.replace(' ', '_') + '_us']:.0f} us")
    print(f"products alone: {result['products_alone_tflops']:.1f} TFLOP/s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
