package org.ep4j.micrometer;

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

/** A buffer whose operations are recorded. Results are those of the original buffer. */
record MonitoredBuffer(ExpertBuffer original, ExpertBufferMetrics metrics) implements ExpertBuffer {
  @Override
  public Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    long begin = System.nanoTime();
    Dispatch result;
    try {
      result = original.dispatch(layout, tokens, routing, options);
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.DISPATCH, begin, options.execution());
    return result;
  }

  @Override
  public Dispatch dispatch(
      Layout layout, Tokens tokens, DispatchHandle handle, Execution execution) {
    long begin = System.nanoTime();
    Dispatch result;
    try {
      result = original.dispatch(layout, tokens, handle, execution);
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.DISPATCH, begin, execution);
    return result;
  }

  @Override
  public Combine combine(Tensor y, DispatchHandle handle, CombineOptions options) {
    long begin = System.nanoTime();
    Combine result;
    try {
      result = original.combine(y, handle, options);
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.COMBINE, begin, options.execution());
    return result;
  }

  @Override
  public LowLatencyDispatch lowLatencyDispatch(
      Layout layout, Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    long begin = System.nanoTime();
    LowLatencyDispatch result;
    try {
      result = original.lowLatencyDispatch(layout, x, routing, options);
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.LOW_LATENCY_DISPATCH, begin, options.execution());
    return result;
  }

  @Override
  public LowLatencyCombine lowLatencyCombine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    long begin = System.nanoTime();
    LowLatencyCombine result;
    try {
      result = original.lowLatencyCombine(y, routing, handle, options);
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.LOW_LATENCY_COMBINE, begin, options.execution());
    return result;
  }

  @Override
  public void barrier() {
    long begin = System.nanoTime();
    try {
      original.barrier();
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.BARRIER, begin, Execution.SYNCHRONOUS);
  }

  @Override
  public void reset() {
    long begin = System.nanoTime();
    try {
      original.reset();
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.RESET, begin, Execution.SYNCHRONOUS);
  }

  @Override
  public void readmit() {
    long begin = System.nanoTime();
    try {
      original.readmit();
    } catch (RuntimeException e) {
      throw metrics.failed(e);
    }
    metrics.ended(Call.READMIT, begin, Execution.SYNCHRONOUS);
  }

  /** Not recorded: first calls take longer than later ones. */
  @Override
  public void warmUp() {
    original.warmUp();
  }

  @Override
  public DispatchLayout dispatchLayout(Routing routing, int experts) {
    return original.dispatchLayout(routing, experts);
  }

  @Override
  public Tensor lowLatencyCombineBuffer(LowLatencyHandle handle) {
    return original.lowLatencyCombineBuffer(handle);
  }

  @Override
  public int rank() {
    return original.rank();
  }

  @Override
  public int worldSize() {
    return original.worldSize();
  }

  @Override
  public BufferConfig config() {
    return original.config();
  }

  @Override
  public OptionalInt deviceOrdinal() {
    return original.deviceOrdinal();
  }

  @Override
  public String engine() {
    return original.engine();
  }

  @Override
  public void updateMask(int rank, boolean masked) {
    original.updateMask(rank, masked);
  }

  @Override
  public boolean isMasked(int rank) {
    return original.isMasked(rank);
  }

  @Override
  public void queryMask(Tensor mask) {
    original.queryMask(mask);
  }

  @Override
  public void cleanMask() {
    original.cleanMask();
  }

  @Override
  public int parallelism() {
    return original.parallelism();
  }

  @Override
  public void setParallelism(int sms) {
    original.setParallelism(sms);
  }

  @Override
  public BufferStatistics statistics() {
    return original.statistics();
  }

  @Override
  public RankObservation observe() {
    return original.observe();
  }

  @Override
  public void close() {
    try {
      metrics.close();
    } finally {
      original.close();
    }
  }

  @Override
  public String toString() {
    return original.toString();
  }
}
