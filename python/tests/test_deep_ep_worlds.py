"""The ep4j group of a deep_ep buffer: its rendezvous, sub-groups, and its end."""

import contextlib
import gc
import os
import socket
import unittest
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist

import deep_ep_ranks

HIDDEN = 128


def _exchange(buffer):
    """Each rank sends one row to each rank; returns the first elements of those that came."""
    ranks = buffer.group_size
    x = torch.full((1, HIDDEN), float(dist.get_rank())).bfloat16()
    ids = torch.arange(ranks).view(1, -1)
    layout = buffer.get_dispatch_layout(ids, ranks)
    rows = buffer.dispatch(
        x, None, layout[0], layout[1], layout[3], layout[2], ids, torch.ones(1, ranks)
    )[0]
    return rows[:, 0].tolist()


def sub_groups(group):
    """A buffer of ranks that are not the first ones of the job."""
    import deep_ep

    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    first = group.rank() // 2 * 2
    buffer = deep_ep.Buffer(pairs[first // 2], 1 << 26, explicitly_destroy=True)
    assert (buffer.rank, buffer.group_size) == (group.rank() - first, 2)
    assert _exchange(buffer) == [first, first + 1]
    buffer.destroy()
    return True


def unregistered(group):
    """A group that torch.distributed does not know, as engines make them that grow and shrink."""
    import deep_ep

    store = dist.PrefixStore("unregistered", dist.distributed_c10d._get_default_store())
    own = dist.ProcessGroupGloo(store, group.rank(), group.size(), timedelta(seconds=30))
    buffer = deep_ep.Buffer(own, 1 << 26, explicitly_destroy=True)
    assert _exchange(buffer) == [0, 1]
    buffer.destroy()
    return True


def one_rendezvous_for_two_buffers(group):
    """EP4J_RENDEZVOUS serves all buffers of a process, also while another program has its port."""
    import deep_ep

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = [other.getsockname()[1]]
        dist.broadcast_object_list(port, src=0)
        with mock.patch.dict(os.environ, EP4J_RENDEZVOUS=f"127.0.0.1:{port[0]}"):
            buffers = [
                deep_ep.Buffer(group, 1 << 26, explicitly_destroy=True) for _ in range(2)
            ]
        for buffer in buffers:
            assert _exchange(buffer) == [0, 1]
        for buffer in buffers:
            buffer.destroy()
    return True


def _buffer(group):
    import deep_ep

    return deep_ep.Buffer(group, 1 << 26, explicitly_destroy=True)


def _hybrid(group):
    import deep_ep

    return deep_ep.HybridEPBuffer(group, HIDDEN, 8, 2)


def _domain(group):
    import deep_ep

    return deep_ep.get_physical_domain_size(group)


# A rank, a setting of this rank alone, and a call that refuses it.
REFUSED = (
    (1, "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", "many", _hybrid),
    (0, "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", "3", _hybrid),
    (1, "EP4J_RANKS_PER_NODE", "3", _hybrid),
    (0, "EP4J_RANKS_PER_NODE", "many", _buffer),
    (1, "EP4J_RANKS_PER_NODE", "3", _domain),
    (0, "EP4J_RENDEZVOUS", "no port", _buffer),
)


def _text(error, call, group):
    """What a call that is refused says."""
    try:
        call(group)
    except error as found:
        return str(found)
    raise AssertionError("the call was accepted")


def refused_on_one_rank(group):
    """What calls say that one rank refuses. They leave nothing behind: the next buffer works."""
    import ep4j
    from deep_ep import worlds

    mine, texts = group.rank(), []
    for rank, name, value, call in REFUSED:
        with mock.patch.dict(os.environ, {name: value} if mine == rank else {}):
            texts.append(_text(ep4j.InvalidArgument, call, group))
        assert value in texts[-1] and texts[-1].endswith(f"(on rank {rank})"), texts
    # Each rank accepts its own setting, but they differ.
    with mock.patch.dict(os.environ, {"EP4J_RANKS_PER_NODE": "1"} if mine else {}):
        for call in (_buffer, _domain):
            texts.append(_text(ep4j.InvalidArgument, call, group))
            assert "[0, 1]" in texts[-1], texts
    # An error of the machine.
    full = OSError(24, "Too many open files")
    with mock.patch.object(worlds, "_own_address", side_effect=full):
        texts.append(_text(RuntimeError, _buffer, group))
    assert "OSError" in texts[-1] and texts[-1].endswith("(on rank 0)"), texts
    buffer = _buffer(group)
    assert _exchange(buffer) == [0, 1]
    buffer.destroy()
    return texts


def collected(group):
    """Buffers without explicitly_destroy end when they are collected, in any order."""
    import deep_ep
    import ep4j

    buffers = [
        deep_ep.Buffer(group, 1 << 26),
        deep_ep.Buffer(group, 1 << 26),
        deep_ep.HybridEPBuffer(group, HIDDEN, 8, 2),
    ]
    groups = [buffer._world.group for buffer in buffers]
    assert _exchange(buffers[0]) == _exchange(buffers[1]) == [0, 1]
    for number in (0, 1, 2) if group.rank() == 0 else (2, 1, 0):
        buffers[number] = None
        gc.collect()
        try:
            groups[number].rank_state(0)
            raise AssertionError(f"buffer {number} is still open")
        except ep4j.InvalidArgument as error:
            assert "EP4J-1040" in str(error), error
    return True


def warmed_up(group):
    """Each kind of shape survives its warm-up, which buffers on GPUs get when they open."""
    import deep_ep

    buffer = deep_ep.Buffer(group, 1 << 26, 1 << 26, enable_shrink=True, explicitly_destroy=True)
    hybrid = deep_ep.HybridEPBuffer(group, HIDDEN, 8, 2)
    assert _exchange(buffer) == [0, 1]
    x, ids = torch.ones(4, HIDDEN).bfloat16(), torch.arange(8).view(4, 2) % 4
    buffer.low_latency_dispatch(x, ids, 4, 4)
    routing = torch.zeros(4, 4, dtype=torch.bool).scatter(1, ids, True)
    for pad in (None, 4):
        hybrid.dispatch_with_permute(hidden=x, routing_map=routing, pad_multiple=pad)
    hybrid.dispatch(hidden=x, routing_map=routing)
    opened = 0
    for shapes in (buffer._shapes, hybrid._shapes):
        for kind in ("throughput", "low latency"):
            for engine in shapes.all(kind):
                shapes.warm_up(engine)
                opened += 1
    assert opened >= 4, opened
    assert _exchange(buffer) == [0, 1]
    assert not any(buffer._shapes.all("low latency")[0].masked(rank) for rank in range(2))
    buffer.destroy()
    return True


def limits(group):
    """The seconds for which operations of each kind of shape wait for a silent rank, and collectives of the group."""
    buffer, hybrid = _buffer(group), _hybrid(group)
    assert _exchange(buffer) == [0, 1]
    x, ids = torch.ones(4, HIDDEN).bfloat16(), torch.arange(8).view(4, 2) % 4
    buffer.low_latency_dispatch(x, ids, 4, 4)
    hybrid.dispatch(hidden=x, topk_idx=ids, num_of_experts=4)
    found = [buffer._world.timeout, hybrid._world.timeout]
    for shapes in (buffer._shapes, hybrid._shapes):
        for kind in ("throughput", "low latency"):
            found += [opened.config.timeout for opened in shapes.all(kind)]
    buffer.destroy()
    return found


class WorldsTest(unittest.TestCase):
    def test_silent_ranks_have_the_time_of_deep_ep(self):
        self.assertEqual(deep_ep_ranks.run(2, limits), [[100.0] * 5] * 2)

    def test_shapes_survive_their_warm_up(self):
        self.assertEqual(deep_ep_ranks.run(2, warmed_up), [True] * 2)

    def test_a_buffer_of_a_sub_group(self):
        self.assertEqual(deep_ep_ranks.run(4, sub_groups), [True] * 4)

    def test_a_buffer_of_a_group_that_torch_does_not_know(self):
        self.assertEqual(deep_ep_ranks.run(2, unregistered), [True] * 2)

    def test_one_rendezvous_serves_two_buffers(self):
        self.assertEqual(deep_ep_ranks.run(2, one_rendezvous_for_two_buffers), [True] * 2)

    def test_what_one_rank_refuses_all_ranks_raise(self):
        of_ranks = deep_ep_ranks.run(2, refused_on_one_rank)
        self.assertEqual(of_ranks[0], of_ranks[1])

    def test_collected_buffers_are_closed(self):
        self.assertEqual(deep_ep_ranks.run(2, collected), [True] * 2)


class RendezvousTest(unittest.TestCase):
    def test_no_other_program_gets_the_port(self):
        from deep_ep import worlds

        with contextlib.ExitStack() as reserved, mock.patch.dict(os.environ):
            os.environ.pop("EP4J_RENDEZVOUS", None)
            _, port, _ = worlds._rendezvous(reserved)
            with socket.socket() as other:
                with self.assertRaises(OSError):
                    other.bind(("127.0.0.1", port))
            os.environ["EP4J_RENDEZVOUS"] = f"127.0.0.1:{port}"
            with socket.socket() as listening:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(("", port))
                listening.listen()
                host, next_port, _ = worlds._rendezvous(reserved)
                self.assertEqual(host, "127.0.0.1")
                self.assertGreater(next_port, port)

    def test_a_rendezvous_without_a_port_is_refused(self):
        from deep_ep import worlds

        for value in ("host", "host:", ":29400", "host:0", "host:70000", "host:x"):
            with contextlib.ExitStack() as reserved, mock.patch.dict(
                os.environ, EP4J_RENDEZVOUS=value
            ):
                with self.assertRaisesRegex(RuntimeError, "EP4J-1000: EP4J_RENDEZVOUS = " + value):
                    worlds._rendezvous(reserved)


if __name__ == "__main__":
    unittest.main()
