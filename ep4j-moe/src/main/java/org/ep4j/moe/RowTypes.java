package org.ep4j.moe;

import org.ep4j.ExpertBuffer;
import org.ep4j.engine.Limits;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;

/**
 * Types of the rows of a layer.
 *
 * @param tokens on their way to experts: FP8_E4M3, or the type of results
 * @param results and gradients
 * @param widest of the buffer
 */
record RowTypes(DType tokens, DType results, DType widest) {
  /** Elements of an FP8 row that share a scale. */
  static final int BLOCK = 128;

  /** Types as the buffer has them: a buffer for FP8 rows has tokens of FP8. */
  static RowTypes of(ExpertBuffer buffer) {
    RowTypes types = of(buffer, DType.FP8_E4M3);
    return types.widest == DType.FP8_E4M3
        ? types
        : new RowTypes(types.results, types.results, types.widest);
  }

  /** Types with a given one of tokens. */
  static RowTypes of(ExpertBuffer buffer, DType tokens) {
    DType widest = buffer.config().highThroughput().orElseThrow().rowDType();
    if (!widest.summable() && widest != DType.FP8_E4M3) {
      throw wrong("buffer.rowDType", widest, "FP32, BF16, FP16 or FP8_E4M3");
    }
    boolean onDevice = buffer.deviceOrdinal().isPresent();
    DType results = onDevice || !widest.summable() ? DType.BF16 : widest;
    if (results.bits() > widest.bits() && Limits.combinesInPlaceOnly(buffer.config())) {
      throw wrong(
          "buffer.rowDType",
          widest,
          "a type as wide as the results, "
              + results
              + ", which take the place of the received rows (combineInPlace)");
    }
    if (tokens != DType.FP8_E4M3 && (tokens != results || !widest.summable())) {
      String others = widest.summable() ? results + " or " : "";
      throw wrong("tokens", tokens, others + DType.FP8_E4M3 + " with this buffer");
    }
    return new RowTypes(tokens, results, widest);
  }

  private static InvalidArgumentException wrong(String argument, DType value, String expected) {
    return new InvalidArgumentException(
        ErrorCode.MOE_SHAPE,
        argument,
        value.toString(),
        expected,
        "open the buffer with a rowDType of these, or pass FP8_E4M3 as the type of tokens");
  }

  boolean quantised() {
    return tokens == DType.FP8_E4M3;
  }

  /** Refuses FP8 rows without whole blocks. */
  static void requireBlocks(DType tokens, int hidden) {
    if (tokens == DType.FP8_E4M3 && hidden % BLOCK != 0) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          "hidden",
          String.valueOf(hidden),
          "a multiple of " + BLOCK + " for FP8 rows, which have a scale for each " + BLOCK,
          "pad tokens and matrices with zeros, or use wider rows");
    }
  }

  /** Refuses a training pass whose gradients the buffer cannot send. */
  void requireGradients() {
    if (!widest.summable()) {
      throw new IllegalUseException(
          ErrorCode.MOE_TRAINING,
          "gradients travel in "
              + results
              + ", but the buffer has memory for rows of "
              + widest
              + ": open it with rowDType("
              + results
              + "), and pass FP8_E4M3 to MoeLayer as the type of tokens");
    }
  }
}
