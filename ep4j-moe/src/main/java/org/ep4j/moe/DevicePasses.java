package org.ep4j.moe;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertRows;
import org.ep4j.GroupedDispatch;
import org.ep4j.Tokens;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.moe.DeviceExperts.Group;
import org.ep4j.moe.DeviceExperts.Groups;
import org.ep4j.moe.cublas.Fp8Product;
import org.ep4j.moe.gpu.DeviceScratch;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Passes of a layer on a GPU, in BF16 with sums in FP32.
 *
 * <p>The main queue has the router, the operations of the buffer and the experts; the side queue
 * has the shared expert, whose result combine adds as a bias. The host waits for the word that
 * reports a bad logit, before anything is sent, and, except in decoding, for the numbers of rows.
 * Each call orders its work after all work that both queues have, and returns when all of it has
 * ended.
 */
final class DevicePasses implements Passes {
  /** Points of the main queue. */
  private static final int BEGIN = 0;

  private static final int ROUTED = 1;
  static final int DISPATCHED = 2;
  static final int COMPUTED = 3;
  static final int COMBINED = 4;

  /** Points of the side queue. */
  private static final int SHARED_BEGIN = 0;

  private static final int SHARED_END = 1;

  private final LayerDevice device;
  private final ExpertBuffer buffer;
  private final MoeShape shape;
  private final WorkQueue main;
  private final WorkQueue side;
  private final DeviceRows rows;
  private final DeviceRouter router;
  private final DeviceExperts experts;
  private final Optional<DeviceExperts> shared;
  private final Execution onMain;
  private final DeviceDecoding decoding;

  /** Whether experts multiply rows of FP8 as they are, outside of decoding. */
  private final boolean multipliesFp8;

  private final DispatchOptions dispatching;

  /** Of passes without a backward pass, and of backward passes. */
  private final DeviceScratch scratch;

  private final DeviceScratch backwardScratch;

  /** Of closed passes for training. */
  private final Deque<DeviceScratch> idle = new ArrayDeque<>();

  private Optional<Gradients> gradients = Optional.empty();
  private LayerTimes times = LayerTimes.NONE;

  /** Memory of gradients, written by each backward pass. */
  private record Gradients(
      long router, DeviceExperts.Gradients experts, Optional<DeviceExperts.Gradients> shared) {}

  /**
   * What a pass keeps.
   *
   * @param x of the caller, [T, H]
   * @param rows received, BF16 [N, H]
   * @param both factors of SwiGLU of the rows, [N, 2I]
   * @param rowWeights FP32 [N]
   * @param bothOfShared factors of SwiGLU of the tokens, 0 without a shared expert
   */
  private record Kept(
      DevicePasses owner,
      DeviceScratch memory,
      long x,
      int tokens,
      DeviceRouter.Choices choices,
      DispatchHandle handle,
      Groups groups,
      long rows,
      long both,
      long rowWeights,
      long bothOfShared)
      implements ForwardPass.Kept {
    @Override
    public void close() {
      handle.close();
      owner.idle.push(memory);
    }
  }

  private DevicePasses(
      LayerDevice device,
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights,
      RowTypes types) {
    this.device = device;
    this.buffer = buffer;
    this.shape = shape;
    main = device.main();
    side = device.side();
    onMain = Execution.on(main.stream());
    scratch = new DeviceScratch(device);
    backwardScratch = new DeviceScratch(device);
    rows = new DeviceRows(types, shape.hidden());
    router =
        new DeviceRouter(device, shape.router(), shape.hidden(), buffer.rank(), placement, weights);
    experts = DeviceExperts.of(device, shape.hidden(), shape.intermediate(), weights.experts());
    shared =
        weights
            .shared()
            .map(
                one ->
                    DeviceExperts.shared(device, shape.hidden(), shape.sharedIntermediate(), one));
    // The same on all ranks, which may have different libraries and weights.
    boolean aligned = types.quantised() && alignment(buffer) >= Fp8Product.ROWS;
    dispatching =
        DispatchOptions.builder()
            .expertAlignment(aligned ? Fp8Product.ROWS : 1)
            .execution(onMain)
            .build();
    multipliesFp8 = aligned && experts.multipliesFp8(main);
    decoding =
        new DeviceDecoding(
            device,
            buffer,
            rows,
            router,
            experts,
            shared.map(
                _ ->
                    (memory, x, tokens) ->
                        sharedExpert(memory, x, tokens, takeShared(memory, tokens))));
  }

