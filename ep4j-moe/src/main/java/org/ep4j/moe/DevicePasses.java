package org.ep4j.moe;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertRows;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;
import org.ep4j.moe.DeviceExperts.Group;
import org.ep4j.moe.DeviceExperts.Groups;
import org.ep4j.moe.cublas.Product;
import org.ep4j.moe.gpu.DeviceScratch;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * Passes of a layer on a GPU, in BF16 with sums in FP32.
 *
 * <p>The main queue has the router, the operations of the buffer and the experts; the side queue
 * has the shared expert, whose result combine adds as a bias. The host waits twice: for the word
 * that reports a bad logit, before anything is sent, and for the numbers of rows. Each call orders
 * its work after all work that both queues have, and returns when all of it has ended.
 */
final class DevicePasses implements Passes {
  /** Points of the main queue. */
  private static final int BEGIN = 0;

  private static final int ROUTED = 1;
  private static final int DISPATCHED = 2;
  private static final int COMPUTED = 3;
  private static final int COMBINED = 4;

  /** Points of the side queue. */
  private static final int SHARED_BEGIN = 0;

  private static final int SHARED_END = 1;

  private final LayerDevice device;
  private final ExpertBuffer buffer;
  private final MoeShape shape;
  private final WorkQueue main;
  private final WorkQueue side;
  private final DeviceRouter router;
  private final DeviceExperts experts;
  private final Optional<DeviceExperts> shared;
  private final Execution onMain;

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
   * @param rows received, [N, H]
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
      long bothOfShared,
      boolean[] closed)
      implements ForwardPass.Kept {
    @Override
    public void close() {
      if (!closed[0]) {
        closed[0] = true;
        handle.close();
        owner.idle.push(memory);
      }
    }
  }

  private DevicePasses(
      LayerDevice device,
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights) {
    this.device = device;
    this.buffer = buffer;
    this.shape = shape;
    main = device.main();
    side = device.side();
    onMain = Execution.on(main.stream());
    scratch = new DeviceScratch(device);
    backwardScratch = new DeviceScratch(device);
    router =
        new DeviceRouter(device, shape.router(), shape.hidden(), buffer.rank(), placement, weights);
    experts = new DeviceExperts(device, shape.hidden(), shape.intermediate());
    for (int e = 0; e < weights.experts().size(); e++) {
      experts.add("experts[" + e + "]", weights.experts().get(e));
    }
    shared = weights.shared().map(this::shared);
  }

  private DeviceExperts shared(ExpertWeights weights) {
    var one = new DeviceExperts(device, shape.hidden(), shape.sharedIntermediate());
    one.add("shared", weights);
    return one;
  }

  /** Copies the weights to a device, which the passes own from now on, also if this throws. */
  static DevicePasses of(
      LayerDevice device,
      ExpertBuffer buffer,
      MoeShape shape,
      ReplicatedPlacement placement,
      MoeWeights weights) {
    try {
      requireFit(shape);
      device.enter();
      return new DevicePasses(device, buffer, shape, placement, weights);
    } catch (RuntimeException e) {
      device.close();
      throw e;
    }
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
    GroupedDispatch received = dispatch(x, choices);
    try (DispatchHandle handle = received.handle()) {
      Groups groups = groups(received);
      long results = received.combineInput(DType.BF16).address();
      long both = scratch.take(experts.factorBytes(groups.rows()));
      experts.forward(main, scratch, groups, received.x().address(), both, results);
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
      GroupedDispatch received = dispatch(x, choices);
      DispatchHandle handle = received.handle();
      try {
        Groups groups = groups(received);
        long rowBytes = DeviceExperts.bf16(groups.rows(), shape.hidden());
        long rows = memory.take(rowBytes);
        main.copy(rows, received.x().address(), rowBytes);
        long rowWeights = memory.take(DType.FP32.bytes(groups.rows()));
        main.copy(rowWeights, received.rowWeights().address(), DType.FP32.bytes(groups.rows()));
        long both = memory.take(experts.factorBytes(groups.rows()));
        long results = received.combineInput(DType.BF16).address();
        experts.forward(main, memory, groups, rows, both, results);
        main.mark(COMPUTED);
        Tensor result = tensor(y, DType.BF16, tokens);
        combine(handle, results, result, added);
        done = true;
        return new ForwardPass(
            result,
            new Kept(
                this,
                memory,
                x.address(),
                tokens,
                choices,
                handle,
                groups,
                rows,
                both,
                rowWeights,
                bothOfShared,
                new boolean[1]));
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

  /** Checks a tensor of a call; returns the number of tokens. */
  private int begin(String name, Tensor tensor, DType... types) {
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

  private GroupedDispatch dispatch(Tensor x, DeviceRouter.Choices choices) {
    DispatchOptions options = DispatchOptions.builder().execution(onMain).build();
    GroupedDispatch received = buffer.dispatchGrouped(x, choices.routing(), options);
    main.mark(DISPATCHED);
    return received;
  }

  /** Groups of received rows without padding: their alignment is 1. */
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
    Combine sums = buffer.combine(rows(results, handle.rows()), handle, options.build());
    main.mark(COMBINED);
    sums.event().await();
    main.await();
    times = measured();
  }

  private Tensor rows(long address, long rows) {
    return Tensor.ofDevice(address, device.ordinal(), DType.BF16, rows, shape.hidden());
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
    DeviceRouter.Choices choices = route(scratch, x, tokens);
    long added = sharedExpert(scratch, x, tokens, takeShared(scratch, tokens));
    LowLatencyDispatch received =
        buffer.lowLatencyDispatch(
            x,
            choices.routing(),
            LowLatencyDispatchOptions.builder().format(RowFormat.BF16).execution(onMain).build());
    main.mark(DISPATCHED);
    received.event().await();
    Groups groups = groups(received);
    long both = scratch.take(experts.factorBytes(groups.rows()));
    Tensor results = buffer.lowLatencyCombineBuffer(received.handle());
    experts.forward(main, scratch, groups, received.x().address(), both, results.address());
    main.mark(COMPUTED);
    buffer
        .lowLatencyCombine(
            results,
            choices.routing(),
            received.handle(),
            LowLatencyCombineOptions.builder()
                .order(CombineOrder.EXPERT)
                .zeroCopy(true)
                .out(result)
                .execution(onMain)
                .build())
        .event()
        .await();
    if (added != 0) {
      main.after(side);
      long vectors = (long) tokens * shape.hidden() / MoeKernel.VECTOR;
      main.launch(MoeKernel.ADD, MoeKernel.ADD.blocksOfThreads(vectors), 0, y, added, y, vectors);
    }
    main.mark(COMBINED);
    main.await();
    times = measured();
    return result;
  }

  /** Groups of the received rows, whose numbers are on the GPU. */
  private Groups groups(LowLatencyDispatch received) {
    Tensor counts = received.counts();
    long places = received.x().size(1);
    MemorySegment words = main.fetch(counts.address(), Math.toIntExact(counts.byteSize()));
    List<Group> groups = new ArrayList<>();
    long packed = 0;
    for (int e = 0; e < counts.elements(); e++) {
      int rows = words.getAtIndex(ValueLayout.JAVA_INT, e);
      if (rows > 0) {
        groups.add(new Group(e, e * places, packed, rows));
        packed += rows;
      }
    }
    return new Groups(groups, packed);
  }

  // --- backward -------------------------------------------------------------------------------

  @Override
  public MoeGradients backward(ForwardPass forward, Tensor gradOfY) {
    try (Kept pass = forward.kept(Kept.class)) {
      int tokens = begin("gradOfY", gradOfY, DType.BF16, DType.FP32);
      if (tokens != pass.tokens || pass.owner != this) {
        throw new InvalidArgumentException(
            ErrorCode.MOE_SHAPE,
            "gradOfY",
            gradOfY.toString(),
            pass.tokens + " rows, for a pass of this layer",
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
      long rows = pass.groups.rows();
      long dots = memory.take(DType.FP32.bytes(rows));
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
      main.multiplyAll(experts.toRows(pass.groups, pass.both, results));
      long sums = memory.take(DeviceExperts.bf16(tokens, shape.hidden()));
      Combine back =
          buffer.combine(
              rows(results, rows),
              pass.handle,
              CombineOptions.builder()
                  .topkWeights(Tensor.ofDevice(dots, device.ordinal(), DType.FP32, rows))
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
        for (Product product :
            shared.get().toRows(Groups.one(tokens), pass.bothOfShared, gradOfX)) {
          main.multiply(product.inFp32(true));
        }
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
