"""The ep4j buffers behind a Buffer: DeepEP sizes a buffer in bytes, ep4j by a shape.

A buffer is opened at the first call that needs its shape. Opening is collective, and so is each of these
calls, in the same order on all ranks; the ranks then agree on the largest number of tokens, rounded up.
Later calls exchange nothing. For a later batch with more tokens than that the ranks open a larger buffer: `growth`.
"""

import contextlib
import dataclasses
import time
import warnings
from typing import Any, Dict, List, Optional, Tuple

import ep4j
import torch

from .config import USUAL_TOKENS, max_tokens_setting
from .devices import device_of
from .errors import CLOSED, TOKENS, misused, refused
from .growth import Demand
from .worlds import World

# Low-latency buffers that differ in their number of tokens alone, at which a warning tells of their memory.
_MANY = 4
_WARM_UP_TOKENS = 16
_WARM_UP_ROUNDS = 1000
_WARM_UP_LOOKS = 25  # rounds from one look at the clock to the next
_WARM_UP_MILLIS = 1000


class Shape:
    """An open ep4j buffer, and what its calls ask of it each time."""

    def __init__(self, buffer: "ep4j.Buffer", demand: Optional[Demand] = None) -> None:
        """`demand`: how a rank asks for a larger buffer; None: this one stays as it is."""
        info = buffer.info
        self.buffer = buffer
        self.on_gpu = info.engine == "cuda"
        self.max_rows = info.max_receive_rows
        self.max_tokens = buffer.config.max_tokens
        self.demand = demand
        self._sms: Optional[int] = None

    def use_sms(self, sms: Optional[int]) -> None:
        """SMs of the next operation, None or 0: the choice of ep4j. The host engine chooses its threads itself."""
        if self.on_gpu and sms != self._sms:
            self.buffer.set_parallelism(sms or 0)
            self._sms = sms


