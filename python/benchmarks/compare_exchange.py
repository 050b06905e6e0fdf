"""Dispatch and combine of one system, measured like those of others: `benchmarks/compare-gpu.sh` runs it.

    python3 compare_exchange.py measure --system deep_ep|hybrid_ep|exchange --name NAME --json FILE [options]
    python3 compare_exchange.py table FILE...

`deep_ep` and `hybrid_ep` take the package deep_ep that PYTHONPATH names first: ep4j's or another one with the same
API. `exchange` lets torch.distributed (NCCL, on CPUs Gloo) send the rows of a dispatch, already packed, and send them
back, without sums: the least that a program without such a library does.

Every output is compared before and after the measurement. A call lasts from the call to the end of the GPU's work, with
all ranks starting together; its time is that of the slowest rank, and the table shows medians. Kernels are the sum over
a call, the median of the calls, on the rank where it is largest.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

OPERATIONS = ("dispatch", "dispatch_along", "combine")

# The name of a measured call in a trace.
CALL = "measured call"


class Work:
    """The rows and choices of all ranks, equal for all systems."""

    def __init__(self, options, device):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.options = options
        self.experts, self.hidden = options.experts, options.hidden
        generator = torch.Generator().manual_seed(options.seed)
        all_ids = [
            torch.rand(options.tokens, self.experts, generator=generator).topk(options.topk, dim=1)[1]
            for _ in range(self.ranks)
        ]
        all_rows = [
            torch.randn(options.tokens, self.hidden, generator=generator).bfloat16()
            for _ in range(self.ranks)
        ]
        each = self.experts // self.ranks
        in_rank = [
            torch.stack([(ids // each == r).any(1) for r in range(self.ranks)], dim=1)
            for ids in all_ids
        ]
        self.ids = all_ids[self.rank].to(device)
        self.weights = torch.rand(options.tokens, options.topk, generator=generator).to(device)
        self.x = all_rows[self.rank].to(device)
        self.in_rank = in_rank[self.rank].to(device)
        # By source rank and token.
        self.received = torch.cat(
            [rows[chosen[:, self.rank]] for rows, chosen in zip(all_rows, in_rank)]
        ).to(device)
        copies = self.in_rank.sum(1, keepdim=True)
        self.sums = (self.x.float() * copies).bfloat16()
        self.receive_counts = [int(chosen[:, self.rank].sum()) for chosen in in_rank]

    def quantized(self):
        """Rows of 8 bits and their scales; their contents do not matter to an exchange."""
        rows = self.x.view(torch.uint8)[:, : self.hidden].contiguous()
        scales = torch.rand(rows.shape[0], self.hidden // 128, device=rows.device)
        kind = getattr(torch, "float8_e4m3fn", None)
        return (rows if kind is None else rows.view(kind)), scales


class DeepEp:
    """deep_ep.Buffer, BF16 or FP8 rows."""

    def __init__(self, work, sms, fp8):
        import deep_ep

        self.work = work
        deep_ep.Buffer.set_num_sms(sms)
        group = dist.group.WORLD
        hints = [
            config.get_nvl_buffer_size_hint(2 * work.hidden, work.ranks)
            for config in (
                deep_ep.Buffer.get_dispatch_config(work.ranks),
                deep_ep.Buffer.get_combine_config(work.ranks),
            )
        ]
        self.buffer = deep_ep.Buffer(group, max(2 << 30, *hints), explicitly_destroy=True)
        per_rank, per_node, per_expert, in_rank, _ = self.buffer.get_dispatch_layout(
            work.ids, work.experts
        )
        self.rows = work.quantized() if fp8 else work.x
        self.routing = dict(
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_node,
            is_token_in_rank=in_rank,
            num_tokens_per_expert=per_expert,
            topk_idx=work.ids,
            topk_weights=work.weights,
        )
        self.handle = self.dispatch()[4]

    def dispatch(self):
        return self.buffer.dispatch(self.rows, **self.routing)

    def dispatch_along(self):
        return self.buffer.dispatch(self.rows, handle=self.handle)

    def combine(self):
        return self.buffer.combine(self.work.received, self.handle)

    def received(self):
        return self.dispatch()[0]

    def sums(self):
        return self.combine()[0]

    def close(self):
        self.buffer.destroy()


class HybridEp:
    """deep_ep.HybridEPBuffer, without permutation."""

    def __init__(self, work, sms, fp8):
        import deep_ep

        self.work = work
        self.buffer = deep_ep.HybridEPBuffer(
            group=dist.group.WORLD,
            hidden_dim=work.hidden,
            max_num_of_tokens_per_rank=work.x.shape[0],
            num_local_experts=work.experts // work.ranks,
            use_fp8=fp8,
            num_sms_dispatch_api=sms,
            num_sms_combine_api=sms,
        )
        self.rows = dict(hidden=work.x)
        if fp8:
            rows, scales = work.quantized()
            self.rows = dict(hidden=rows.view(torch.uint8), scaling_factor=scales)
        self.handle = self.dispatch()[3]

    def dispatch(self):
        return self.buffer.dispatch(
            topk_idx=self.work.ids,
            topk_weights=self.work.weights,
            num_of_experts=self.work.experts,
            **self.rows,
        )

    def dispatch_along(self):
        return self.buffer.dispatch(handle=self.handle, **self.rows)

    def combine(self):
        return self.buffer.combine(hidden=self.work.received, handle=self.handle)

    def received(self):
        return self.dispatch()[0]

    def sums(self):
        return self.combine()[0]

    def close(self):
        del self.buffer


class Exchange:
    """The rows of a dispatch, packed before, in one exchange of torch.distributed; and back, without sums."""

    def __init__(self, work, sms, fp8):
        self.work = work
        rows = work.quantized()[0].view(torch.uint8) if fp8 else work.x
        tokens, ranks = work.in_rank.t().nonzero(as_tuple=True)[::-1]
        self.packed = rows[tokens]
        self.send_counts = [int(count) for count in work.in_rank.sum(0)]
        self.kind = self.packed.dtype
        self.out = torch.empty(
            (sum(work.receive_counts), self.packed.shape[1]), dtype=self.kind, device=rows.device
        )
        self.back = torch.empty_like(self.packed)

    @staticmethod
    def _send(target, source, receive_counts, send_counts):
        if target.is_cuda:
            dist.all_to_all_single(target, source, receive_counts, send_counts)
            return
        # Gloo has no exchange of rows.
        rank, peers = dist.get_rank(), dist.get_world_size()
        outgoing, incoming = source.split(send_counts), target.split(receive_counts)
        incoming[rank].copy_(outgoing[rank])
        works = []
        for step in range(1, peers):
            to, other = (rank + step) % peers, (rank - step) % peers
            # Gloo does not know BF16.
            works.append(dist.isend(outgoing[to].view(torch.uint8), to))
            works.append(dist.irecv(incoming[other].view(torch.uint8), other))
        for work in works:
            work.wait()

    def dispatch(self):
        self._send(self.out, self.packed, self.work.receive_counts, self.send_counts)

    dispatch_along = dispatch

    def combine(self):
        self._send(self.back, self.out, self.send_counts, self.work.receive_counts)

    def received(self):
        self.dispatch()
        return self.out

    def sums(self):
        self.dispatch()
        self.combine()
        if not torch.equal(self.back, self.packed):
            raise AssertionError("rows that came back differ from those that were sent")
        return self.work.sums

    def close(self):
        pass


SYSTEMS = {"deep_ep": DeepEp, "hybrid_ep": HybridEp, "exchange": Exchange}


def verify(system, work, fp8):
    """Compares rows and sums with those of the plain arithmetic."""
    rows = system.received()
    if fp8:
        rows = rows[0] if isinstance(rows, tuple) else rows
        due = work.received.view(torch.uint8)[:, : work.hidden]
        equal = torch.equal(rows.view(torch.uint8)[:, : work.hidden], due)
    else:
        equal = torch.equal(rows[: work.received.shape[0]], work.received)
    if not equal:
        raise AssertionError(f"rank {work.rank}: the rows that it received are not those that were sent")
    if not torch.equal(system.sums(), work.sums):
        raise AssertionError(f"rank {work.rank}: the sums of its rows are wrong")


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def slowest(times):
    """The largest time of all ranks, by iteration."""
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, times)
    return [max(of_ranks) for of_ranks in zip(*everyone)]


def call_times(call, options, device):
    times = []
    for number in range(options.warmup + options.iterations):
        wait(device)
        dist.barrier()
        wait(device)
        begin = time.perf_counter()
        kept = call()
        wait(device)
        elapsed = (time.perf_counter() - begin) * 1e6
        del kept
        if number >= options.warmup:
            times.append(elapsed)
    return slowest(times)


def kernel_time(call, options, device):
    """Microseconds of all kernels of a call, the median; None on CPUs."""
    if device.type != "cuda":
        return None
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(options.iterations):
            wait(device)
            dist.barrier()
            wait(device)
            with record_function(CALL):
                kept = call()
                wait(device)
            del kept
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "trace.json")
        profiler.export_chrome_trace(file)
        with open(file) as text:
            events = json.load(text)["traceEvents"]
    return slowest([statistics.median(kernels_of_calls(events))])[0]


def kernels_of_calls(events):
    """For each call of a trace, the microseconds of the kernels that started in it."""
    calls = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("cat") == "user_annotation" and event["name"] == CALL
    ]
    kernels = [(event["ts"], event["dur"]) for event in events if event.get("cat") == "kernel"]
    return [sum(dur for ts, dur in kernels if begin <= ts < end) for begin, end in calls]


def measure(options, device):
    """Rows of the table of one system."""
    work = Work(options, device)
    rows = []
    kinds = [kind == "fp8" for kind in options.dtype.split(",")]
    sms = [int(n) for n in options.sms.split(",")]
    if options.system == "exchange":
        sms = [0]  # It chooses them itself.
    for fp8 in kinds:
        for n in sms:
            system = SYSTEMS[options.system](work, n, fp8)
            verify(system, work, fp8)
            row = dict(system=options.name, dtype="fp8" if fp8 else "bf16", sms=n)
            for operation in OPERATIONS:
                if fp8 and operation == "combine":
                    continue  # Sums are those of BF16 rows.
                call = getattr(system, operation)
                times = call_times(call, options, device)
                row[operation] = dict(
                    call_us=statistics.median(times),
                    fastest_us=min(times),
                    kernels_us=kernel_time(call, options, device),
                )
            verify(system, work, fp8)
            system.close()
            rows.append(row)
    return rows


def rank_main(rank, directory, options):
    torch.set_num_threads(1)
    cuda = options.device == "cuda"
    device = torch.device("cuda", rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"file://{directory}/store",
        rank=rank,
        world_size=options.ranks,
    )
    rows = measure(options, device)
    if rank == 0:
        with open(options.json, "w") as file:
            json.dump(
                dict(
                    device=torch.cuda.get_device_name(device) if cuda else "CPU",
                    torch=torch.__version__,
                    settings={
                        name: getattr(options, name)
                        for name in ("ranks", "tokens", "hidden", "topk", "experts", "iterations")
                    },
                    rows=rows,
                ),
                file,
                indent=1,
            )
    dist.barrier()
    dist.destroy_process_group()


def table(files):
    """Prints one table of all files; they must be of one machine and one workload."""
    parts = []
    for name in files:
        with open(name) as file:
            parts.append(json.load(file))
    if any((part["device"], part["settings"]) != (parts[0]["device"], parts[0]["settings"]) for part in parts):
        sys.exit("the files are of different machines or workloads")
    settings = ", ".join(f"{name} {value}" for name, value in parts[0]["settings"].items())
    print(f"{parts[0]['device']}: {settings}. Microseconds: calls (kernels).\n")
    print("| rows | SMs | system | dispatch | along a handle | combine |")
    print("|---|---|---|---|---|---|")
    rows = [row for part in parts for row in part["rows"]]
    for row in sorted(rows, key=lambda row: (row["dtype"], row["sms"])):
        cells = [row["dtype"], str(row["sms"] or "own choice"), row["system"]]
        for operation in OPERATIONS:
            time_of = row.get(operation)
            if time_of is None:
                cells.append("")
                continue
            kernels = time_of["kernels_us"]
            inside = "" if kernels is None else f" ({kernels:.0f})"
            cells.append(f"{time_of['call_us']:.0f}{inside}")
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("--system", choices=SYSTEMS, required=True)
    one.add_argument("--name", required=True)
    one.add_argument("--json", required=True)
    one.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    one.add_argument("--dtype", default="bf16,fp8")
    one.add_argument("--sms", default="24")
    for name, value in (
        ("ranks", 2),
        ("tokens", 4096),
        ("hidden", 7168),
        ("topk", 8),
        ("experts", 256),
        ("iterations", 50),
        ("warmup", 20),
        ("seed", 1),
    ):
        one.add_argument(f"--{name}", type=int, default=value)
    several = commands.add_parser("table")
    several.add_argument("files", nargs="+")
    options = parser.parse_args()
    if options.command == "table":
        table(options.files)
        return
    if options.experts % options.ranks:
        parser.error(f"--experts {options.experts} is no multiple of --ranks {options.ranks}")
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(rank_main, (directory, options), options.ranks)


if __name__ == "__main__":
    main()
