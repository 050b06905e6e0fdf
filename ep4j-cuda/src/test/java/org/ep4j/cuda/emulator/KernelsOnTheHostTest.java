package org.ep4j.cuda.emulator;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.ep4j.cuda.driver.HostCompiler.Outcome;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The kernels' protocols without a GPU: an emulator runs several ranks' kernels as they are, in
 * orders drawn from a seed, and compares what they deliver with a plain reference.
 *
 * <p>{@code -Dep4j.seed} repeats a run, {@code -Dep4j.cases} lengthens it. Not modelled: weak
 * memory order, the asynchronous proxy, warps that run apart, and time.
 */
@Execution(ExecutionMode.CONCURRENT) // each test compiles and runs programs of one thread
class KernelsOnTheHostTest {
  /** Each run draws other ones; more would make a build of 40 minutes longer than that. */
  private static final int CASES = 40;

  /** Of worlds that put. */
  private static final String WRONG_BLOCK = "from rank|the result";

  @TempDir Path directory;

  @Test
  void dispatchesDeliverInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("dispatch_world");
  }

  @Test
  void combinesSumInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("combine_world");
  }

  /** One that was stopped goes on, and would find all words of the operation where it was lost. */
  @Test
  void ranksThatAreEvictedWriteNothing() throws IOException, InterruptedException {
    allCasesPass("eviction_world");
  }

  /** A wait for a rank that is only held up by another may be the first to fail. */
  @Test
  void whoDoesNotComeIsNamedByAllOthers() throws IOException, InterruptedException {
    allCasesPass("absent_world");
  }

  @Test
  void whoDoesNotComeIsNamedAcrossNodes() throws IOException, InterruptedException {
    allCasesPass("far_absent_world");
  }

  @Test
  void operationsAcrossNodesEndInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("far_world");
  }

  @Test
  void operationsByALibraryAcrossNodesEndInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("far_library_world");
  }

  @Test
  void lowLatencyOperationsDeliverInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("low_latency_world");
  }

  @Test
  void lowLatencyOperationsByRanksDeliverInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("low_latency_by_ranks_world");
  }

  /** Operations of both layouts take turns in the same memory. */
  @Test
  void lowLatencyOperationsOfBothLayoutsDeliverInEveryOrder()
      throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change(
        "low_latency.cuh",
        "constexpr bool BY_RANKS = EP4J_BY_RANKS;",
        "#define BY_RANKS emulator::by_ranks()");
    kernels.change(
        "low_latency_combine.cu",
        "#if EP4J_BY_RANKS\nEP4J_LOW_LATENCY_COMBINE(ep4j_low_latency_combine, TRAVEL_SUMMED)\n#else",
        "EP4J_LOW_LATENCY_COMBINE(ep4j_low_latency_combine_summed, TRAVEL_SUMMED)\n#if true");
    allCasesPass(kernels, "low_latency_mixed_world");
  }

  @Test
  void lowLatencyOperationsWithoutLinesDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass("low_latency_flagged_world");
    allCasesPass("low_latency_by_ranks_flagged_world");
  }

  @Test
  void lowLatencyOperationsAcrossNodesDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass("low_latency_mapped_world");
  }

  @Test
  void lowLatencyOperationsByRanksAcrossNodesDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass("low_latency_by_ranks_mapped_world");
  }

  @Test
  void lowLatencyOperationsOverAWireDeliverInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("low_latency_puts_world");
  }

  @Test
  void lowLatencyOperationsByRanksOverAWireDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass("low_latency_by_ranks_puts_world");
  }

  @Test
  void lowLatencyOperationsByALibraryDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass("low_latency_library_world");
    allCasesPass("low_latency_by_ranks_library_world");
  }

  /** More blocks tell of groups than there are words for each of them. */
  @Test
  void lowLatencyBlocksThatShareWordsDeliverInEveryOrder()
      throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change("low_latency_group_sizes.cuh", "UNITS = 32", "UNITS = 2");
    allCasesPass(kernels, "low_latency_mapped_world");
    allCasesPass(kernels, "low_latency_by_ranks_mapped_world");
  }

  @Test
  void commandsReachTheHostInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("proxy_world");
  }

  @Test
  void putsByStoresArriveBeforeTheirSignals() throws IOException, InterruptedException {
    allCasesPass("put_stores_world");
  }

  /** Many blocks take several commands here. */
  @Test
  void putsByTheProxyArriveBeforeTheirSignals() throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change("device_put.cuh", "MOST_OF_A_COMMAND = 8ull << 20", "MOST_OF_A_COMMAND = 2048");
    allCasesPass(kernels, "put_rings_world");
  }

  @Test
  void putsByALibraryArriveBeforeTheirSignals() throws IOException, InterruptedException {
    allCasesPass("put_library_world");
  }

  /**
   * A mistake in one place.
   *
   * @param what is wrong
   * @param world that finds it, always with the same seed
   * @param from what the file holds once
   * @param to what is in its place
   * @param said pattern of what is printed of the first case that fails
   */
  record Mistake(String what, String world, String file, String from, String to, String said) {
    @Override
    public String toString() {
      return what;
    }
  }

  static Stream<Mistake> mistakes() {
    return Stream.of(
        new Mistake(
            "rows of a slot are counted wrongly: tokens get those of others",
            "far_world",
            "far_sum.cuh",
            "+= rounded() ? 1 :",
            "+= rounded() ? 0 :",
            "the sum of token"),
        new Mistake(
            "rows that stay where they are are awaited",
            "combine_world",
            "combine.cu",
            "if (!is_given(p, way)) {",
            "if (true) {",
            "(?s)HANG.*groups"),
        new Mistake(
            "made once: rows that stay have a place at home, behind which the others lie",
            "combine_world",
            "homes.cuh",
            "h == r ? 0 : p.matrix[r * p.ranks + h]",
            "p.matrix[r * p.ranks + h]",
            "at a bad address|the sum of token"),
        new Mistake(
            "what own experts give is not rounded as if it had travelled",
            "combine_world",
            "expert_combine.cu",
            "if constexpr (H::ELEMENTS == E) {",
            "if constexpr (H::ELEMENTS > E) {",
            "the sum of token"),
        new Mistake(
            "rows that stay where they are are looked for at home",
            "far_world",
            "far_homes.cuh",
            "if (is_given(p, way)) {",
            "if (false) {",
            "the sum of token"),
        new Mistake(
            "a row is taken for whole because one of its lines is there",
            "low_latency_world",
            "low_latency_lines.cuh",
            "held[i].w == number",
            "true",
            "rank"),
        new Mistake(
            "made once: a rank that masked another told it the sum of what it had",
            "low_latency_world",
            "low_latency_push.cuh",
            "if (!__all_sync(0xffffffff, told)) {",
            "if (false) {",
            "the sum of token"),
        new Mistake(
            "rows from other nodes are read before all of a group are there",
            "low_latency_mapped_world",
            "low_latency_groups.cuh",
            "__popc(told) == units",
            "true",
            "of row|the sum of token"),
        new Mistake(
            "evicted ranks do not look whether they are",
            "eviction_world",
            "begin_end.cuh",
            "| load_relaxed_system(&control->evicted)",
            "",
            "it is evicted, and writes"),
        new Mistake(
            "the others do not wait for a kernel that has looked already",
            "eviction_world",
            "begin_end.cuh",
            "store_relaxed_system(&control->running, 1);",
            "",
            "it is evicted, and writes"),
        new Mistake(
            "whatever wait has failed first is told",
            "absent_world",
            "absent.cuh",
            "      w.record->peer = r;\n",
            "",
            "named rank"),
        new Mistake(
            "who gave up in an operation before is named",
            "absent_world",
            "absent.cuh",
            " && age < oldest",
            "",
            "named rank"),
        new Mistake(
            "a last block that came after the failure does not look",
            "absent_world",
            "begin_end.cuh",
            "end_epoch(w, receipt, entries);",
            "end_epoch(w, receipt, [] { return Entries{}; });",
            "named rank|phase"),
        new Mistake(
            "nobody looks whose counts have come from other nodes",
            "far_absent_world",
            "far_counts.cuh",
            "p.cached ? nullptr : p.far->told",
            "nullptr",
            "named rank|phase"),
        new Mistake(
            "made once: a warp whose wait fails leaves while its stores are in flight",
            "far_absent_world",
            "far_slots.cuh",
            "streams.chunks[g] && !slots.forward(q, slots.far.taken[q] + c)) {\n      break;",
            "streams.chunks[g] && !slots.forward(q, slots.far.taken[q] + c)) {\n      return;",
            "ended before its bulk stores"),
        new Mistake(
            "what has failed says that it has received",
            "low_latency_world",
            "low_latency_end.cuh",
            "    parts[r] = nullptr;",
            "",
            "(?s)(?=.*it is evicted, and writes).*received"),
        new Mistake(
            "puts overtake each other: an add comes before the rows that it counts",
            "low_latency_puts_world",
            "low_latency_posts.cuh",
            "turns(op) * ALL_ROWS, seen",
            "1, seen",
            "FAILED"),
        new Mistake(
            "words of the lap before are taken for new commands",
            "proxy_world",
            "command_ring.cuh",
            "(ticket & rings.capacity) == 0 ?",
            "true ?",
            "ring .*: \\d+ commands of \\d+ came"),
        new Mistake(
            "a warp takes a place that the host has not read yet",
            "proxy_world",
            "command_ring.cuh",
            "end <= tail + rings.capacity",
            "end <= tail + 2 * rings.capacity",
            "refused though there was time"),
        new Mistake(
            "one lane signals before the others have stored",
            "put_stores_world",
            "device_put.cuh",
            "what the others stored.\n  __syncwarp();",
            "what the others stored.",
            WRONG_BLOCK),
        new Mistake(
            "made once: lanes put what others of the warp have not written yet",
            "put_stores_world",
            "device_put.cuh",
            "the warp have written.\n  __syncwarp();",
            "the warp have written.",
            WRONG_BLOCK),
        new Mistake(
            "a signal goes by another lane of the wire than its puts",
            "put_rings_world",
            "device_put.cuh",
            "add_command(peer, lane_of_ring(p, lane), number",
            "add_command(peer, 0, number",
            WRONG_BLOCK),
        new Mistake(
            "the source is written anew while the wire reads it",
            "put_rings_world",
            "device_put.cuh",
            "wanted = ++p.flushes[lane]",
            "wanted = p.flushes[lane]++",
            WRONG_BLOCK));
  }

  @ParameterizedTest
  @MethodSource("mistakes")
  void mistakesAreFound(Mistake mistake) throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change(mistake.file, mistake.from, mistake.to);
    assertThat(firstFailure(kernels, mistake.world)).containsPattern(mistake.said);
  }

  /** One of the blocks that share a word tells before the others. */
  @Test
  void rowsOfBlocksThatShareAWordAreAwaited() throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change("low_latency_group_sizes.cuh", "UNITS = 32", "UNITS = 1");
    kernels.change("low_latency_groups.cuh", "atomicAdd(progress, 1ull) + 1 == sharers", "true");
    assertThat(firstFailure(kernels, "low_latency_mapped_world"))
        .containsAnyOf("of row", "the sum of token");
  }

  /** A mistake that was made: blocks that only receive had not read the counts yet. */
  @Test
  void doneSaidTooEarlyIsFound() throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change("expert_push.cuh", "== gridDim.x - 1;", "== p.push_blocks - 1;");
    kernels.change("expert_dispatch.cu", "if (!sends && warp == 0) {", "if (false) {");
    String output = firstFailure(kernels, "dispatch_world");
    assertThat(output).contains("HANG").contains("counts + ");
  }

  private void allCasesPass(String world) throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), world);
  }

  private static void allCasesPass(EmulatedKernels kernels, String world)
      throws IOException, InterruptedException {
    long seed = Long.getLong("ep4j.seed", System.nanoTime() >>> 20);
    int cases = Integer.getInteger("ep4j.cases", CASES);
    System.out.println(world + ": -Dep4j.seed=" + seed + " -Dep4j.cases=" + cases);
    Outcome outcome = kernels.run(kernels.compile(world), seed, cases);
    assertThat(outcome.status())
        .as("%s%n-Dep4j.seed=%d -Dep4j.cases=%d", outcome.output(), seed, cases)
        .isZero();
  }

  /** What is printed of the first case that fails; the seed is always the same. */
  private static String firstFailure(EmulatedKernels kernels, String world)
      throws IOException, InterruptedException {
    Outcome outcome = kernels.run(kernels.compile(world), 1, 1000);
    assertThat(outcome.status()).as(outcome.output()).isEqualTo(1);
    assertThat(outcome.output()).contains("FAILED");
    return outcome.output();
  }
}
