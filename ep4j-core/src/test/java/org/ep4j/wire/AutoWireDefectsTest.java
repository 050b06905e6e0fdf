package org.ep4j.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.direct.InProcessWireProvider;
import org.junit.jupiter.api.Test;

/** Ranks decide alike if one of them throws, or if one of its lanes has no space. */
class AutoWireDefectsTest {
  private static final int RANKS = 3;
  private static final int FAULTY = 1;
  private static final Duration LIMIT = Duration.ofSeconds(20);

  /** Also the deadline of the probe, for which one of the tests waits. */
  private static final Duration TIMEOUT = Duration.ofSeconds(3);

  private static final WireConfig CONFIG = WireConfig.builder().timeout(TIMEOUT).build();

  /** A wire between threads; one of its methods throws on one rank. */
  private record Ported(int rank, String throwing) implements WireProvider {
    @Override
    public String name() {
      return "ported";
    }

    @Override
    public List<String> ports() {
      return List.of("port_0");
    }

    @Override
    public String unavailableBecause(Group group) {
      require("unavailableBecause");
      return "";
    }

    @Override
    public Wire open(Group group, WireConfig config) {
      Wire wire = new InProcessWireProvider().open(group, config);
      return around(
          Wire.class,
          (_, method, arguments) -> {
            Object result = method.invoke(wire, arguments);
            require(method.getName());
            return result;
          });
    }

    private void require(String method) {
      if (rank == FAULTY && method.equals(throwing)) {
        throw new IllegalStateException("a defect of " + method);
      }
    }
  }

  @Test
  void aRankThatCannotTellWhetherAPortIsUsableMakesAllTakeTcp() {
    assertThat(choose("unavailableBecause")).containsOnly("tcp");
  }

  @Test
  void aProbeThatThrowsOnOneRankMakesAllTakeTcp() {
    assertThat(choose("lane")).containsOnly("tcp");
  }

  @Test
  void aProbeThatDoesNotCloseChangesNothingOfTheDecision() {
    assertThat(choose("close")).containsOnly("ported");
  }

  /** Rank 0 waits in vain; the lanes between the other ranks have space. */
  @Test
  void aLaneWithoutSpaceKeepsNothingFromOtherPeers() {
    assertThat(
            ThreadRanks.call(
                RANKS,
                LIMIT,
                group -> {
                  try (Wire wire = new InProcessWireProvider().open(group, CONFIG.settled(1))) {
                    Region region = wire.allocate(WireProbe.bytes(RANKS), LIMIT);
                    Wire used = group.rank() == FAULTY ? withoutSpace(wire, 0) : wire;
                    String result =
                        new WireProbe(used, region, rank -> "rank " + rank)
                            .run(Duration.ofSeconds(1), "port_0");
                    group.barrier(LIMIT);
                    return result;
                  }
                }))
        .containsExactly("nothing came from rank 1 over ports port_0 within 1000 ms", "", "");
  }

  private static Wire withoutSpace(Wire wire, int peer) {
    return around(
        Wire.class,
        (_, method, arguments) -> {
          Object result = method.invoke(wire, arguments);
          return result instanceof Lane lane && lane.peer() == peer ? full(lane) : result;
        });
  }

  private static Lane full(Lane lane) {
    return around(
        Lane.class,
        (_, method, arguments) ->
            method.getName().equals("put") || method.getName().equals("add")
                ? Lane.BACK_PRESSURED
                : method.invoke(lane, arguments));
  }

  private static List<String> choose(String throwing) {
    return ThreadRanks.call(
        RANKS,
        LIMIT,
        group ->
            new AutoWire(group, CONFIG, List.of(new Ported(group.rank(), throwing))).choose(false));
  }

  private static <T> T around(Class<T> type, InvocationHandler handler) {
    return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
  }
}
