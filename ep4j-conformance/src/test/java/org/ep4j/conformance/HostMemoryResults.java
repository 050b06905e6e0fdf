package org.ep4j.conformance;

import org.ep4j.Combine;
import org.ep4j.DType;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.Event;
import org.ep4j.ReceiveOverflowException;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/** Results of {@link HostMemoryEngine}: counts on the host, everything else on a device. */
final class HostMemoryResults {
  private HostMemoryResults() {}

  private static Tensor moved(int device, Tensor tensor) {
    return tensor.nativeHost() ? HostMemoryDevices.onDevice(device, tensor) : tensor;
  }

  private static @Nullable Tensor orNull(int device, @Nullable Tensor tensor) {
    return tensor == null ? null : moved(device, tensor);
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
    public @Nullable Tensor topkWeights() {
      return orNull(device, host.topkWeights());
    }

    @Override
    public Event event() {
      return host.event();
    }
  }

  record OfDispatch(Dispatch host, int device) implements Dispatch {
    @Override
    public long rows() {
      return host.rows();
    }

    @Override
    public long receivedRows() {
      return host.receivedRows();
    }

    @Override
    public Tensor x() {
      return moved(device, host.x());
    }

    @Override
    public @Nullable Tensor scales() {
      return orNull(device, host.scales());
    }

    @Override
    public @Nullable Tensor globalScales() {
      return orNull(device, host.globalScales());
    }

    @Override
    public @Nullable Tensor topkIdx() {
      return orNull(device, host.topkIdx());
    }

    @Override
    public @Nullable Tensor topkWeights() {
      return orNull(device, host.topkWeights());
    }

    @Override
    public Tensor alignedCounts() {
      return host.alignedCounts();
    }

    @Override
    public Tensor counts() {
      return host.counts();
    }

    @Override
    public @Nullable Tensor expertOffsets() {
      return host.expertOffsets();
    }

    @Override
    public @Nullable Tensor rankOffsets() {
      return host.rankOffsets();
    }

    @Override
    public Tensor sourceTokens() {
      return moved(device, host.sourceTokens());
    }

    @Override
    public Tensor sourceRanks() {
      return moved(device, host.sourceRanks());
    }

    @Override
    public Tensor combineInput(DType dtype) {
      return moved(device, host.combineInput(dtype));
    }

    @Override
    public @Nullable ReceiveOverflowException overflow() {
      return host.overflow();
    }

    @Override
    public DispatchHandle handle() {
      return host.handle();
    }

    @Override
    public Event event() {
      return host.event();
    }
  }
}
