package org.ep4j.conformance.device;

import static org.ep4j.conformance.device.HostMemoryDevices.onHost;

import java.util.OptionalInt;
import org.ep4j.BufferStatistics;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.execution.Execution;
import org.ep4j.observe.RankObservation;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** A buffer of {@link HostMemoryEngine}. */
record HostMemoryBuffer(ExpertBuffer host, int device) implements ExpertBuffer {
  private static @Nullable Tensor orNull(@Nullable Tensor tensor) {
    return tensor == null ? null : onHost(tensor);
  }

  private static Tokens onTheHost(Tokens tokens) {
    return new Tokens(
        onHost(tokens.x()),
        orNull(tokens.scales()),
        orNull(tokens.globalScales()),
        tokens.scaleLayout());
  }

  private static Routing onTheHost(Routing routing) {
    return new Routing(onHost(routing.topkIdx()), orNull(routing.topkWeights()));
  }

  @Override
  public DispatchLayout dispatchLayout(Routing routing, int experts) {
    return new HostMemoryResults.OfLayout(host.dispatchLayout(onTheHost(routing), experts), device);
  }

  @Override
  public Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    return HostMemoryResults.of(
        host.dispatch(layout, onTheHost(tokens), onTheHost(routing), options), device);
  }

  @Override
  public Dispatch dispatch(
      Layout layout, Tokens tokens, DispatchHandle handle, Execution execution) {
    return HostMemoryResults.of(
        host.dispatch(layout, onTheHost(tokens), handle, execution), device);
  }

  @Override
  public Combine combine(Tensor y, DispatchHandle handle, CombineOptions options) {
    CombineOptions.Builder builder = options.toBuilder();
    Tensor weights = options.topkWeights();
    if (weights != null) {
      builder.topkWeights(onHost(weights));
    }
    Tensor first = options.bias0();
    Tensor second = options.bias1();
    if (first != null && second == null) {
      builder.bias(onHost(first));
    } else if (first != null && second != null) {
      builder.bias(onHost(first), onHost(second));
    }
    Tensor out = options.out();
    if (out != null) {
      builder.out(onHost(out));
    }
    return new HostMemoryResults.OfCombine(
        host.combine(onHost(y), handle, builder.build()), device);
  }

  @Override
  public LowLatencyDispatch lowLatencyDispatch(
      Layout layout, Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    throw new IllegalStateException("no low-latency operations");
  }

  @Override
  public LowLatencyCombine lowLatencyCombine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    throw new IllegalStateException("no low-latency operations");
  }

  @Override
  public Tensor lowLatencyCombineBuffer(LowLatencyHandle handle) {
    throw new IllegalStateException("no low-latency operations");
  }

  @Override
  public int rank() {
    return host.rank();
  }

  @Override
  public int worldSize() {
    return host.worldSize();
  }

  @Override
  public BufferConfig config() {
    return host.config();
  }

  @Override
  public String engine() {
    return HostMemoryEngine.NAME;
  }

  @Override
  public void updateMask(int rank, boolean masked) {
    host.updateMask(rank, masked);
  }

  @Override
  public boolean isMasked(int rank) {
    return host.isMasked(rank);
  }

  @Override
  public void queryMask(Tensor mask) {
    host.queryMask(onHost(mask));
  }

  @Override
  public void cleanMask() {
    host.cleanMask();
  }

  @Override
  public OptionalInt deviceOrdinal() {
    return host.deviceOrdinal();
  }

  @Override
  public int parallelism() {
    return host.parallelism();
  }

  @Override
  public void setParallelism(int sms) {
    host.setParallelism(sms);
  }

  @Override
  public void barrier() {
    host.barrier();
  }

  @Override
  public void reset() {
    host.reset();
  }

  @Override
  public void readmit() {
    host.readmit();
  }

  @Override
  public BufferStatistics statistics() {
    return host.statistics();
  }

  @Override
  public RankObservation observe() {
    return host.observe();
  }

  @Override
  public void close() {
    host.close();
  }
}
