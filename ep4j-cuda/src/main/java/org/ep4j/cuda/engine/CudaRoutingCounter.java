package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import org.ep4j.RoutingCounter;
import org.ep4j.RoutingCounts;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.driver.calls.ContextScope;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.KernelConstants;
import org.ep4j.cuda.struct.RoutingCountsParameters;
import org.ep4j.engine.RoutingCounterChecks;
import org.ep4j.engine.ThreadGuard;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** Counts routings in the memory of a device, by a kernel. */
public final class CudaRoutingCounter implements RoutingCounter {
  /** As in the kernel. */
  private static final int THREADS = 512;

  private static final int KEYS = 8;

  /** File of the kernel. */
  private static final String FILE = "dispatch/routing_counts.cu";

  private final ThreadGuard guard = new ThreadGuard("counter");
  private final RoutingCounterChecks checks;
  private final CudaDevice device;
  private final CudaStream own;
  private final KernelCall<RoutingCountsParameters> call;
  private final ResourceStack owned = new ResourceStack();

  /**
   * Loads the kernel.
   *
   * @param ordinal of the device
   */
  public CudaRoutingCounter(int ordinal, RoutingCounterChecks checks) {
    this.checks = checks;
    boolean complete = false;
    try {
      device = owned.own(CudaDevice.open(ordinal));
      own = owned.own(CudaStream.create(device));
      CudaModule module =
          owned.own(KernelCompiler.standard().load(device, FILE, KernelConstants.NONE));
      call =
          owned.own(
              new KernelCall<>(
                  module,
                  "routing_counts_kernel",
                  new RoutingCountsParameters(),
                  THREADS,
                  0,
                  false));
      int[] nodes = checks.nodeOfRank();
      DeviceMemory nodeOf =
          owned.own(DeviceMemory.allocate(device, (long) nodes.length * Integer.BYTES));
      nodeOf.copyFrom(0, MemorySegment.ofArray(nodes));
      call.parameters.nodeOf.set(nodeOf.address());
      call.parameters.ranks.set(checks.ranks());
      call.parameters.nodes.set(checks.nodes());
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  @Override
  public void count(Routing routing, RoutingCounts counts) {
    guard.enter();
    try {
      enqueue(routing, counts, own.handle());
      own.synchronize();
    } finally {
      guard.leave();
    }
  }

  @Override
  public void count(Routing routing, RoutingCounts counts, DeviceStream stream) {
    guard.enter();
    try {
      enqueue(routing, counts, stream.handle());
    } finally {
      guard.leave();
    }
  }

  private void enqueue(Routing routing, RoutingCounts counts, long stream) {
    int experts = checks.experts(routing, counts);
    Tensor ids = routing.topkIdx();
    RoutingCountsParameters p = call.parameters;
    p.tokens.set(ids.size(0));
    p.topK.set(ids.size(1));
    p.wideIds.set(ids.dtype() == DType.INT64);
    p.experts.set(experts);
    p.each.set(experts / checks.ranks());
    p.ids.set(address("topkIdx", ids));
    p.perExpert.set(address("tokensPerExpert", counts.tokensPerExpert()));
    p.perRank.set(address("tokensPerRank", counts.tokensPerRank()));
    p.perNode.set(address("tokensPerNode", counts.tokensPerNode()));
    p.inRank.set(address("tokenInRank", counts.tokenInRank()));
    int blocks =
        Math.ceilDiv(experts, KEYS)
            + Math.ceilDiv(checks.ranks(), KEYS)
            + Math.ceilDiv(checks.nodes(), KEYS);
    // The caller may work on another device.
    try (var _ = ContextScope.enter(device.context())) {
      call.launch(blocks, 0, stream);
    }
  }

  private long address(String name, Tensor tensor) {
    if (!tensor.onDevice() || tensor.device() != device.ordinal()) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_TENSOR_MEMORY,
          name,
          tensor.toString(),
          "on device " + device.ordinal() + ", the device of the counter",
          "allocate it there");
    }
    return tensor.address();
  }

  @Override
  public void close() {
    guard.enterForClose();
    try {
      guard.shut();
      owned.close();
    } finally {
      guard.leave();
    }
  }
}
