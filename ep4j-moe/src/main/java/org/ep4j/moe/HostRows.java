package org.ep4j.moe;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import org.ep4j.ExpertRows;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.Tokens;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.Tensor;

/**
 * Rows on the host: tokens as they are sent, and the values of what was received.
 *
 * <p>Tokens of FP8 have the bits of low latency: rounded to BF16, then quantised with an FP32 scale
 * for each block. The value of a received element is the product of element and scale, rounded to
 * BF16, as on a GPU.
 */
final class HostRows {
  private static final ScaleKind SCALES = ScaleKind.FLOAT32;

  private final RowTypes types;
  private final RowKernels kernels = RowKernels.get();

  HostRows(RowTypes types) {
    this.types = types;
  }

  /** Tokens for high throughput. */
  Tokens sent(Matrix tokens) {
    return types.quantised() ? quantised(tokens) : Tokens.of(unquantised(tokens));
  }

  /** What low latency makes of tokens of BF16. */
  RowFormat lowLatencyFormat() {
    return types.quantised() ? RowFormat.FP8 : RowFormat.BF16;
  }

  /** Results or gradients in the type in which they travel. */
  Tensor unquantised(Matrix matrix) {
    return Tensor.fromFloats(matrix.values(), types.results(), matrix.rows(), matrix.columns());
  }

  private Tokens quantised(Matrix tokens) {
    int count = tokens.values().length;
    var bytes = new byte[count];
    var scales = new float[count / RowTypes.BLOCK];
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment rounded = arena.allocate(DType.BF16.bytes(count));
      FloatConversions.fromFloats(tokens.values(), DType.BF16, rounded);
      MemorySegment target = arena.allocate(count);
      MemorySegment factors = arena.allocate(DType.FP32.bytes(scales.length));
      // Blocks are independent, so all rows are as one.
      kernels.encodeFp8(rounded.address(), count, target.address(), factors.address(), SCALES);
      MemorySegment.copy(target, ValueLayout.JAVA_BYTE, 0, bytes, 0, count);
      MemorySegment.copy(factors, ValueLayout.JAVA_FLOAT_UNALIGNED, 0, scales, 0, scales.length);
    }
    int blocks = tokens.columns() / RowTypes.BLOCK;
    return Tokens.of(
        Tensor.of(bytes, DType.FP8_E4M3, tokens.rows(), tokens.columns()),
        Tensor.of(scales, tokens.rows(), blocks));
  }

  /** Values of an expert's rows. */
  Matrix received(ExpertRows own, GroupedDispatch dispatch) {
    return values(
        own.of(dispatch.x()),
        dispatch.hasScales() ? Optional.of(own.of(dispatch.scales())) : Optional.empty());
  }

  /** Values of an expert's rows. */
  Matrix received(ExpertRows own, LowLatencyDispatch dispatch) {
    return values(
        own.of(dispatch.x()),
        dispatch.hasScales() ? Optional.of(own.of(dispatch.scales())) : Optional.empty());
  }

  private Matrix values(Tensor rows, Optional<Tensor> scales) {
    return Matrix.of(
        scales.map(of -> dequantised(rows, of)).orElseGet(rows::toFloatArray),
        Math.toIntExact(rows.size(0)),
        Math.toIntExact(rows.size(1)));
  }

  private float[] dequantised(Tensor rows, Tensor scales) {
    int count = Math.toIntExact(rows.elements());
    var values = new float[count];
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment target = arena.allocate(DType.BF16.bytes(count));
      kernels.dequantiseFp8(rows.address(), scales.address(), SCALES, count, target.address());
      FloatConversions.toFloats(target, DType.BF16, values);
    }
    return values;
  }
}
