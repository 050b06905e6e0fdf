package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.System.Logger.Level;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.world.LogLines;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.Execution;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Which hosts are a node, and what memory its ranks map. */
@OnFakeDriver
@Timeout(120)
class DomainNodesTest {
  private static final String HOSTS = "aabb";
  private static final int RANKS = HOSTS.length();
  private static final int NOT_PERMITTED = 800;
  private static final Duration LIMIT = Duration.ofSeconds(30);

  private static BufferConfig.Builder config() {
    return Batch.config(OneRank.TOKENS).lowLatency(OneRank.TOKENS).timeout(LIMIT);
  }

  /** Ranks of each node. */
  private static int nodes(String hosts, BufferConfig config) {
    ConcurrentLinkedQueue<Integer> perNode = new ConcurrentLinkedQueue<>();
    HostRanks.run(
        hosts,
        rank -> {
          try (ExpertBuffer buffer = rank.open(config)) {
            perNode.add(buffer.config().ranksPerNode());
            buffer.barrier();
          }
        });
    assertThat(perNode).hasSize(hosts.length()).containsOnly(perNode.element());
    return perNode.element();
  }

  @Test
  void hostsOfADomainAreANode() {
    FakeDriver.joinDomain();
    assertThat(nodes(HOSTS, config().build())).isEqualTo(RANKS);
    assertThat(FakeDriver.calls("cuIpcOpenMemHandle_v2")).isEmpty();
    assertThat(FakeDriver.calls("cuMemImportFromShareableHandle"))
        .as("a trial, high throughput, low latency")
        .hasSize(RANKS + 2 * RANKS * (RANKS - 1));
  }