  /** Copies the weights to a device, which the passes own from now on, also if this throws. */
  static DevicePasses of(
      LayerDevice device,
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights,
      RowTypes types) {
    try {
      requireFit(shape);
      device.enter();
      return new DevicePasses(device, buffer, shape, placement, weights, types);
    } catch (RuntimeException e) {
      device.close();
      throw e;
    }
  }

  /** Largest alignment of groups for which the buffer has memory. */
  private static int alignment(ExpertBuffer buffer) {
    return buffer.config().highThroughput().orElseThrow().expertAlignment();
  }

  private static void requireFit(MoeShape shape) {
    requireVectors("hidden", shape.hidden());
    requireVectors("intermediate", shape.intermediate());
    requireVectors("sharedIntermediate", shape.sharedIntermediate());
    RouterConfig.range("experts", shape.router().experts(), 1, DeviceRouter.MAX_EXPERTS);
  }

  private static void requireVectors(String argument, int elements) {
    if (elements % MoeKernel.VECTOR != 0) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          argument,
          String.valueOf(elements),
          "a multiple of " + MoeKernel.VECTOR + " on GPUs: kernels take 16 bytes at a time",
          "pad the matrices with zeros, or use a buffer of the host engine");
    }
  }

  // --- forward --------------------------------------------------------------------------------

  @Override
  public Tensor forward(Tensor x) {
    int tokens = begin("x", x, DType.BF16);
    scratch.reset();
    long y = scratch.take(DeviceExperts.bf16(tokens, shape.hidden()));
    DeviceRouter.Choices choices = route(scratch, x, tokens);
    long added = sharedExpert(scratch, x, tokens, takeShared(scratch, tokens));
    GroupedDispatch received = dispatch(scratch, x, choices);
    try (DispatchHandle handle = received.handle()) {
      Groups groups = groups(received);
      long results = received.combineInput(DType.BF16).address();
      long both = scratch.take(experts.factorBytes(groups.rows()));
      if (multipliesFp8) {
        forwardFp8(scratch, received, groups, both, results);
      } else {
        long rowsOfExperts = rows.received(main, scratch, received);
        experts.forward(main, scratch, groups, rowsOfExperts, both, results);
      }
      main.mark(COMPUTED);
      combine(handle, results, tensor(y, DType.BF16, tokens), added);
    }
    return tensor(y, DType.BF16, tokens);
  }

  @Override
  public ForwardPass forwardForTraining(Tensor x) {
    int tokens = begin("x", x, DType.BF16);
    DeviceScratch memory = idle.isEmpty() ? new DeviceScratch(device) : idle.pop();
    memory.reset();
    boolean done = false;
    try {
      long y = memory.take(DeviceExperts.bf16(tokens, shape.hidden()));
      DeviceRouter.Choices choices = route(memory, x, tokens);
      long bothOfShared = takeShared(memory, tokens);
      long added = sharedExpert(memory, x, tokens, bothOfShared);
      GroupedDispatch received = dispatch(memory, x, choices);
      DispatchHandle handle = received.handle();
      try {
        Groups groups = groups(received);
        long rowsOfExperts = rows.copied(main, memory, received);
        long rowWeights = memory.take(DType.FP32.bytes(groups.rows()));
        main.copy(rowWeights, received.rowWeights().address(), DType.FP32.bytes(groups.rows()));
        long both = memory.take(experts.factorBytes(groups.rows()));
        long results = received.combineInput(DType.BF16).address();
        if (multipliesFp8) {
          forwardFp8(memory, received, groups, both, results);
        } else {
          experts.forward(main, memory, groups, rowsOfExperts, both, results);
        }
        main.mark(COMPUTED);
        Tensor result = tensor(y, DType.BF16, tokens);
        combine(handle, results, result, added);
        done = true;
        return new ForwardPass(
            this,
            result,
            new Kept(
                this,
                memory,
                x.address(),
                tokens,
                choices,
                handle,
                groups,
                rowsOfExperts,
                both,
                rowWeights,
                bothOfShared));
      } finally {
        if (!done) {
          handle.close();
        }
      }
    } finally {
      if (!done) {
        idle.push(memory);
      }
    }
  }

  private void forwardFp8(
      DeviceScratch memory, GroupedDispatch received, Groups groups, long both, long results) {
    long scales = received.scales().address();
    experts.forwardFp8(main, memory, groups, received.x().address(), scales, both, results);
  }

  private void requireRows(String name, Tensor tensor, DType... types) {
    if (tensor.dimensions() != 2
        || tensor.size(1) != shape.hidden()
        || !List.of(types).contains(tensor.dtype())
        || tensor.device() != device.ordinal()) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          name,
          tensor.toString(),
          List.of(types) + " [tokens, " + shape.hidden() + "] on device " + device.ordinal(),
          "convert it, or copy it there");
    }
  }

  /** Checks a tensor of a call; returns the number of tokens. */
  private int begin(String name, Tensor tensor, DType... types) {
    requireRows(name, tensor, types);
    device.enter();
    // What an exception has left in either queue comes before this call.
    main.after(side);
    side.after(main);
    main.mark(BEGIN);
    return Math.toIntExact(tensor.size(0));
  }

  private Tensor tensor(long address, DType type, int tokens) {
    return Tensor.ofDevice(address, device.ordinal(), type, tokens, shape.hidden());
  }

  private DeviceRouter.Choices route(DeviceScratch memory, Tensor x, int tokens) {
    DeviceRouter.Choices choices = router.choose(main, memory, x.address(), tokens);
    main.mark(ROUTED);
    router.requireFinite(main, choices);
    return choices;
  }

  private long takeShared(DeviceScratch memory, int tokens) {
    return shared.map(one -> memory.take(one.factorBytes(tokens))).orElse(0L);
  }

  /** Enqueues the shared expert in the side queue; the address of its results, 0 without one. */
  private long sharedExpert(DeviceScratch memory, Tensor x, int tokens, long both) {
    if (shared.isEmpty()) {
      return 0;
    }
    long out = memory.take(DeviceExperts.bf16(tokens, shape.hidden()));
    side.mark(SHARED_BEGIN);
    shared.get().forward(side, memory, Groups.one(tokens), x.address(), both, out);
    side.mark(SHARED_END);
    return out;
  }

  private GroupedDispatch dispatch(DeviceScratch memory, Tensor x, DeviceRouter.Choices choices) {
    Tokens sent = rows.sent(main, memory, x);
    GroupedDispatch received = buffer.dispatchGrouped(sent, choices.routing(), dispatching);
    main.mark(DISPATCHED);
    return received;
  }

  /** Groups of received rows; those of padding belong to none. */
  private static Groups groups(GroupedDispatch received) {
    List<Group> groups = new ArrayList<>();
    for (ExpertRows own : received.expertRows()) {
      int rows = Math.toIntExact(own.count());
      groups.add(new Group(own.local(), own.first(), own.first(), rows));
    }
    return new Groups(groups, received.rows());
  }

  /** Enqueues the combine, and waits for all work. */
  private void combine(DispatchHandle handle, long results, Tensor y, long added) {
    CombineOptions.Builder options =
        CombineOptions.builder().applyWeights(true).out(y).execution(onMain);
    if (added != 0) {
      main.after(side);
      options.bias(tensor(added, DType.BF16, Math.toIntExact(y.size(0))));
    }
    Combine sums = buffer.combine(results(results, handle.rows()), handle, options.build());
    main.mark(COMBINED);
    sums.event().await();
    main.await();
    times = measured();
  }

  private Tensor results(long address, long count) {
    return Tensor.ofDevice(address, device.ordinal(), DType.BF16, count, shape.hidden());
  }

  @Override
  public LayerTimes times() {
    return times;
  }

  /** Reads the points of a pass that has ended. */
  private LayerTimes measured() {
    return new LayerTimes(
        main.nanosBetween(BEGIN, ROUTED),
        main.nanosBetween(ROUTED, DISPATCHED),
        main.nanosBetween(DISPATCHED, COMPUTED),
        shared.isPresent() ? side.nanosBetween(SHARED_BEGIN, SHARED_END) : 0,
        main.nanosBetween(COMPUTED, COMBINED));
  }

  // --- decode ---------------------------------------------------------------------------------

  @Override
  public Tensor decode(Tensor x) {
    int tokens = begin("x", x, DType.BF16);
    scratch.reset();
    long y = scratch.take(DeviceExperts.bf16(tokens, shape.hidden()));
    Tensor result = tensor(y, DType.BF16, tokens);
    Event end = decoding.enqueue(scratch, x, route(scratch, x, tokens), result);
    end.await();
    main.await();
    times = measured();
    return result;
  }

  @Override
  public DecodeStep captureDecode(Tensor x, Tensor y) {
    int tokens = begin("x", x, DType.BF16);
    requireRows("y", y, DType.BF16);
    if (y.size(0) != tokens) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          "y",
          y.toString(),
          tokens + " rows, as x",
          "pass a tensor for the results of these tokens");
    }
    return decoding.capture(x, y);
  }

  // --- backward -------------------------------------------------------------------------------

  @Override
  public MoeGradients backward(ForwardPass forward, Tensor gradOfY) {
    Kept pass = forward.kept(this, Kept.class);
    try (forward) {
      int tokens = begin("gradOfY", gradOfY, DType.BF16, DType.FP32);
      if (tokens != pass.tokens) {
        throw new InvalidArgumentException(
            ErrorCode.MOE_SHAPE,
            "gradOfY",
            gradOfY.toString(),
            pass.tokens + " rows, as the result",
            "pass the gradient of the result of this pass");
      }
      Gradients of = gradients.orElseGet(this::allocateGradients);
      gradients = Optional.of(of);
      DeviceScratch memory = backwardScratch;
      memory.reset();
      long gradOfX = memory.take(DType.FP32.bytes((long) tokens * shape.hidden()));
      Tensor grad = inBf16(memory, gradOfY, tokens);
      sharedBackward(memory, pass, grad, of);
      GroupedDispatch received = buffer.dispatchGrouped(Tokens.of(grad), pass.handle, onMain);
      long count = pass.groups.rows();
      long dots = memory.take(DType.FP32.bytes(count));
      experts.backward(
          main,
          memory,
          pass.groups,
          pass.rows,
          pass.both,
          received.x().address(),
          pass.rowWeights,
          dots,
          of.experts);
      long results = received.combineInput(DType.BF16).address();
      experts.toRows(main, memory, pass.groups, pass.both, results);
      long sums = memory.take(DeviceExperts.bf16(tokens, shape.hidden()));
      Combine back =
          buffer.combine(
              results(results, count),
              pass.handle,
              CombineOptions.builder()
                  .topkWeights(Tensor.ofDevice(dots, device.ordinal(), DType.FP32, count))
                  .out(tensor(sums, DType.BF16, tokens))
                  .execution(onMain)
                  .build());
      long vectors = (long) tokens * shape.hidden() / MoeKernel.VECTOR;
      main.launch(
          MoeKernel.TO_FP32, MoeKernel.TO_FP32.blocksOfThreads(vectors), 0, sums, gradOfX, vectors);
      router.backward(
          main,
          memory,
          pass.choices,
          pass.x,
          tokens,
          back.topkWeights().address(),
          gradOfX,
          of.router);
      if (shared.isPresent()) {
        main.after(side);
        shared.get().addToRows(main, memory, Groups.one(tokens), pass.bothOfShared, gradOfX);
      }
      back.event().await();
      main.await();
      return new MoeGradients(
          tensor(gradOfX, DType.FP32, tokens),
          Tensor.ofDevice(
              of.router, device.ordinal(), DType.FP32, shape.router().experts(), shape.hidden()),
          of.experts.tensors(),
          of.shared.map(one -> one.tensors().getFirst()));
    }
  }

  private Gradients allocateGradients() {
    return new Gradients(
        device.allocate(DType.FP32.bytes((long) shape.router().experts() * shape.hidden())),
        experts.allocateGradients(),
        shared.map(DeviceExperts::allocateGradients));
  }

  private Tensor inBf16(DeviceScratch memory, Tensor grad, int tokens) {
    if (grad.dtype() == DType.BF16) {
      return grad;
    }
    long rounded = memory.take(DeviceExperts.bf16(tokens, shape.hidden()));
    long vectors = (long) tokens * shape.hidden() / MoeKernel.VECTOR;
    main.launch(
        MoeKernel.TO_BF16,
        MoeKernel.TO_BF16.blocksOfThreads(vectors),
        0,
        grad.address(),
        rounded,
        vectors);
    side.after(main);
    return tensor(rounded, DType.BF16, tokens);
  }

  private void sharedBackward(DeviceScratch memory, Kept pass, Tensor grad, Gradients of) {
    if (shared.isPresent()) {
      shared
          .get()
          .backward(
              side,
              memory,
              Groups.one(pass.tokens),
              pass.x,
              pass.bothOfShared,
              grad.address(),
              0,
              0,
              of.shared.orElseThrow());
    }
  }

  @Override
  public void close() {
    device.enter();
    device.close();
  }
}
