package org.ep4j.cuda.emulator;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import org.ep4j.conformance.world.HostCompiler.Outcome;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The kernels' protocols without a GPU: an emulator runs the unchanged kernels of several ranks, in
 * orders drawn from a seed, and compares the results with a plain model.
 *
 * <p>{@code -Dep4j.seed} selects other cases, {@code -Dep4j.cases} their number, and {@code
 * -Dep4j.full=true} runs every mistake of {@link KernelMistakes}. Not modelled: weak memory order,
 * the asynchronous proxy, diverged warps, and time.
 */
@Execution(ExecutionMode.CONCURRENT) // each test compiles and runs programs of one thread
class KernelsOnTheHostTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");
  private static final int CASES = FULL ? 40 : 8;

  /** Cases of the worlds whose cases take the longest. */
  private static final int FEW_CASES = FULL ? 40 : 4;

  /** Of worlds in which all threads poll for long; each case checks every pair of ranks. */
  private static final int LONG_CASES = FULL ? 40 : 2;

  /** Why most mistakes are left out: each compiles its world again. */
  private static final String ONE_IS_ENOUGH =
      "the mistake in rows of blocks that share a word shows that the checks can fail";

  /** Why a library puts in one world by default. */
  private static final String KNOWN_LIBRARY =
      "across_nodes_library puts by the same library, and other worlds run these kernels";

  @TempDir Path directory;

  @Test
  void dispatchesDeliverInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("dispatch_world");
  }

  @Test
  void combinesSumInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("combine_world");
  }

  /** Each rank has a thread in usual worlds; here threads speak for several. */
  @Test
  void moreRanksThanThreadsAreToldAndAwaited() throws IOException, InterruptedException {
    allCasesPass("many_ranks_world");
  }

  /** A stopped rank resumes, and would find all words of the operation in which it was lost. */
  @Test
  void fencedRanksWriteNothing() throws IOException, InterruptedException {
    allCasesPass("stale_rank_fence_world");
  }

  /** The first wait to fail may be for a rank that itself waits for the missing one. */
  @Test
  void missingRankIsNamedByAllOthers() throws IOException, InterruptedException {
    allCasesPass("timeout_attribution_world");
  }

  @Test
  void missingRankIsNamedAcrossNodes() throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), "internode_timeout_attribution_world", FEW_CASES);
  }

  /** Its caller overwrites its rows, which ranks of its node may be about to send. */
  @Test
  void rowsOfAnAbortedRankAreInNoSumAcrossNodes() throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), "internode_hasty_rank_world", FEW_CASES);
  }

  /** What {@code ExpertBuffer.observe()} shows: each rank waits for the late one alone. */
  @Test
  void lateRankIsCharged() throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), "observation_world", LONG_CASES);
  }

  @Test
  void lateRankIsChargedAcrossNodes() throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), "internode_observation_world", LONG_CASES);
  }

  @Test
  void lateRankIsChargedByLowLatency() throws IOException, InterruptedException {
    allCasesPass(bothLayouts(), "low_latency_observation_world", LONG_CASES);
    allCasesPass(
        new EmulatedKernels(directory), "low_latency_mapped_observation_world", LONG_CASES);
    allCasesPass(new EmulatedKernels(directory), "low_latency_puts_observation_world", LONG_CASES);
  }

  @Test
  void operationsAcrossNodesEndInEveryOrder() throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), "internode_world", FEW_CASES);
  }

  /**
   * A node of as many GPUs as an NVLink domain has: a token's choices lead to more ranks than a
   * warp has lanes. Other worlds have eight ranks or nine.
   */
  @Test
  void nodesOf72RanksEndInEveryOrder() throws IOException, InterruptedException {
    casesPass("combine_world", FULL ? 10 : 1, 72);
    allCasesPass(bothLayouts(), "low_latency_mixed_world", FULL ? 4 : 1, new int[] {72});
  }

  @Test
  void largeWorldsOfOneNodeEndInEveryOrder() throws IOException, InterruptedException {
    TestScale.onlyInFull("more ranks run the same kernels");
    for (String world : new String[] {"dispatch_world", "combine_world"}) {
      casesPass(world, 10, 16);
      casesPass(world, 2, 32);
      casesPass(world, 4, 64);
    }
    casesPass("low_latency_flagged_world", 4, 72);
  }

  @Test
  void largeWorldsAcrossNodesEndInEveryOrder() throws IOException, InterruptedException {
    TestScale.onlyInFull("more ranks and nodes run the same kernels");
    casesPass("internode_world", 6, 8, 8);
    casesPass("internode_world", 6, nodes(8, 2));
    casesPass("internode_world", 3, nodes(8, 3));
    for (int count : new int[] {2, 8, 32}) {
      casesPass("internode_world", 4, nodes(count, 64 / count));
    }
    casesPass("internode_world", 1, 72, 72);
  }

  @Test
  void largeWorldsOfLowLatencyAcrossNodesEndInEveryOrder()
      throws IOException, InterruptedException {
    TestScale.onlyInFull("more ranks and nodes run the same kernels");
    for (String world : new String[] {"low_latency_mapped_world", "low_latency_puts_world"}) {
      for (int count : new int[] {2, 8, 32}) {
        casesPass(world, 2, nodes(count, 64 / count));
      }
    }
    casesPass("low_latency_mapped_world", 1, nodes(32, 8));
  }

  /**
   * Threads of a block speak for several ranks, experts and partners, as they do between nodes on a
   * GPU beyond 512 ranks: blocks of these worlds have 192 threads. One minute and five.
   */
  @Test
  @Tag("soak")
  void moreRanksThanThreadsAcrossNodesEnd() throws IOException, InterruptedException {
    casesPass("internode_world", 1, nodes(3, 171));
    casesPass("internode_world", 1, nodes(200, 1));
  }

  /** The same for low latency, whose blocks have 512 threads. A minute or two for each world. */
  @Test
  @Tag("soak")
  void moreRanksThanThreadsOfLowLatencyEnd() throws IOException, InterruptedException {
    casesPass("low_latency_world", 1, 520);
    casesPass("low_latency_mapped_world", 1, 520);
  }

  @Test
  void operationsByALibraryAcrossNodesEndInEveryOrder() throws IOException, InterruptedException {
    TestScale.onlyInFull(KNOWN_LIBRARY);
    allCasesPass("across_nodes_library");
  }

  @Test
  void lowLatencyOperationsDeliverInEveryOrder() throws IOException, InterruptedException {
    onlyInFull();
    allCasesPass("low_latency_world");
  }

  @Test
  void lowLatencyRankMajorOperationsDeliverInEveryOrder() throws IOException, InterruptedException {
    onlyInFull();
    allCasesPass("low_latency_rank_major_world");
  }

  /** Operations of both layouts alternate in the same memory. */
  @Test
  void lowLatencyOperationsOfBothLayoutsDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass(bothLayouts(), "low_latency_mixed_world");
  }

  @Test
  void lowLatencyOperationsWithFlagsDeliverInEveryOrder() throws IOException, InterruptedException {
    TestScale.onlyInFull("operations across nodes use the same flags");
    allCasesPass("low_latency_flagged_world");
    allCasesPass("low_latency_rank_major_flagged_world");
  }

  @Test
  void lowLatencyOperationsAcrossNodesDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass("low_latency_mapped_world");
  }

  @Test
  void lowLatencyRankMajorOperationsAcrossNodesDeliverInEveryOrder()
      throws IOException, InterruptedException {
    onlyInFull();
    allCasesPass("low_latency_rank_major_mapped_world");
  }

  @Test
  void lowLatencyOperationsOverAWireDeliverInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("low_latency_puts_world");
  }

  @Test
  void lowLatencyRankMajorOperationsOverAWireDeliverInEveryOrder()
      throws IOException, InterruptedException {
    onlyInFull();
    allCasesPass("low_latency_rank_major_puts_world");
  }

  @Test
  void lowLatencyOperationsByALibraryDeliverInEveryOrder()
      throws IOException, InterruptedException {
    TestScale.onlyInFull(KNOWN_LIBRARY);
    allCasesPass("low_latency_library_world");
    allCasesPass("low_latency_rank_major_library_world");
  }

  /** More blocks publish groups than there are words. */
  @Test
  void lowLatencyBlocksThatShareWordsDeliverInEveryOrder()
      throws IOException, InterruptedException {
    allCasesPass("low_latency_shared_words_world");
    if (FULL) {
      allCasesPass("low_latency_rank_major_shared_words_world");
    }
  }

  @Test
  void commandsReachTheHostInEveryOrder() throws IOException, InterruptedException {
    allCasesPass("proxy_world");
  }

  @Test
  void countsOfRoutingsWithoutABufferArePlainCounts() throws IOException, InterruptedException {
    allCasesPass("routing_counts_world");
  }

  @Test
  void putsByStoresArriveBeforeTheirSignals() throws IOException, InterruptedException {
    allCasesPass("put_stores_world");
  }

  /** Many blocks need several commands here. */
  @Test
  void putsByTheProxyArriveBeforeTheirSignals() throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change(
        "transport/device_put.cuh", "MAX_COMMAND_BYTES = 8ull << 20", "MAX_COMMAND_BYTES = 2048");
    allCasesPass(kernels, "put_rings_world");
  }

  @Test
  void putsByALibraryArriveBeforeTheirSignals() throws IOException, InterruptedException {
    TestScale.onlyInFull(KNOWN_LIBRARY);
    allCasesPass("put_library_world");
  }

  /**
   * Each build looks for the texts, so that a change of a kernel does not leave its mistake behind.
   */
  @ParameterizedTest
  @MethodSource("org.ep4j.cuda.emulator.KernelMistakes#all")
  void mistakesAreFound(KernelMistakes.Mistake mistake) throws IOException, InterruptedException {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change(mistake.file(), mistake.from(), mistake.to());
    TestScale.onlyInFull(ONE_IS_ENOUGH);
    assertThat(firstFailure(kernels, mistake.world(), mistake.first()))
        .containsPattern(mistake.said());
  }

  /** One of the blocks that share a word publishes before the others. */
  @Test
  void rowsOfBlocksThatShareAWordAreAwaited() throws IOException, InterruptedException {
    assertThat(firstFailure(new EmulatedKernels(directory), "low_latency_hasty_world", 1))
        .containsAnyOf("of row", "the sum of token");
  }

  /** Low-latency kernels of one program for both layouts. */
  private EmulatedKernels bothLayouts() {
    EmulatedKernels kernels = new EmulatedKernels(directory);
    kernels.change(
        "lowlatency/low_latency.cuh",
        "constexpr bool RANK_MAJOR = EP4J_RANK_MAJOR;",
        "#define RANK_MAJOR emulator::rank_major()");
    kernels.change(
        "lowlatency/low_latency_combine.cu",
        "#if EP4J_RANK_MAJOR\n"
            + "EP4J_LOW_LATENCY_COMBINE(combine_summed, RETURN_SUMMED)\n"
            + "#else",
        "EP4J_LOW_LATENCY_COMBINE(combine_summed, RETURN_SUMMED)\n#if true");
    return kernels;
  }

  private static int[] nodes(int count, int ranks) {
    int[] sizes = new int[count];
    Arrays.fill(sizes, ranks);
    return sizes;
  }

  private static void onlyInFull() {
    TestScale.onlyInFull("a world of both layouts runs the same kernels");
  }

  private void allCasesPass(String world) throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), world);
  }

  private static void allCasesPass(EmulatedKernels kernels, String world)
      throws IOException, InterruptedException {
    allCasesPass(kernels, world, CASES);
  }

  private static void allCasesPass(EmulatedKernels kernels, String world, int usualCases)
      throws IOException, InterruptedException {
    allCasesPass(kernels, world, Integer.getInteger("ep4j.cases", usualCases), new int[0]);
  }

  /** Cases of a world whose nodes have these sizes. */
  private void casesPass(String world, int cases, int... nodeSizes)
      throws IOException, InterruptedException {
    allCasesPass(new EmulatedKernels(directory), world, cases, nodeSizes);
  }

  private static void allCasesPass(
      EmulatedKernels kernels, String world, int cases, int[] nodeSizes)
      throws IOException, InterruptedException {
    long seed = TestScale.seed();
    System.out.printf(
        "%s%s: -Dep4j.seed=%d -Dep4j.cases=%d%n", world, Arrays.toString(nodeSizes), seed, cases);
    Outcome outcome = kernels.run(world, seed, cases, nodeSizes);
    assertThat(outcome.status())
        .as("%s%n-Dep4j.seed=%d -Dep4j.cases=%d", outcome.output(), seed, cases)
        .isZero();
  }

  /** The report of the first of a thousand fixed cases that fails. */
  private static String firstFailure(EmulatedKernels kernels, String world, long first)
      throws IOException, InterruptedException {
    Outcome outcome = kernels.run(world, first, 1000);
    assertThat(outcome.status()).as(outcome.output()).isEqualTo(1);
    assertThat(outcome.output()).contains("FAILED");
    return outcome.output();
  }
}
