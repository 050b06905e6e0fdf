package org.ep4j.benchmarks;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Locale;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * Low-latency dispatch and combine of thread-ranks, compared with the high-throughput pair for the
 * same tokens in the same run.
 *
 * <p>Rules as in {@code benchmarks/ROUTING.md}: an untimed barrier before each repetition, its time
 * the maximum over the ranks, four input sets in rotation. A pair is a dispatch and its combine;
 * the experts' rows exist beforehand.
 *
 * <pre>
 * java ... org.ep4j.benchmarks.LowLatencyBenchmark [ranks [tokens [repetitions]]]
 * </pre>
 */
public final class LowLatencyBenchmark {
  private static final int HIDDEN = 7168;
  private static final int TOP_K = 8;
  private static final int EXPERTS = 256;
  private static final int SETS = 4;
  private static final long ROW_BYTES = 2L * HIDDEN;
  private static final DispatchOptions FLAT = DispatchOptions.DEFAULT;

  private final int ranks;
  private final int tokens;
  private final int repetitions;

  /**
   * Nanoseconds per rank and repetition of the current measurement; ranks synchronise at barriers.
   */
  private final long[][] dispatchTimes;

  private final long[][] combineTimes;

  private LowLatencyBenchmark(int ranks, int tokens, int repetitions) {
    this.ranks = ranks;
    this.tokens = tokens;
    this.repetitions = repetitions;
    dispatchTimes = new long[ranks][repetitions];
    combineTimes = new long[ranks][repetitions];
  }

  /** Runs with the arguments described above. */
  public static void main(String[] args) {
    int ranks = args.length > 0 ? Integer.parseInt(args[0]) : 2;
    int tokens = args.length > 1 ? Integer.parseInt(args[1]) : 128;
    int repetitions = args.length > 2 ? Integer.parseInt(args[2]) : 40_000 / (tokens + 100);
    new LowLatencyBenchmark(ranks, tokens, repetitions).run();
  }

  private void run() {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(TOP_K)
            .experts(EXPERTS)
            .highThroughput(tokens)
            .lowLatency(tokens)
            .build();
    System.out.printf(
        Locale.ROOT,
        "%d ranks, %d tokens x %d, top-%d of %d, %d repetitions; communication memory %d MB%n",
        ranks,
        tokens,
        HIDDEN,
        TOP_K,
        EXPERTS,
        repetitions,
        ExpertBuffer.sizes(config, ranks).lowLatencyCommunicationBytes() >> 20);
    ThreadRanks.run(
        ranks,
        group -> {
          try (Arena arena = Arena.ofShared();
              ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            new Rank(buffer, arena).measureAll();
          }
        });
  }

  /** A dispatch or a combine of input set {@code set}. */
  private interface Step {
    void run(int set);
  }

  /** One rank's inputs and calls. */
  private final class Rank {
    private final ExpertBuffer buffer;
    private final Tensor[] x = new Tensor[SETS];
    private final Routing[] routing = new Routing[SETS];
    private final Tensor y;
    private LowLatencyDispatch dispatched;
    private Dispatch flat;

    Rank(ExpertBuffer buffer, Arena arena) {
      this.buffer = buffer;
      for (int s = 0; s < SETS; s++) {
        x[s] = BenchmarkInputs.rows(arena, tokens, HIDDEN);
        routing[s] = BenchmarkInputs.uniform(arena, 1 + s, buffer.rank(), tokens, EXPERTS, TOP_K);
      }
      dispatched = buffer.lowLatencyDispatch(x[0], routing[0], LowLatencyDispatchOptions.DEFAULT);
      flat = buffer.dispatch(Tokens.of(x[0]), routing[0], FLAT);
      long[] shape = buffer.lowLatencyCombineBuffer(dispatched.handle()).shape();
      long bytes = shape[0] * shape[1] * ROW_BYTES;
      y = Tensor.of(arena.allocate(bytes, 4096), DType.BF16, shape);
      fillExpertRows();
    }

