package org.ep4j.moe;

import java.util.List;
import org.ep4j.DispatchHandle;
import org.ep4j.tensor.Tensor;

/**
 * What a forward pass keeps for its backward pass. Close it, or pass it to {@link
 * MoeLayer#backward}, which closes it.
 */
public final class ForwardPass implements AutoCloseable {
  private final Tensor y;
  final Matrix x;
  final Router.Choices choices;
  final DispatchHandle handle;
  final float[] rowWeights;

  /** Of this rank's experts that have rows. */
  final List<OfExpert> experts;

  final List<OfExpert> shared;

  /**
   * @param from first row among the received ones
   * @param out results of the rows
   */
  record OfExpert(int local, int from, Expert.Activations activations, Matrix out) {}

  ForwardPass(
      Tensor y,
      Matrix x,
      Router.Choices choices,
      DispatchHandle handle,
      float[] rowWeights,
      List<OfExpert> experts,
      List<OfExpert> shared) {
    this.y = y;
    this.x = x;
    this.choices = choices;
    this.handle = handle;
    this.rowWeights = rowWeights;
    this.experts = experts;
    this.shared = shared;
  }

  /** The layer's result, FP32 [T, H] on the heap. */
  public Tensor y() {
    return y;
  }

  @Override
  public void close() {
    handle.close();
  }
}
