package org.ep4j.conformance.device;

import java.util.Optional;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Event;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** Results of {@link HostMemoryEngine}: counts on the host, everything else on a device. */
final class HostMemoryResults {
  private HostMemoryResults() {}

  private static Tensor moved(int device, Tensor tensor) {
    return tensor.nativeHost() ? HostMemoryDevices.onDevice(device, tensor) : tensor;
  }

  static Dispatch of(Dispatch host, int device) {
    return host instanceof FlatDispatch flat
        ? new OfFlat(flat, device)
        : new OfGrouped((GroupedDispatch) host, device);
  }

  record OfLayout(DispatchLayout host, int device) implements DispatchLayout {
    @Override
    public Tensor tokensPerRank() {
      return host.tokensPerRank();
    }

    @Override
    public Tensor tokensPerNode() {
      return host.tokensPerNode();
    }

    @Override
    public Tensor tokensPerExpert() {
      return host.tokensPerExpert();
    }

    @Override
    public Tensor tokenInRank() {
      return moved(device, host.tokenInRank());
    }
  }

  record OfCombine(Combine host, int device) implements Combine {
    @Override
    public Tensor x() {
      return moved(device, host.x());
    }

    @Override
    public boolean hasWeights() {
      return host.hasWeights();
    }

    @Override
    public Tensor topkWeights() {
      return moved(device, host.topkWeights());
    }

    @Override
    public Event event() {
      return host.event();
    }
  }

  record OfFlat(FlatDispatch host, int device) implements Moved, FlatDispatch {
    @Override
    public boolean hasChoices() {
      return host.hasChoices();
    }

    @Override
    public Tensor topkIdx() {
      return moved(device, host.topkIdx());
    }

    @Override
    public Tensor topkWeights() {
      return moved(device, host.topkWeights());
    }

    @Override
    public Tensor rankOffsets() {
      return host.rankOffsets();
    }
  }

  record OfGrouped(GroupedDispatch host, int device) implements Moved, GroupedDispatch {
    @Override
    public Tensor expertOffsets() {
      return host.expertOffsets();
    }

    @Override
    public Tensor rowWeights() {
      return moved(device, host.rowWeights());
    }
  }

  /** What both layouts have. */
  interface Moved extends Dispatch {
    Dispatch host();

    int device();

    @Override
    default long rows() {
      return host().rows();
    }

    @Override
    default long receivedRows() {
      return host().receivedRows();
    }

    @Override
    default Tensor x() {
      return moved(device(), host().x());
    }

    @Override
    default boolean hasScales() {
      return host().hasScales();
    }

    @Override
    default boolean hasGlobalScales() {
      return host().hasGlobalScales();
    }

    @Override
    default boolean hasWeights() {
      return host().hasWeights();
    }

    @Override
    default Tensor scales() {
      return moved(device(), host().scales());
    }

    @Override
    default Tensor globalScales() {
      return moved(device(), host().globalScales());
    }

    @Override
    default Tensor alignedCounts() {
      return host().alignedCounts();
    }

    @Override
    default Tensor counts() {
      return host().counts();
    }

    @Override
    default Tensor sourceTokens() {
      return moved(device(), host().sourceTokens());
    }

    @Override
    default Tensor sourceRanks() {
      return moved(device(), host().sourceRanks());
    }

    @Override
    default Tensor combineInput(DType dtype) {
      return moved(device(), host().combineInput(dtype));
    }

    @Override
    default Optional<ReceiveOverflowException> overflow() {
      return host().overflow();
    }

    @Override
    default DispatchHandle handle() {
      return host().handle();
    }

    @Override
    default Event event() {
      return host().event();
    }
  }
}
