package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;

class RailsTest {
  /** Memory that is laid out for all ranks suffices for the remaining ones. */
  @RepeatedTest(20)
  void withoutWholeNodesOthersKeepTheirRails(RepetitionInfo repetition) {
    long seed = Long.getLong("ep4j.seed", 1) + repetition.getCurrentRepetition();
    SplittableRandom random = new SplittableRandom(seed);
    List<String> hosts = new ArrayList<>();
    int count = random.nextInt(2, 6);
    boolean[] lost = new boolean[count];
    for (int node = 0; node < count; node++) {
      lost[node] = random.nextInt(3) == 0;
      hosts.addAll(Collections.nCopies(random.nextInt(1, 5), "host" + node));
    }
    Nodes nodes = Nodes.found(hosts.toArray(String[]::new), hosts.toArray(String[]::new));
    boolean[] gone = new boolean[nodes.ranks()];
    for (int rank = 0; rank < gone.length; rank++) {
      gone[rank] = lost[nodes.of(rank)];
    }
    Rails all = new Rails(nodes, new boolean[gone.length]);
    Rails left = new Rails(nodes, gone);
    for (int rank = 0; rank < gone.length; rank++) {
      if (gone[rank]) {
        continue;
      }
      for (int node : all.nodesBeside(rank)) {
        assertThat(left.rail(rank, node))
            .as("rail of rank %d to node %d, seed %d", rank, node, seed)
            .isEqualTo(lost[node] ? Rails.NONE : all.rail(rank, node));
      }
      assertThat(left.partners(rank))
          .as("partners of rank %d, seed %d", rank, seed)
          .isEqualTo(Arrays.stream(all.partners(rank)).filter(r -> !gone[r]).toArray());
    }
  }
}