  @Test
  void aRackIsANode() {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "opens 36 buffers; -Dep4j.full=true runs it");
    FakeDriver.joinDomain();
    BufferConfig config =
        BufferConfig.builder()
            .engine("cuda")
            .hidden(Batch.HIDDEN)
            .topK(1)
            .experts(36)
            .lowLatency(OneRank.TOKENS)
            .build();
    assertThat(nodes("aaaabbbbccccddddeeeeffffgggghhhhiiii", config)).isEqualTo(36);
  }

  /** What a kernel writes for a rank lies in the memory of that rank. */
  @Test
  void kernelsGetAddressesOfTheRegionsOfAllRanks() {
    FakeDriver.joinDomain();
    long[][] tables = new long[RANKS][];
    HostRanks.run(
        HOSTS,
        rank -> {
          try (CudaDevice device = CudaDevice.open(rank.rank() % CudaDevice.count());
              ExpertBuffer buffer = rank.open(config().build());
              Batch batch = new Batch(device, OneRank.TOKENS)) {
            batch.fill(rank.rank(), 1);
            buffer.dispatch(
                Tokens.of(batch.x),
                batch.routing,
                DispatchOptions.builder()
                    .sizing(Sizing.atMost((long) RANKS * OneRank.TOKENS))
                    .execution(Execution.ASYNCHRONOUS)
                    .build());
            rank.group.barrier(LIMIT);
            if (rank.rank() == 0) {
              FakeKernels.launches().stream()
                  .filter(launch -> launch.kernel().equals(FakeKernels.DISPATCH))
                  .forEach(launch -> tables[(int) launch.get("rank")] = peers(launch));
              for (int from = 0; from < RANKS; from++) {
                for (int to = 0; to < RANKS; to++) {
                  long last = Long.BYTES * (long) from;
                  NativeMemory.putLongRelease(tables[from][to] + last, 100L * from + to);
                  assertThat(NativeMemory.getLongAcquire(tables[to][to] + last))
                      .isEqualTo(100L * from + to);
                }
              }
            }
            rank.group.barrier(LIMIT);
          }
        });
  }

  private static long[] peers(FakeKernels.Launch launch) {
    return FakeCalls.bytes(launch.get("peers"), (long) RANKS * Long.BYTES)
        .toArray(ValueLayout.JAVA_LONG);
  }

  /** Nothing is tried where hosts cannot be or shall not be one node. */
  @ParameterizedTest
  @CsvSource({
    "none of the GPUs is in a domain, 0, 0, 3, 0, 0",
    "the GPUs of a host are in two domains, 1, 2, 3, 0, 0",
    "the GPUs register, 1, 1, 2, 0, 0",
    "the registration has failed, 1, 1, 3, 999, 0",
    "smaller nodes are declared, 1, 1, 3, 0, 2"
  })
  void otherwiseANodeIsAHost(
      String why, int first, int second, int state, int status, int ranksPerNode) {
    FakeDriver.cluster(0, first);
    FakeDriver.cluster(1, second);
    FakeDriver.registration(state, status);
    assertThat(nodes(HOSTS, config().ranksPerNode(ranksPerNode).build())).as(why).isEqualTo(2);
    assertThat(FakeDriver.calls("cuMemCreate")).isEmpty();
  }

  @Test
  void ranksOfOneHostKeepPlainMemory() {
    FakeDriver.joinDomain();
    assertThat(nodes("aa", config().build())).isEqualTo(2);
    assertThat(FakeDriver.calls("cuMemCreate")).isEmpty();
    assertThat(FakeDriver.calls("cuIpcOpenMemHandle_v2")).isNotEmpty();
  }

  /** Nodes of two hosts each, with a wire between them. */
  @Test
  void declaredNodesMaySpanHosts() {
    FakeDriver.joinDomain();
    assertThat(nodes("abcd", config().ranksPerNode(2).build())).isEqualTo(2);
    assertThat(FakeDriver.calls("cuIpcOpenMemHandle_v2")).isEmpty();
  }

  /** A driver without IMEX refuses one of these calls. */
  @ParameterizedTest
  @CsvSource({
    "cuMemCreate, 1",
    "cuMemCreate, 4",
    "cuMemExportToShareableHandle, 2",
    "cuMemImportFromShareableHandle, 3",
    "cuMemMap, 5",
    "cuMemSetAccess, 7"
  })
  void allRanksTakeHostsWhereOneCannotShareMemory(String refused, int nth) {
    FakeDriver.joinDomain();
    FakeDriver.failCall(refused, nth, NOT_PERMITTED);
    try (LogLines log = new LogLines("org.ep4j.cuda")) {
      assertThat(nodes(HOSTS, config().build())).isEqualTo(2);
      assertThat(log.lines())
          .filteredOn(line -> line.level() == Level.WARNING)
          .singleElement()
          .satisfies(
              line ->
                  assertThat(line.text())
                      .contains("different nodes", "rank ", refused + " failed", "nvidia-imex"));
    }
    assertThat(FakeDriver.calls("cuIpcOpenMemHandle_v2")).isNotEmpty();
  }

  @Test
  void aDeclaredNodeThatCannotShareMemoryIsRefused() {
    FakeDriver.joinDomain();
    FakeDriver.failCall("cuMemExportToShareableHandle", 1, NOT_PERMITTED);
    BufferConfig config = config().ranksPerNode(RANKS).build();
    HostRanks.run(
        HOSTS,
        rank ->
            assertThatThrownBy(() -> rank.open(config))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageStartingWith(ErrorCode.NODE_ON_TWO_HOSTS.id())
                .hasMessageContaining("cuMemExportToShareableHandle failed")
                .hasMessageContaining("nvidia-imex"));
  }

  /** Calls behind the trial: all ranks get the failure, and nothing leaks. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "cuMemAddressReserve",
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle"
      })
  void aFailureOfOneRankEndsTheOpeningOfAll(String failing) {
    FakeDriver.joinDomain();
    nodes("abc", config().build());
    int calls = FakeDriver.calls(failing).size();
    for (int nth : Stream.of(calls - 3, calls - 1, calls).distinct().toList()) {
      FakeDriver.reset();
      FakeKernels.define();
      FakeDriver.joinDomain();
      FakeDriver.failCall(failing, nth, NOT_PERMITTED);
      HostRanks.run(
          "abc",
          rank ->
              assertThatThrownBy(() -> rank.open(config().build()))
                  .as("call %d of %d", nth, calls)
                  .hasStackTraceContaining(failing + " failed"));
      assertThat(FakeDriver.live()).as("call %d of %d", nth, calls).isEmpty();
      assertThat(FakeDriver.misuse()).isEmpty();
    }
  }

  /** What a buffer returns as its configuration opens another one. */
  @Test
  void theConfigurationOfABufferOpensAnother() {
    FakeDriver.joinDomain();
    HostRanks.run(
        HOSTS,
        rank -> {
          BufferConfig settled;
          try (ExpertBuffer buffer = rank.open(config().build())) {
            settled = buffer.config();
          }
          try (ExpertBuffer buffer = rank.open(settled)) {
            assertThat(List.of(settled.ranksPerNode(), buffer.config().ranksPerNode()))
                .containsOnly(RANKS);
          }
        });
  }
}