class Shapes:
    """Opens, keeps and closes the ep4j buffers of one Buffer."""

    def __init__(
        self,
        world: World,
        granted_bytes: Optional[int],
        granted_as: str = "num_nvl_bytes + num_rdma_bytes",
        max_tokens: int = 0,
        **settings: Any,
    ) -> None:
        """
        Args:
            granted_bytes: memory that the caller grants; None: what it takes.
            granted_as: the caller's name of it.
            max_tokens: tokens a rank of the first buffer, where the caller opens larger buffers itself.
            settings: fields of the BufferConfig of each high-throughput buffer.
        """
        self.world = world
        #: Tokens a rank of the largest buffer that the ranks have opened; first those that the caller has named.
        self.max_tokens = max_tokens
        self._granted = granted_bytes
        self._granted_as = granted_as
        self._settings = settings
        self._used = 0
        self._open: Dict[Tuple[Any, ...], Shape] = {}
        # Buffers that larger ones have replaced: handles and views may still refer to them.
        self._outgrown: List[Shape] = []
        self._closed = False

    def throughput(
        self,
        engine: str,
        hidden: int,
        top_k: int,
        experts: int,
        tokens: int,
        *,
        fixed_tokens: int = 0,
        grouped: bool = False,
        expert_alignment: int = 128,
        ranks_per_node: int = 0,
        asking: bool = True,
    ) -> Shape:
        """The buffer for batches of this shape; a smaller one where the call can ask for another.

        Args:
            fixed_tokens: largest number of tokens a rank, where the caller opens larger buffers itself; 0: the ranks
                agree on it, and the buffer can grow.
            grouped: rows may go to a group per expert.
            asking: whether the call learns the demands of other ranks.
        """
        shape_of_call = (engine, hidden, top_k, experts, grouped, expert_alignment, fixed_tokens)
        key = ("throughput", *shape_of_call)
        shape = self._open.get(key)
        if shape is None:
            self._require_open()
            config = ep4j.BufferConfig(
                hidden=hidden,
                top_k=top_k,
                experts=experts,
                engine=engine,
                expert_alignment=expert_alignment,
                ranks_per_node=ranks_per_node,
                timeout=self.world.timeout,
                **self._settings,
            )
            fixed = fixed_tokens or max_tokens_setting()
            if fixed:
                shape = self._keep(key, self._of_tokens(config, fixed, grouped))
            else:
                demand = Demand(self.world.size, experts, top_k)
                config = demand.extended(config)
                shape = self._keep(key, self._agreed(config, max(tokens, demand.tokens)), demand)
        if tokens > shape.max_tokens and (shape.demand is None or not asking):
            if shape.demand is None:
                remedy = "set EP4J_MAX_TOKENS, the same on all ranks, to the largest batch of any rank, or unset it"
            else:
                remedy = (
                    "with num_worst_tokens a GPU learns no demand for a larger one: make the first call with the"
                    " largest batch of any rank, or set EP4J_MAX_TOKENS to it on all ranks"
                )
            raise refused(
                f"a batch has {tokens} tokens; the buffer for hidden = {hidden} takes {shape.max_tokens} a rank,"
                f" as the ranks agreed when they opened it: {remedy}, or split the batches of all ranks."
                " Nothing was sent; ranks that have called wait for this one until their timeout",
                TOKENS,
            )
        return shape

    def grow(self, shape: Shape, tokens: int) -> None:
        """Opens a larger buffer in the place of one; collective. `tokens`: those of this rank's batch.

        Where the ranks cannot open it, the present buffer stays in its place. They have not sent their batches.
        """
        key = next(key for key, opened in self._open.items() if opened is shape)
        try:
            # At least twice as large: replaced buffers then take no more memory than the last one, however slowly they
            # grow.
            config = self._agreed(shape.buffer.config, max(tokens, 2 * shape.max_tokens))
            self._keep(key, config, shape.demand)
        except (ep4j.PeerLost, ep4j.PeerTimeout) as error:
            if self._open[key] is not shape:
                raise  # The larger buffer is open: its warm-up has failed.
            raise type(error)(
                f"{error}; a rank has more than the {shape.max_tokens} tokens that the buffer for"
                f" hidden = {shape.buffer.config.hidden} takes, and only all ranks together open a larger one: after"
                f" reset() pass at most {shape.max_tokens} tokens a rank, or make a new Buffer of the ranks that are"
                " left. Nothing of the batch was sent",
                error.code,
                error.rank,
            ) from error

    def low_latency(
        self,
        engine: str,
        hidden: int,
        top_k: int,
        experts: int,
        max_tokens: int,
        masking: bool,
        ranks_per_node: int,
    ) -> Shape:
        """The buffer for low-latency batches of up to `max_tokens` tokens a rank."""
        key = ("low latency", engine, hidden, top_k, experts, max_tokens)
        shape = self._open.get(key)
        if shape is None:
            self._require_open()
            config = ep4j.BufferConfig(
                hidden=hidden,
                top_k=top_k,
                experts=experts,
                engine=engine,
                low_latency_max_tokens=max_tokens,
                masking=masking,
                ranks_per_node=ranks_per_node,
                timeout=self.world.timeout,
            )
            shape = self._keep(key, config)
            alike = [opened for opened in self._open if opened[:-1] == key[:-1]]
            if len(alike) == _MANY:
                warnings.warn(
                    f"low-latency buffers for {sorted(opened[-1] for opened in alike)} tokens a rank are open, each with"
                    " memory of its own until the Buffer closes: pass one num_max_dispatch_tokens_per_rank, the largest",
                    RuntimeWarning,
                    stacklevel=4,
                )
        return shape

    def all(self, kind: str) -> List["ep4j.Buffer"]:
        """The open buffers of a kind, "throughput" or "low latency"."""
        return [shape.buffer for key, shape in self._open.items() if key[0] == kind]

    def reset(self) -> None:
        for shape in (*self._open.values(), *self._outgrown):
            shape.buffer.reset()

    def close(self) -> None:
        """Closes all, also where one of them fails; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with contextlib.ExitStack() as closing:
                closing.callback(self.world.close)
                for shape in (*self._open.values(), *self._outgrown):
                    closing.callback(shape.buffer.close)
                self._open.clear()
                self._outgrown.clear()

    def _of_tokens(
        self, config: "ep4j.BufferConfig", tokens: int, grouped: bool
    ) -> "ep4j.BufferConfig":
        layout = ep4j.EXPERT_MAJOR if grouped else ep4j.FLAT
        return dataclasses.replace(config, max_tokens=tokens, layouts=(layout,))

    def _agreed(self, config: "ep4j.BufferConfig", tokens: int) -> "ep4j.BufferConfig":
        """For the largest batch of any rank, and for more where the granted memory allows; collective."""
        needed = max(self.world.most(tokens), 1)
        rounded = max(USUAL_TOKENS, 1 << (needed - 1).bit_length())
        while (
            rounded > needed
            and self._granted is not None
            and self._bytes(self._of_tokens(config, rounded, False)) > self._granted - self._used
        ):
            rounded //= 2
        return self._of_tokens(config, max(rounded, needed), False)

    def _bytes(self, config: "ep4j.BufferConfig") -> int:
        return config.sizes(self.world.size).total

    def _keep(
        self,
        key: Tuple[Any, ...],
        config: "ep4j.BufferConfig",
        demand: Optional[Demand] = None,
    ) -> Shape:
        used = self._used + self._bytes(config)
        if self._granted is not None and used > self._granted:
            warnings.warn(
                f"ep4j takes {used} bytes for the shapes of this Buffer, {used - self._granted} more than"
                f" {self._granted_as} = {self._granted}: pass the size hints that deep_ep returns, or make the"
                " batches smaller (EP4J_MAX_TOKENS, num_max_tokens_per_rank)",
                RuntimeWarning,
                stacklevel=5,
            )
        shape = Shape(ep4j.Buffer(self.world.group, config), demand)
        # Kept in front of the warm-up. All ranks have opened the buffer, but a warm-up may fail on some of them, as where
        # the memory of one GPU runs out. A rank that then dropped the buffer would open another one alone, and would reset
        # fewer buffers than the others do. A buffer without a warm-up works after reset(), slower in its first calls.
        outgrown = self._open.get(key)
        if outgrown is not None:
            self._outgrown.append(outgrown)
        self._open[key] = shape
        self._used = used
        self.max_tokens = max(self.max_tokens, config.max_tokens)
        if shape.on_gpu:
            self.warm_up(shape.buffer)
        return shape

    def warm_up(self, buffer: "ep4j.Buffer") -> None:
        """Operations with a few zeros, until the JVM has compiled their code; collective.

        Without it the first hundreds of operations would take several times as long as the later ones.
        """
        config = buffer.config
        tokens = min(_WARM_UP_TOKENS, config.max_tokens or config.low_latency_max_tokens)
        device = device_of(buffer)
        x = torch.zeros((tokens, config.hidden), dtype=torch.bfloat16, device=device)
        choices = torch.arange(tokens * config.top_k, device=device) % config.experts
        ids = choices.view(tokens, config.top_k)
        weights = torch.zeros(ids.shape, dtype=torch.float32, device=device)
        layout = config.layouts[0]
        begin = time.monotonic()
        for number in range(1, _WARM_UP_ROUNDS + 1):
            if config.max_tokens:
                received = buffer.dispatch(x, ids, weights, layout=layout)
                buffer.combine(received.x.clone(), received.handle)
                buffer.dispatch(x, handle=received.handle, layout=layout)
            else:
                sent = buffer.low_latency_dispatch(x, ids, weights)
                buffer.low_latency_combine(sent, sent.combine_input(), ids, weights, zero_copy=True)
            # Ranks that share a GPU take turns of milliseconds.
            elapsed = int((time.monotonic() - begin) * 1000)
            if number % _WARM_UP_LOOKS == 0 and self.world.most(elapsed) > _WARM_UP_MILLIS:
                break

    def _require_open(self) -> None:
        if self._closed:
            raise misused("the Buffer is destroyed: make a new one", CLOSED)
