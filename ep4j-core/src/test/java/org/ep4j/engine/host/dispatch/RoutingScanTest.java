package org.ep4j.engine.host.dispatch;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.world.Nodes;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;

class RoutingScanTest {
  private static final int FEW = Long.SIZE;
  private static final int EXPERTS = 3 * FEW;
  private static final int TOKENS = 500;
  private static final int TOP_K = 9;

  @Test
  void manyRanksAreHandledLikeFew() {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.println("RoutingScanTest: seed " + seed);
    Random random = new Random(seed);
    int[] rankOf = random.ints(EXPERTS, 0, FEW).toArray();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment ids = arena.allocate(TOKENS * TOP_K * 8L, 8);
      for (int t = 0; t < TOKENS; t++) {
        int first = random.nextInt(EXPERTS);
        for (int k = 0; k < TOP_K; k++) {
          long id = random.nextInt(5) == 0 ? -1 : (first + 7L * k) % EXPERTS;
          ids.setAtIndex(ValueLayout.JAVA_LONG, (long) t * TOP_K + k, id);
        }
      }
      Routed few = Routed.along(rankOf, FEW, ids);
      Routed many = Routed.along(rankOf, FEW + 1, ids);
      assertThat(few.handle.start[TOKENS]).isGreaterThan(TOKENS);
      assertThat(many.handle.start).isEqualTo(few.handle.start);
      assertThat(many.handle.routes).isEqualTo(few.handle.routes);
      assertThat(many.routes.perPosition).isEqualTo(few.routes.perPosition);
      assertThat(Arrays.copyOf(many.routes.perRank, FEW)).isEqualTo(few.routes.perRank);
    }
  }

  private record Routed(RoutingScan routes, HostHandle handle) {
    static Routed along(int[] rankOf, int ranks, MemorySegment ids) {
      ExpertPlacement placement = ExpertPlacement.table(rankOf, ranks);
      RoutingScan routes =
          new RoutingScan(new ExpertTable(placement), Nodes.one(placement.ranks()), TOP_K);
      HostHandle handle = HostHandle.pool(placement.localExperts(0), ranks).take();
      handle.tokens = TOKENS;
      handle.topK = TOP_K;
      routes.flat(handle, ids.address(), true);
      return new Routed(routes, handle);
    }
  }
}
