package org.ep4j.conformance.samebits;

import java.util.List;
import java.util.random.RandomGenerator;
import org.ep4j.tensor.DType;

/**
 * What a buffer allows of its tokens.
 *
 * @param lowLatency whether the buffer has low-latency operations; otherwise high throughput
 * @param experts logical experts
 * @param topK the most choices of a token
 * @param hidden the most elements of a row
 * @param tokens the most tokens of a rank
 * @param rowDType the widest rows
 */
record TokenLimits(
    boolean lowLatency, int experts, int topK, int hidden, int tokens, DType rowDType) {
  private static final int LOW_LATENCY_UNIT = 128;

  /** Rows of each type are whole 16 bytes. */
  private static final int UNIT = 8;

  private static final List<DType> DTYPES = List.of(DType.BF16, DType.FP16, DType.FP32);

  static TokenLimits draw(RandomGenerator random) {
    boolean lowLatency = random.nextInt(3) == 0;
    int experts = 1 + random.nextInt(20);
    return new TokenLimits(
        lowLatency,
        experts,
        1 + random.nextInt(Math.min(experts, 6)),
        lowLatency ? LOW_LATENCY_UNIT * (1 + random.nextInt(2)) : UNIT * (1 + random.nextInt(9)),
        1 + random.nextInt(40),
        lowLatency ? DType.BF16 : DTYPES.get(random.nextInt(DTYPES.size())));
  }

  /** Sizes of rows are multiples of this number. */
  int hiddenUnit() {
    return lowLatency ? LOW_LATENCY_UNIT : UNIT;
  }

  /** The types that rows may have. */
  List<DType> dtypes() {
    return lowLatency
        ? List.of(DType.BF16)
        : DTYPES.stream().filter(dtype -> dtype.bits() <= rowDType.bits()).toList();
  }
}
