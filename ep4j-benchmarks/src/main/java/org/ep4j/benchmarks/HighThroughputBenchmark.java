package org.ep4j.benchmarks;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * High-throughput operations of thread-ranks, compared with plain copies and reads of the same
 * bytes by the same threads in the same run.
 *
 * <p>Rules as in {@code benchmarks/ROUTING.md}: an untimed barrier before each repetition, its time
 * the maximum over the ranks, four input sets in rotation, GB/s over received rows.
 *
 * <pre>
 * java ... org.ep4j.benchmarks.HighThroughputBenchmark [ranks [tokens [repetitions]]]
 * </pre>
 */
public final class HighThroughputBenchmark {
  private static final int HIDDEN = 7168;
  private static final int TOP_K = 8;
  private static final int EXPERTS = 256;
  private static final int SETS = 4;
  private static final long ROW_BYTES = 2L * HIDDEN;

  private final int ranks;
  private final int tokens;
  private final int repetitions;

  /**
   * Milliseconds per rank and repetition of the current measurement; ranks synchronise at barriers.
   */
  private final double[][] times;

  private HighThroughputBenchmark(int ranks, int tokens, int repetitions) {
    this.ranks = ranks;
    this.tokens = tokens;
    this.repetitions = repetitions;
    times = new double[ranks][repetitions];
  }

  /** Runs with the arguments described above. */
  public static void main(String[] args) {
    int ranks = args.length > 0 ? Integer.parseInt(args[0]) : 2;
    int tokens = args.length > 1 ? Integer.parseInt(args[1]) : 4096;
    int repetitions = args.length > 2 ? Integer.parseInt(args[2]) : 12;
    new HighThroughputBenchmark(ranks, tokens, repetitions).run();
  }

  private void run() {
    ThreadRanks.run(
        ranks,
        group -> {
          BufferConfig config =
              BufferConfig.builder()
                  .hidden(HIDDEN)
                  .topK(TOP_K)
                  .experts(EXPERTS)
                  .highThroughput(
                      HighThroughputConfig.builder()
                          .maxTokens(tokens)
                          .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                          .build())
                  .build();
          try (Arena arena = Arena.ofShared();
              ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            measureAll(buffer, arena);
          }
        });
  }

  private void measureAll(ExpertBuffer buffer, Arena arena) {
    Tensor[] x = new Tensor[SETS];
    Routing[] routing = new Routing[SETS];
    DispatchHandle[] handles = new DispatchHandle[SETS];
    Tensor[] y = new Tensor[SETS];
    for (int s = 0; s < SETS; s++) {
      x[s] = BenchmarkInputs.rows(arena, tokens, HIDDEN);
      routing[s] = BenchmarkInputs.uniform(arena, 1 + s, buffer.rank(), tokens, EXPERTS, TOP_K);
    }
    for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
      long rows = 0;
      for (int s = 0; s < SETS; s++) {
        Dispatch d = buffer.dispatch(layout, Tokens.of(x[s]), routing[s], DispatchOptions.DEFAULT);
        handles[s] = d.handle();
        rows += d.rows();
        Tensor input = d.combineInput(DType.BF16).rows(0, d.rows());
        MemorySegment.copy(d.x().segment(), 0, input.segment(), 0, input.byteSize());
        y[s] = input;
      }
      long bytes = rows / SETS * ROW_BYTES;
      if (layout == Layout.FLAT) {
        ceilings(buffer, arena, bytes);
      }
      measure(
          buffer,
          layout + " dispatch",
          bytes,
          i ->
              buffer
                  .dispatch(
                      layout, Tokens.of(x[i % SETS]), routing[i % SETS], DispatchOptions.DEFAULT)
                  .handle()
                  .close());
      measure(
          buffer,
          layout + " cached dispatch",
          bytes,
          i ->
              buffer.dispatch(
                  layout, Tokens.of(x[i % SETS]), handles[i % SETS], Execution.SYNCHRONOUS));
      MemorySegment sums = arena.allocate(tokens * ROW_BYTES, 4096);
      CombineOptions into =
          CombineOptions.builder().out(Tensor.of(sums, DType.BF16, tokens, HIDDEN)).build();
      measure(
          buffer,
          layout + " combine",
          bytes,
          i -> buffer.combine(y[i % SETS], handles[i % SETS], into));
    }
  }

  private void ceilings(ExpertBuffer buffer, Arena arena, long bytes) {
    MemorySegment source = arena.allocate(bytes, 4096).fill((byte) 1);
    MemorySegment target = arena.allocate(bytes, 4096).fill((byte) 1);
    measure(buffer, "copy in one piece", bytes, i -> target.copyFrom(source));
    measure(
        buffer,
        "copy row by row",
        bytes,
        i -> {
          for (long at = 0; at < bytes; at += ROW_BYTES) {
            MemorySegment.copy(source, at, target, at, ROW_BYTES);
          }
        });
    measure(buffer, "read", bytes, i -> MemoryReader.read(source));
  }

  private void measure(ExpertBuffer buffer, String name, long bytes, Consumer<Integer> work) {
    List<Double> all = new ArrayList<>();
    for (int i = -2; i < repetitions; i++) {
      int number = i + 2;
      buffer.barrier();
      long start = System.nanoTime();
      work.accept(number);
      double ms = (System.nanoTime() - start) * 1e-6;
      if (i >= 0) {
        times[buffer.rank()][i] = ms;
      }
    }
    buffer.barrier();
    if (buffer.rank() == 0) {
      for (int i = 0; i < repetitions; i++) {
        double slowest = 0;
        for (double[] own : times) {
          slowest = Math.max(slowest, own[i]);
        }
        all.add(slowest);
      }
      double[] sorted = all.stream().mapToDouble(Double::doubleValue).sorted().toArray();
      System.out.printf(
          Locale.ROOT,
          "%-28s best %9.3f ms %7.2f GB/s   median %9.3f ms %7.2f GB/s%n",
          name,
          sorted[0],
          bytes / sorted[0] * 1e-6,
          sorted[sorted.length / 2],
          bytes / sorted[sorted.length / 2] * 1e-6);
    }
    buffer.barrier();
    Arrays.fill(times[buffer.rank()], 0);
  }
}
