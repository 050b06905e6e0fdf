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

  private final Tensor y;
  private final Kept kept;
  private boolean closed;

  ForwardPass(Tensor y, Kept kept) {
    this.y = y;
    this.kept = kept;
  }

  /** The layer's result, as of {@link MoeLayer#forward}. */
  public Tensor y() {
    return y;
  }

  /** What was kept by a computation of this kind, for a backward pass. */
  <T extends Kept> T kept(Class<T> kind) {
    if (!kind.isInstance(kept)) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          "pass",
          "of a layer of another engine",
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
