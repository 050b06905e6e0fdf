package org.ep4j.moe;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.Tensor;

/**
 * What a forward pass keeps for its backward pass. Close it, or pass it to {@link
 * MoeLayer#backward}, which closes it.
 */
public final class ForwardPass implements AutoCloseable {
  /** What the computation of a layer keeps. */
  interface Kept extends AutoCloseable {
    @Override
    void close();
  }

  private final Passes owner;
  private final Tensor y;
  private final Kept kept;
  private boolean closed;

  ForwardPass(Passes owner, Tensor y, Kept kept) {
    this.owner = owner;
    this.y = y;
    this.kept = kept;
  }

  /** The layer's result, as of {@link MoeLayer#forward}. */
  public Tensor y() {
    return y;
  }

  /** What {@code layer} has kept, in a class of its own, for a backward pass. */
  <T extends Kept> T kept(Passes layer, Class<T> kind) {
    if (owner != layer) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          "pass",
          "of another layer",
          "of this layer",
          "pass what forwardForTraining of this layer returned");
    }
    // What was kept may belong to another pass by now.
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_CLOSED,
          "the forward pass is closed, by close() or by its backward pass: call forwardForTraining"
              + " again");
    }
    return kind.cast(kept);
  }

  /** Returns what was kept for reuse. A second call has no effect. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      kept.close();
    }
  }
}
