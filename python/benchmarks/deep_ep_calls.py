"""Times of deep_ep's calls against ep4j's own, with CPU or CUDA tensors.

In each round all variants run once after another, so a busy machine slows all of them alike: read the ratios.

    cd python && PYTHONPATH=. python3 benchmarks/deep_ep_calls.py [--device cuda] [--ranks 1] [--profile]

On GPUs a time ends when the GPU has ended the operation; one rank waits for no other, so its minima are the calls
themselves.
"""

import argparse
import cProfile
import os
import pstats
import statistics
import sys
import tempfile
import time

import deep_ep
import torch
import torch.distributed as dist

EXPERTS = 32
# tokens, hidden, top-k, rounds
SHAPES = ((1024, 2048, 8, 60), (8, 512, 4, 400))
WARM = 20


class Variants:
    """The calls that are compared; each returns what it received, so that nothing is freed in the time measured."""

    def __init__(self, group, tokens, hidden, top_k):
        self.tokens = tokens
        torch.manual_seed(dist.get_rank())
        self.buffer = deep_ep.Buffer(group, 1 << 30, explicitly_destroy=True)
        self.x = torch.randn(tokens, hidden).bfloat16()
        self.ids = torch.rand(tokens, EXPERTS).topk(top_k, dim=1)[1]
        self.weights = torch.rand(tokens, top_k)
        per_rank, per_node, per_expert, in_rank, _ = self.buffer.get_dispatch_layout(
            self.ids, EXPERTS
        )
        self.routing = dict(
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_node,
            num_tokens_per_expert=per_expert,
            is_token_in_rank=in_rank,
            topk_idx=self.ids,
            topk_weights=self.weights,
        )
        self.rows, _, _, _, self.handle, _ = self.buffer.dispatch(self.x, **self.routing)
        self.engine = self.buffer._shapes.all("throughput")[0]
        received = self.low_latency_dispatch()[0]
        self.fast_rows = torch.zeros(received[0].shape, dtype=torch.bfloat16)
        self.fast_engine = self.buffer._shapes.all("low latency")[0]

    def layout(self):
        return self.buffer.get_dispatch_layout(self.ids, EXPERTS)

    def ep4j_dispatch(self):
        return self.engine.dispatch(self.x, self.ids, self.weights)

    def dispatch_views(self):
        os.environ["EP4J_DEEPEP_ZERO_COPY"] = "1"
        return self.buffer.dispatch(self.x, **self.routing)

    def dispatch_owned(self):
        os.environ["EP4J_DEEPEP_ZERO_COPY"] = "0"
        return self.buffer.dispatch(self.x, **self.routing)

    def cached_dispatch(self):
        return self.buffer.dispatch(self.x, self.handle)

    def ep4j_combine(self):
        return self.engine.combine(self.rows, self.handle.routes.handle)

    def combine(self):
        return self.buffer.combine(self.rows, self.handle)

    def low_latency_dispatch(self):
        return self.buffer.low_latency_dispatch(self.x, self.ids, self.tokens, EXPERTS)

    def ep4j_low_latency_dispatch(self):
        return self.fast_engine.low_latency_dispatch(self.x, self.ids, scale_columns=True)

    def low_latency_pair(self):
        return self.buffer.low_latency_combine(
            self.fast_rows, self.ids, self.weights, self.low_latency_dispatch()[2]
        )

    def ep4j_low_latency_pair(self):
        sent = self.ep4j_low_latency_dispatch()
        return self.fast_engine.low_latency_combine(sent, self.fast_rows, self.ids, self.weights)

    def all(self):
        return (
            self.layout,
            self.ep4j_dispatch,
            self.dispatch_views,
            self.dispatch_owned,
            self.cached_dispatch,
            self.ep4j_combine,
            self.combine,
            self.ep4j_low_latency_dispatch,
            self.low_latency_dispatch,
            self.ep4j_low_latency_pair,
            self.low_latency_pair,
        )


def measure(group, shape):
    """Prints the median time of each variant, and the ratios of a round."""
    *sizes, rounds = shape
    variants = Variants(group, *sizes)
    times = {call.__name__: [] for call in variants.all()}
    for number in range(WARM + rounds):
        for call in variants.all():
            dist.barrier()
            begin = time.perf_counter()
            kept = call()
            if variants.x.is_cuda:
                torch.cuda.synchronize()
            elapsed = time.perf_counter() - begin
            del kept
            if number >= WARM:
                times[call.__name__].append(elapsed * 1e6)
    if dist.get_rank() == 0:
        print(f"tokens {sizes[0]}, hidden {sizes[1]}, top-k {sizes[2]}, {dist.get_world_size()} ranks, {rounds} rounds")
        for name, values in times.items():
            print(f"  {name:25} {statistics.median(values):9.0f} us, minimum {min(values):9.0f}")
        for name, other in (
            ("dispatch_views", "ep4j_dispatch"),
            ("dispatch_owned", "dispatch_views"),
            ("combine", "ep4j_combine"),
            ("low_latency_dispatch", "ep4j_low_latency_dispatch"),
            ("low_latency_pair", "ep4j_low_latency_pair"),
        ):
            ratio = statistics.median(a / b for a, b in zip(times[name], times[other]))
            print(f"  {name} / {other}: {ratio:.2f}")
        sys.stdout.flush()
    variants.buffer.destroy()


def profile(group, shape):
    """Prints where rank 0 spends the time of its calls."""
    *sizes, rounds = shape
    variants = Variants(group, *sizes)
    profiler = cProfile.Profile()
    for number in range(WARM + rounds):
        for call in (variants.dispatch_owned, variants.combine, variants.low_latency_pair):
            dist.barrier()
            if number >= WARM:
                profiler.enable()
            call()
            profiler.disable()
    if dist.get_rank() == 0:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    variants.buffer.destroy()


def rank_main(rank, directory, device, ranks, profiled):
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
        torch.set_default_device("cuda")
    dist.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=ranks
    )
    for shape in SHAPES:
        (profile if profiled else measure)(dist.group.WORLD, shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="a profile of rank 0 instead")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(
            rank_main,
            (directory, arguments.device, arguments.ranks, arguments.profile),
            arguments.ranks,
        )
