"""What ranks do when others are lost."""

import os
import signal
import subprocess
import sys
import time

import ep4j
import model
import support
from ranks_throughput import check_flat, opened


def killed(join):
    """The last rank dies inside a series of dispatches: the others notice within the liveness
    interval, and go on without it.
    """
    with ep4j.Group.join(**join, liveness=1.0) as group:
        config = ep4j.BufferConfig(
            hidden=model.HIDDEN,
            top_k=model.TOP_K,
            experts=12,
            max_tokens=model.MAX_TOKENS,
            timeout=20.0,
        )
        buffer = ep4j.Buffer(group, config)
        x, topk_idx, weights = model.inputs(0, group.size)
        buffer.dispatch(x, topk_idx, weights)
        group.barrier()
        if group.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        start = time.monotonic()
        try:
            while True:
                buffer.dispatch(x, topk_idx, weights)
        except (ep4j.PeerTimeout, ep4j.PeerLost) as error:
            assert error.rank == 2, error
            assert str(error).startswith(f"EP4J-{error.code}: "), error
        seconds = time.monotonic() - start
        assert not group.rank_state(2).alive and group.rank_state(2).report
        buffer.reset()
        received = buffer.dispatch(x, topk_idx, weights)
        combined = buffer.combine(received.x, received.handle)
        assert combined.x.shape == x.shape
        with group.survivors(20) as survivors:
            assert survivors.size == 2
        buffer.close()
        return seconds


_RETURN = """
import ep4j, model, os
from ranks_throughput import check_flat
group = ep4j.Group.rejoin(rank=1, ranks=2, port={port}, secret="{secret}", join_timeout=40)
config = ep4j.BufferConfig(hidden=model.HIDDEN, top_k=model.TOP_K, experts=model.EXPERTS,
                           max_tokens=model.MAX_TOKENS, timeout=20.0)
buffer = ep4j.Buffer.rejoin(group, config)
received = buffer.dispatch(*model.inputs(1, 2))
check_flat(received, group)
group.barrier()
os._exit(0)
"""


def replaced(join, port):
    """Rank 1 dies; a new process takes its place."""
    join = dict(join, port=port)
    group = ep4j.Group.join(**join, liveness=1.0)
    config = ep4j.BufferConfig(
        hidden=model.HIDDEN,
        top_k=model.TOP_K,
        experts=model.EXPERTS,
        max_tokens=model.MAX_TOKENS,
        timeout=20.0,
    )
    buffer = ep4j.Buffer(group, config)
    buffer.barrier()
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    program = _RETURN.format(port=port, secret=join["secret"])
    successor = subprocess.Popen([sys.executable, "-c", program], env=support.environment())
    while not group.rank_state(1).has_replacement:
        assert successor.poll() is None, "the successor has ended"
        time.sleep(0.1)
    ranks = group.readmit(40)
    buffer.readmit()
    received = buffer.dispatch(*model.inputs(0, 2))
    check_flat(received, group)
    assert group.rank_state(1).incarnation == 1
    group.barrier()
    assert successor.wait(30) == 0
    try:
        buffer.close()
        group.close()
    except ep4j.Error:
        pass  # The successor has left.
    return f"readmitted {ranks}"


def mismatch(join):
    """Ranks that call different operations learn it."""
    with opened(join, timeout=5.0) as (group, buffer):
        x, topk_idx, weights = model.inputs(group.rank, group.size)
        layout = ep4j.FLAT if group.rank == 0 else ep4j.EXPERT_MAJOR
        try:
            buffer.dispatch(x, topk_idx, weights, layout=layout)
        except ep4j.ConfigurationMismatch as error:
            assert error.code > 0
        else:
            raise AssertionError("no error")
