package org.ep4j.engine.host.combine;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.DType;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.IllegalUseException;
import org.ep4j.Tensor;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.TensorView;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.jspecify.annotations.Nullable;

/** The result of the last combine of a buffer. One object per buffer. */
public final class HostCombine implements Combine {
  private final TensorView sums;
  private final TensorView weightSums;

  private @Nullable Tensor x;
  private @Nullable Tensor topkWeights;
  private Event event = Event.completed();

  public HostCombine(ScratchLayout scratch, MemorySegment memory) {
    sums = new TensorView(memory, scratch.sums);
    weightSums = new TensorView(memory, scratch.weightSums);
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
    event.await();
    Tensor result = x;
    if (result == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, "the combine has failed: read the error from its event");
    }
    return result;
  }

  @Override
  public @Nullable Tensor topkWeights() {
    event.await();
    return topkWeights;
  }

  @Override
  public Event event() {
    return event;
  }
}
