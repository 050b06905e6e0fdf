package org.ep4j.benchmarks;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.ep4j.engine.host.kernel.Bf16;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleKind;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Kernels of the host engine on rows of 7168 bf16, nanoseconds per call. {@code cache}: always the
 * same rows. {@code memory}: random rows of 235 MB.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(3)
@Warmup(iterations = 4, time = 2) // before the compilation by C2, a vector operation is a slow call
@Measurement(iterations = 5, time = 1)
@State(Scope.Thread)
public class RowKernelsBenchmark {
  private static final int HIDDEN = 7168;
  private static final int ROW_BYTES = 2 * HIDDEN;
  private static final int SUMMED = 8;
  private static final int ROWS_IN_MEMORY = 16384;

  /** Memory of the rows. */
  @Param({"cache", "memory"})
  public String rows = "cache";

  private final Arena arena = Arena.ofShared();
  private final RowKernels kernels = RowKernels.get();
  private final long[] summed = new long[SUMMED];
  private long[] places = new long[0];
  private int next;
  private long out;
  private long encoded;

  /** Fills the rows with numbers around 1. */
  @Setup
  public void fill() {
    int count = rows.equals("cache") ? SUMMED : ROWS_IN_MEMORY;
    MemorySegment memory = arena.allocate((long) count * ROW_BYTES, 4096);
    Random random = new Random(1);
    for (long i = 0; i < (long) count * HIDDEN; i++) {
      memory.setAtIndex(ValueLayout.JAVA_SHORT, i, Bf16.fromFloat(random.nextFloat() - 0.5f));
    }
    places = new long[count];
    for (int i = 0; i < count; i++) {
      places[i] = memory.address() + (long) i * ROW_BYTES;
    }
    for (int i = count - 1; i > 0 && count > SUMMED; i--) {
      int j = random.nextInt(i + 1);
      long swap = places[i];
      places[i] = places[j];
      places[j] = swap;
    }
    out = arena.allocate(2L * ROW_BYTES, 4096).address();
    encoded = out + ROW_BYTES;
    kernels.encodeFp8(places[0], HIDDEN, encoded, encoded + HIDDEN, ScaleKind.FLOAT32);
  }

  /** Frees the memory. */
  @TearDown
  public void free() {
    arena.close();
  }

  private long nextRow() {
    next = next + 1 < places.length ? next + 1 : 0;
    return places[next];
  }

  private long[] nextRows() {
    for (int i = 0; i < SUMMED; i++) {
      summed[i] = nextRow();
    }
    return summed;
  }

  /** Copies a row. */
  @Benchmark
  public void copyRow() {
    kernels.copy(nextRow(), out, ROW_BYTES);
  }

  /** Sums eight rows. */
  @Benchmark
  public void sumEightRows() {
    kernels.reduceRows(DType.BF16, nextRows(), SUMMED, out, HIDDEN);
  }

  /** Sums eight rows with the C intrinsics of the C programs. */
  @Benchmark
  public void peerSumsEightRows() {
    PeerSum.sum(nextRows(), SUMMED, out, HIDDEN);
  }

  /** Quantises a row to FP8 with a scale every 128 values. */
  @Benchmark
  public void encodeFp8() {
    kernels.encodeFp8(nextRow(), HIDDEN, out, out + HIDDEN, ScaleKind.FLOAT32);
  }

  /** Widens one row of FP8, always the same, to bf16. */
  @Benchmark
  public void decodeFp8() {
    kernels.decodeFp8(encoded, HIDDEN, out);
  }
}
