package org.ep4j.cuda.engine.throughput;

import org.ep4j.Combine;
import org.ep4j.Event;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/** The result of the last combine of a buffer. One object per buffer. */
final class CudaCombine implements Combine {
  private @Nullable Tensor x;
  private @Nullable Tensor topkWeights;
  private Event event = Event.completed();
  private boolean inStreamOrder;

  /** Describes an enqueued operation. */
  void enqueued(Tensor sums, @Nullable Tensor weights, Event end, boolean callersStream) {
    x = sums;
    topkWeights = weights;
    event = end;
    inStreamOrder = callersStream;
  }

  @Override
  public Tensor x() {
    if (!inStreamOrder) {
      event.await();
    }
    Tensor sums = x;
    if (sums == null) {
      throw new IllegalStateException("nothing has been combined");
    }
    return sums;
  }

  @Override
  public @Nullable Tensor topkWeights() {
    if (!inStreamOrder) {
      event.await();
    }
    return topkWeights;
  }

  @Override
  public Event event() {
    return event;
  }
}
