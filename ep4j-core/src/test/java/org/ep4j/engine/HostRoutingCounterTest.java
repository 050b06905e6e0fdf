package org.ep4j.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.RoutingCounter;
import org.ep4j.RoutingCounts;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

class HostRoutingCounterTest {
  private static final int[] NODES = {0, 0, 1, 2};

  private final Random random = new Random(20261128);

  private static RoutingCounts memory(long tokens, int ranks, int nodes, int experts) {
    Arena arena = Arena.ofAuto();
    RoutingCounts memory =
        new RoutingCounts(
            Tensor.allocate(arena, DType.INT32, ranks),
            Tensor.allocate(arena, DType.INT32, nodes),
            Tensor.allocate(arena, DType.INT32, experts),
            Tensor.allocate(arena, DType.UINT8, tokens, ranks));
    // What a count leaves behind is not cleared by its caller.
    memory.tokensPerRank().segment().fill((byte) 0x5a);
    memory.tokensPerNode().segment().fill((byte) 0x5a);
    memory.tokensPerExpert().segment().fill((byte) 0x5a);
    memory.tokenInRank().segment().fill((byte) 0x5a);
    return memory;
  }

  @Test
  void countsOfRandomRoutingsAreThoseOfEachTokenByItself() {
    try (RoutingCounter counter = RoutingCounter.onHost(NODES)) {
      for (int repeat = 0; repeat < 200; repeat++) {
        int tokens = random.nextInt(20);
        int topK = 1 + random.nextInt(8);
        int each = 1 + random.nextInt(4);
        long[] ids =
            random.longs((long) tokens * topK, -2, (long) each * NODES.length + 2).toArray();
        RoutingCounts counts = memory(tokens, NODES.length, 3, each * NODES.length);
        counter.count(Routing.of(ids(ids, topK)), counts);
        compare(ids, topK, each, counts);
      }
    }
  }

  /** INT64 or INT32. */
  private Tensor ids(long[] ids, int topK) {
    long tokens = ids.length / topK;
    return random.nextBoolean()
        ? Tensor.of(ids, tokens, topK)
        : Tensor.of(Arrays.stream(ids).mapToInt(Math::toIntExact).toArray(), tokens, topK);
  }

  private static void compare(long[] ids, int topK, int each, RoutingCounts counts) {
    int ranks = NODES.length;
    var perRank = new int[ranks];
    var perNode = new int[3];
    var perExpert = new int[each * ranks];
    for (int token = 0; token < ids.length / topK; token++) {
      Set<Integer> experts = new HashSet<>();
      Set<Integer> itsRanks = new HashSet<>();
      Set<Integer> nodes = new HashSet<>();
      for (int k = 0; k < topK; k++) {
        int id = Math.toIntExact(ids[token * topK + k]);
        if (id >= 0 && id < perExpert.length) {
          experts.add(id);
          itsRanks.add(id / each);
          nodes.add(NODES[id / each]);
        }
      }
      experts.forEach(e -> perExpert[e]++);
      itsRanks.forEach(r -> perRank[r]++);
      nodes.forEach(n -> perNode[n]++);
      for (int rank = 0; rank < ranks; rank++) {
        assertThat(counts.tokenInRank().getInt((long) token * ranks + rank))
            .as("token %d of rank %d", token, rank)
            .isEqualTo(itsRanks.contains(rank) ? 1 : 0);
      }
    }
    assertThat(counts.tokensPerRank().toIntArray()).containsExactly(perRank);
    assertThat(counts.tokensPerNode().toIntArray()).containsExactly(perNode);
    assertThat(counts.tokensPerExpert().toIntArray()).containsExactly(perExpert);
  }

  @Test
  void nodesThatAreNotInARowAreRefused() {
    for (int[] nodes : new int[][] {{}, {1}, {0, 2}, {0, 1, 0}, {-1}, {0, -1}}) {
      refused(ErrorCode.INVALID_ARGUMENT, () -> RoutingCounter.onHost(nodes));
    }
  }

  @Test
  void tensorsOfOtherShapesTypesAndPlacesAreRefused() {
    Routing routing = Routing.of(Tensor.of(new long[] {0, 1, 2, 3}, 2, 2));
    RoutingCounts good = memory(2, 2, 1, 4);
    try (RoutingCounter counter = RoutingCounter.onHost(0, 0)) {
      counter.count(routing, good);
      Tensor three = memory(2, 2, 1, 3).tokensPerExpert();
      Tensor one = good.tokensPerNode();
      for (RoutingCounts wrong :
          new RoutingCounts[] {
            new RoutingCounts(good.tokensPerRank(), one, three, good.tokenInRank()),
            new RoutingCounts(one, one, good.tokensPerExpert(), good.tokenInRank()),
            new RoutingCounts(
                good.tokensPerRank(), three, good.tokensPerExpert(), good.tokenInRank()),
            new RoutingCounts(
                good.tokensPerRank(), one, good.tokensPerExpert(), memory(3, 2, 1, 4).tokenInRank())
          }) {
        refused(ErrorCode.WRONG_TENSOR, () -> counter.count(routing, wrong));
      }
      Tensor onDevice = Tensor.ofDevice(4096, 0, DType.INT64, 2, 2);
      refused(ErrorCode.TENSOR_NOT_ON_HOST, () -> counter.count(Routing.of(onDevice), good));
      refused(ErrorCode.STREAM_ON_HOST, () -> counter.count(routing, good, new DeviceStream(0)));
    }
  }

  @Test
  void countsGoToMemoryOfAnyAlignment() {
    Routing routing = Routing.of(Tensor.of(new long[] {0, 1, 2, 3}, 2, 2));
    RoutingCounts counts =
        new RoutingCounts(bytes(2), bytes(1), bytes(4), memory(2, 2, 1, 4).tokenInRank());
    try (RoutingCounter counter = RoutingCounter.onHost(0, 0)) {
      counter.count(routing, counts);
    }
    assertThat(counts.tokensPerRank().toIntArray()).containsExactly(1, 1);
    assertThat(counts.tokensPerNode().toIntArray()).containsExactly(2);
    assertThat(counts.tokensPerExpert().toIntArray()).containsExactly(1, 1, 1, 1);
  }

  private static Tensor bytes(int numbers) {
    return Tensor.of(new byte[4 * numbers], DType.INT32, numbers);
  }

  @Test
  @SuppressWarnings("NullAway") // callers without its checks
  void aCountWithoutAStreamCounts() {
    RoutingCounts counts = memory(1, 1, 1, 1);
    try (RoutingCounter counter = RoutingCounter.onHost(0)) {
      counter.count(Routing.of(Tensor.of(new long[] {0}, 1, 1)), counts, null);
    }
    assertThat(counts.tokensPerExpert().toIntArray()).containsExactly(1);
  }

  @Test
  void aClosedCounterCountsNothing() {
    RoutingCounter counter = RoutingCounter.onHost(0);
    counter.close();
    counter.close();
    Routing routing = Routing.of(Tensor.of(new long[] {0}, 1, 1));
    assertThatThrownBy(() -> counter.count(routing, memory(1, 1, 1, 1)))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageContaining("the counter has been closed");
  }

  @Test
  void withoutAnEngineForDevicesTheReasonIsGiven() {
    assertThatThrownBy(() -> RoutingCounter.onDevice(0, 0))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageContaining("device 0; host: has no devices");
  }

  private static void refused(ErrorCode code, ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            InvalidArgumentException.class, e -> assertThat(e.errorCode()).isEqualTo(code));
  }
}
