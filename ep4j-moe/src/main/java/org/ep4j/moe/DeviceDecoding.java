package org.ep4j.moe;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Optional;
import org.ep4j.CombineOrder;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.moe.gpu.CapturedWork;
import org.ep4j.moe.gpu.DeviceScratch;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.tensor.Tensor;

/**
 * Decoding on a GPU, by low latency. Nothing that follows the choices of experts needs the host:
 * the numbers of received rows stay on the GPU, so that a graph can hold the whole step.
 */
final class DeviceDecoding {
  private final LayerDevice device;
  private final ExpertBuffer buffer;
  private final WorkQueue main;
  private final WorkQueue side;
  private final DeviceRows rows;
  private final DeviceRouter router;
  private final DeviceExperts experts;
  private final Optional<SharedExpert> shared;
  private final Execution onMain;

  /** Of closed steps. */
  private final Deque<DeviceScratch> idle = new ArrayDeque<>();

  /** The shared expert of a layer. */
  @FunctionalInterface
  interface SharedExpert {
    /** Enqueues it in the side queue; the address of its results. */
    long enqueue(DeviceScratch memory, Tensor x, int tokens);
  }

  DeviceDecoding(
      LayerDevice device,
      ExpertBuffer buffer,
      DeviceRows rows,
      DeviceRouter router,
      DeviceExperts experts,
      Optional<SharedExpert> shared) {
    this.device = device;
    this.buffer = buffer;
    this.rows = rows;
    this.router = router;
    this.experts = experts;
    this.shared = shared;
    main = device.main();
    side = device.side();
    onMain = Execution.on(main.stream());
  }

  /**
   * Enqueues all that follows the choices of experts. Returns the end of the last operation of the
   * buffer.
   */
  Event enqueue(DeviceScratch memory, Tensor x, DeviceRouter.Choices choices, Tensor y) {
    int tokens = Math.toIntExact(x.size(0));
    long added = shared.map(one -> one.enqueue(memory, x, tokens)).orElse(0L);
    LowLatencyDispatch received =
        buffer.lowLatencyDispatch(
            x,
            choices.routing(),
            LowLatencyDispatchOptions.builder()
                .format(rows.lowLatencyFormat())
                .execution(onMain)
                .build());
    main.mark(DevicePasses.DISPATCHED);
    Tensor results = buffer.lowLatencyCombineBuffer(received.handle());
    experts.decode(
        main,
        memory,
        rows.received(main, memory, received),
        received.counts().address(),
        received.x().size(1),
        results.address());
    main.mark(DevicePasses.COMPUTED);
    Event end =
        buffer
            .lowLatencyCombine(
                results,
                choices.routing(),
                received.handle(),
                LowLatencyCombineOptions.builder()
                    .order(CombineOrder.EXPERT)
                    .zeroCopy(true)
                    .out(y)
                    .execution(onMain)
                    .build())
            .event();
    if (added != 0) {
      main.after(side);
      long vectors = y.elements() / MoeKernel.VECTOR;
      main.launch(
          MoeKernel.ADD,
          MoeKernel.ADD.blocksOfThreads(vectors),
          0,
          y.address(),
          added,
          y.address(),
          vectors);
    }
    main.mark(DevicePasses.COMBINED);
    return end;
  }

  /**
   * A step that has run.
   *
   * @param choices where each replay puts them
   * @param end of an operation that has ended
   */
  private record Recorded(DeviceRouter.Choices choices, Event end) {}

  /** Records a step for two tensors of the same number of rows; no work is under way. */
  DecodeStep capture(Tensor x, Tensor y) {
    DeviceScratch memory = idle.isEmpty() ? new DeviceScratch(device) : idle.pop();
    Optional<CapturedWork> work = Optional.empty();
    boolean ready = false;
    try {
      // Low latency, each of its halves, and cuBLAS allocate and load at their first use.
      run(memory, x, y);
      Recorded last = run(memory, x, y);
      side.await();
      work = Optional.of(device.capture(() -> enqueueUnchecked(memory, x, y)));
      // From here on kernels of other ranks may wait for this one.
      buffer.barrier();
      ready = true;
      return new ReplayedStep(memory, work.get(), last);
    } finally {
      if (!ready) {
        work.ifPresent(CapturedWork::close);
        idle.push(memory);
      }
    }
  }

  private Recorded run(DeviceScratch memory, Tensor x, Tensor y) {
    Recorded step = enqueueUnchecked(memory, x, y);
    step.end.await();
    main.await();
    return step;
  }

  /**
   * Enqueues a whole step, without a wait for the check of the logits: tokens with bad ones have no
   * experts. Takes the same memory each time.
   */
  private Recorded enqueueUnchecked(DeviceScratch memory, Tensor x, Tensor y) {
    memory.reset();
    if (shared.isPresent()) {
      // A graph records no queue that does not join later.
      side.after(main);
    }
    int tokens = Math.toIntExact(x.size(0));
    DeviceRouter.Choices choices = router.choose(main, memory, x.address(), tokens);
    return new Recorded(choices, enqueue(memory, x, choices, y));
  }

  /** A step as recorded work of the device. */
  private final class ReplayedStep implements DecodeStep {
    private final DeviceScratch memory;
    private final CapturedWork work;
    private final Recorded recorded;
    private boolean closed;

    private ReplayedStep(DeviceScratch memory, CapturedWork work, Recorded recorded) {
      this.memory = memory;
      this.work = work;
      this.recorded = recorded;
    }

    @Override
    public void replay() {
      device.enter();
      main.after(side);
      work.enqueue();
      main.await();
      // An operation that has ended throws what a later one reports, also a replayed one.
      recorded.end.await();
      router.requireFinite(main, recorded.choices);
    }

    @Override
    public void close() {
      if (!closed) {
        closed = true;
        device.enter();
        work.close();
        idle.push(memory);
      }
    }
  }
}
