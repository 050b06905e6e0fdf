package org.ep4j.moe;

import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** A layer of a rank, and memory of its device for the tensors of a test. */
interface TestDevice extends AutoCloseable {
  MoeLayer layer();

  /** Copies rows to the device; before the first dispatch of any rank. */
  Tensor upload(float[] values, DType type, int hidden);

  /** Overwrites a tensor. */
  void write(Tensor tensor, float[] values);

  /** Copies a tensor to the host. */
  float[] values(Tensor tensor);

  @Override
  void close();

  /** Opens devices of one kind; with a constructor for {@link LayerJob}. */
  interface Kind {
    /** Settings of a buffer for at most {@code tokens} tokens of a rank. */
    BufferConfig.Builder config(LayerCase of, int tokens);

    /** Opens the layer of a rank. */
    TestDevice open(ExpertBuffer buffer, LayerCase of);
  }
}
