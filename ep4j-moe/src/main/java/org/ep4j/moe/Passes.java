package org.ep4j.moe;

import org.ep4j.tensor.Tensor;

/** The computations of {@link MoeLayer}, which describes them, on the host or on a GPU. */
interface Passes extends AutoCloseable {
  Tensor forward(Tensor x);

  Tensor decode(Tensor x);

  DecodeStep captureDecode(Tensor x, Tensor y);

  ForwardPass forwardForTraining(Tensor x);

  MoeGradients backward(ForwardPass pass, Tensor gradOfY);

  LayerTimes times();

  @Override
  void close();
}
