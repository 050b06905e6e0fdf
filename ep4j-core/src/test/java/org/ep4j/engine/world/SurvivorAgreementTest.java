package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class SurvivorAgreementTest {
  private static final int[] RANKS = {0, 1, 2, 3};
  private static final String[] HOSTS = {"a", "a", "b", "b"};

  private static List<String> differences(Nodes nodes, String... hosts) {
    List<String> differences = new ArrayList<>();
    SurvivorAgreement.compareHosts(RANKS, hosts, nodes, differences);
    return differences;
  }

  @Test
  void aRankReturnsOnItsHost() {
    Nodes nodes = Nodes.found(HOSTS, HOSTS);
    assertThat(differences(nodes, HOSTS)).isEmpty();
    assertThat(differences(nodes, "a", "a", "b", "c"))
        .singleElement()
        .asString()
        .contains("ranks 2 and 3 share memory", "on the host of its node");
  }

  /** Ranks of a node on other hosts share no host memory with it. */
  @Test
  void aRankReturnsToANodeOfSeveralHosts() {
    Nodes nodes = Nodes.found(HOSTS, new String[] {"x", "x", "x", "x"});
    assertThat(differences(nodes, HOSTS)).isEmpty();
    assertThat(differences(nodes, "a", "b", "b", "b"))
        .singleElement()
        .asString()
        .contains("ranks 0 and 1 share memory");
  }
}
