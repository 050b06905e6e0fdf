package org.ep4j.engine.host;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Objects;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/** Reading tensors in tests. */
final class Tensors {
  private Tensors() {}

  static Tensor required(@Nullable Tensor tensor) {
    return Objects.requireNonNull(tensor, "tensor");
  }

  static short bf16(float value) {
    return (short) (Float.floatToRawIntBits(value) >>> 16);
  }

  /** First element of each row. */
  static float[] heads(@Nullable Tensor maybe) {
    Tensor rows = required(maybe);
    float[] heads = new float[(int) rows.size(0)];
    for (int i = 0; i < heads.length; i++) {
      heads[i] = rows.getBf16(i * rows.size(1));
      for (int h = 1; h < rows.size(1); h++) {
        assertThat(rows.getBf16(i * rows.size(1) + h)).as("row %d", i).isEqualTo(heads[i]);
      }
    }
    return heads;
  }

  static int[] ints(@Nullable Tensor maybe) {
    Tensor tensor = required(maybe);
    int[] values = new int[(int) tensor.elements()];
    for (int i = 0; i < values.length; i++) {
      values[i] = tensor.getInt(i);
    }
    return values;
  }

  static long[] longs(@Nullable Tensor maybe) {
    Tensor tensor = required(maybe);
    long[] values = new long[(int) tensor.elements()];
    for (int i = 0; i < values.length; i++) {
      values[i] = tensor.getLong(i);
    }
    return values;
  }

  static float[] floats(@Nullable Tensor maybe) {
    Tensor tensor = required(maybe);
    float[] values = new float[(int) tensor.elements()];
    for (int i = 0; i < values.length; i++) {
      values[i] = tensor.getFloat(i);
    }
    return values;
  }
}
