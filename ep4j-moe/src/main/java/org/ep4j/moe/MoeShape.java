package org.ep4j.moe;

import org.ep4j.error.InvalidArgumentException;

/**
 * Sizes of a layer, the same on all ranks.
 *
 * @param hidden H, elements of a token
 * @param intermediate I, elements between the matrices of an expert
 * @param sharedIntermediate I of the shared expert, to which every token goes; 0 = none
 * @param router how tokens choose experts
 */
public record MoeShape(int hidden, int intermediate, int sharedIntermediate, RouterConfig router) {
  static final int LARGEST = 1 << 20;

  /**
   * @throws InvalidArgumentException if a size is out of range
   */
  public MoeShape {
    RouterConfig.range("hidden", hidden, 1, LARGEST);
    RouterConfig.range("intermediate", intermediate, 1, LARGEST);
    RouterConfig.range("sharedIntermediate", sharedIntermediate, 0, LARGEST);
  }
}
