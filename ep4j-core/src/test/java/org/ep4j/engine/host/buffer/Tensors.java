package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Creates and reads tensors in tests. */
public final class Tensors {
  private Tensors() {}

  public static Tensor required(@Nullable Tensor tensor) {
    return Objects.requireNonNull(tensor, "tensor");
  }

  public static short bf16(float value) {
    return (short) (Float.floatToRawIntBits(value) >>> 16);
  }

  /** Value of all elements of a token's row. */
  @FunctionalInterface
  interface RowValue {
    float of(int token);
  }

  /** Rows in BF16, consecutive. */
  static MemorySegment bf16Rows(Arena arena, int tokens, int hidden, RowValue value) {
    MemorySegment rows = arena.allocate(2L * tokens * hidden, 64);
    short[] row = new short[hidden];
    for (int t = 0; t < tokens; t++) {
      Arrays.fill(row, bf16(value.of(t)));
      MemorySegment.copy(row, 0, rows, ValueLayout.JAVA_SHORT, 2L * t * hidden, hidden);
    }
    return rows;
  }

  /** First element of each row. */
  public static float[] heads(@Nullable Tensor maybe) {
    Tensor rows = required(maybe);
    float[] heads = new float[(int) rows.size(0)];
    for (int i = 0; i < heads.length; i++) {
      heads[i] = rows.getFloat(i * rows.size(1));
      for (int h = 1; h < rows.size(1); h++) {
        assertThat(rows.getFloat(i * rows.size(1) + h)).as("row %d", i).isEqualTo(heads[i]);
      }
    }
    return heads;
  }

  public static int[] ints(@Nullable Tensor maybe) {
    Tensor tensor = required(maybe);
    int[] values = new int[(int) tensor.elements()];
    for (int i = 0; i < values.length; i++) {
      values[i] = tensor.getInt(i);
    }
    return values;
  }

  public static long[] longs(@Nullable Tensor maybe) {
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
