package org.ep4j.moe;

import org.ep4j.error.InvalidArgumentException;

/**
 * Decoding with fixed tensors, as {@link MoeLayer#captureDecode} has recorded it. Close it before
 * its layer. One thread at a time uses it and the buffer.
 */
public interface DecodeStep extends AutoCloseable {
  /**
   * Decodes the tokens that the tensor holds now; returns when the results are there. Collective:
   * all ranks replay their steps in the same order, between the same calls of their layers.
   *
   * @throws InvalidArgumentException if a logit of a token is infinite or no number. On a GPU, all
   *     ranks have then completed the step: other tokens have their results, this one has none
   */
  void replay();

  @Override
  void close();
}