    /**
     * Experts' rows in all places where a combine of any set reads them: in y and in both regions.
     */
    private void fillExpertRows() {
      for (int s = 0; s < SETS; s++) {
        for (int half = 0; half < 2; half++) {
          dispatched =
              buffer.lowLatencyDispatch(x[s], routing[s], LowLatencyDispatchOptions.DEFAULT);
          Tensor region = buffer.lowLatencyCombineBuffer(dispatched.handle());
          for (int expert = 0; expert < y.size(0); expert++) {
            long first = expert * y.size(1);
            for (long r = first; r < first + dispatched.counts().getInt(expert); r++) {
              MemorySegment row = x[s].segment().asSlice(r % tokens * ROW_BYTES, ROW_BYTES);
              MemorySegment.copy(row, 0, y.segment(), r * ROW_BYTES, ROW_BYTES);
              MemorySegment.copy(row, 0, region.segment(), r * ROW_BYTES, ROW_BYTES);
            }
          }
        }
      }
    }

    void measureAll() {
      LowLatencyCombineOptions copy = LowLatencyCombineOptions.DEFAULT;
      LowLatencyCombineOptions zeroCopy = LowLatencyCombineOptions.builder().zeroCopy(true).build();
      LowLatencyCombineOptions logFmt = LowLatencyCombineOptions.builder().logFmt(true).build();
      LowLatencyCombineOptions partial =
          LowLatencyCombineOptions.builder().zeroCopy(true).partialRounding(true).build();
      for (RowFormat format : RowFormat.values()) {
        measure(format + ", zero copy", send(format), bring(zeroCopy));
        measure(format + ", copied", send(format), bring(copy));
      }
      measure("FP8, LogFMT", send(RowFormat.FP8), bring(logFmt));
      measure("FP8, zero copy, partial sums", send(RowFormat.FP8), bring(partial));
      measure(
          "high throughput BF16, FLAT",
          s -> flat = buffer.dispatch(Tokens.of(x[s]), routing[s], FLAT),
          s -> {
            buffer.combine(flat.combineInput(DType.BF16).rows(0, flat.rows()), flat.handle());
            flat.handle().close();
          });
    }

    private Step send(RowFormat format) {
      LowLatencyDispatchOptions options =
          LowLatencyDispatchOptions.builder().format(format).build();
      return s -> dispatched = buffer.lowLatencyDispatch(x[s], routing[s], options);
    }

    private Step bring(LowLatencyCombineOptions options) {
      return s -> {
        Tensor rows = options.zeroCopy() ? buffer.lowLatencyCombineBuffer(dispatched.handle()) : y;
        buffer.lowLatencyCombine(rows, routing[s], dispatched.handle(), options);
      };
    }

    private void measure(String name, Step dispatch, Step combine) {
      int rank = buffer.rank();
      for (int i = -repetitions / 2; i < repetitions; i++) {
        int set = Math.floorMod(i, SETS);
        buffer.barrier();
        long start = System.nanoTime();
        dispatch.run(set);
        long middle = System.nanoTime();
        combine.run(set);
        long end = System.nanoTime();
        if (i >= 0) {
          dispatchTimes[rank][i] = middle - start;
          combineTimes[rank][i] = end - middle;
        }
      }
      buffer.barrier();
      if (rank == 0) {
        print(name);
      }
      buffer.barrier();
    }
  }

  private void print(String name) {
    long[] dispatch = new long[repetitions];
    long[] combine = new long[repetitions];
    long[] pair = new long[repetitions];
    for (int i = 0; i < repetitions; i++) {
      for (int r = 0; r < ranks; r++) {
        dispatch[i] = Math.max(dispatch[i], dispatchTimes[r][i]);
        combine[i] = Math.max(combine[i], combineTimes[r][i]);
        pair[i] = Math.max(pair[i], dispatchTimes[r][i] + combineTimes[r][i]);
      }
    }
    System.out.printf(
        Locale.ROOT,
        "%-30s dispatch %s   combine %s   pair %s%n",
        name,
        text(dispatch),
        text(combine),
        text(pair));
  }

  private static String text(long[] nanos) {
    Arrays.sort(nanos);
    return String.format(
        Locale.ROOT, "best %8.1f median %8.1f us", nanos[0] * 1e-3, nanos[nanos.length / 2] * 1e-3);
  }
}
