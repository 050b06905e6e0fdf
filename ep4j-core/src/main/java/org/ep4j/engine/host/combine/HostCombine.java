package org.ep4j.engine.host.combine;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.DType;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.IllegalUseException;
import org.ep4j.Tensor;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.ResultLifetime;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.TensorView;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.jspecify.annotations.Nullable;

/** The result of a combine. A buffer reuses a few objects in turn. */
public final class HostCombine implements Combine {
  private final TensorView sums;
  private final TensorView weightSums;

  private final ResultLifetime lifetime;
  private long number;
  private @Nullable Tensor x;
  private @Nullable Tensor topkWeights;
  private Event event = Event.completed();

  public HostCombine(ResultLifetime lifetime, ScratchLayout scratch, MemorySegment memory) {
    this.lifetime = lifetime;
    sums = new TensorView(memory, scratch.sums);
    weightSums = new TensorView(memory, scratch.weightSums);
  }

  /** Begins result {@code next} of the buffer. */
  public void begin(long next) {
    number = next;
    x = null;
    topkWeights = null;
    event = Event.completed();
  }

  /** Makes the accessors wait for {@code pending}. */
  public void await(Event pending) {
    event = pending;
  }

  /** Describes the sums, which are in {@code out} or, if that is null, in the buffer's memory. */
  void delivered(
      HostHandle handle, DType dtype, long hidden, @Nullable Tensor out, boolean weighted) {
    x = out != null ? out : sums.of(dtype, handle.tokens, hidden);
    topkWeights = weighted ? weightSums.of(DType.FP32, handle.tokens, handle.topK) : null;
  }

  @Override
  public Tensor x() {
    lifetime.require(number);
    event.await();
    Tensor result = x;
    if (result == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, "the combine has failed: read the error from its event");
    }
    return result;
  }

  @Override
  public boolean hasWeights() {
    x();
    return topkWeights != null;
  }

  @Override
  public Tensor topkWeights() {
    x();
    Tensor weights = topkWeights;
    if (weights == null) {
      throw Arguments.missing("topkWeights", "CombineOptions.topkWeights was not set");
    }
    return weights;
  }

  @Override
  public Event event() {
    return event;
  }
}
