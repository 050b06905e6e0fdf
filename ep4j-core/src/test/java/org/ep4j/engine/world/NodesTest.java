package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

class NodesTest {
  @Test
  void ranksOfAHostShareItWhateverNodesAreDeclared() {
    Nodes nodes = declared(2, new String[] {"a", "a", "a", "a", "b", "b", "b"});
    assertThat(nodes.count()).isEqualTo(4);
    for (int rank = 0; rank < 4; rank++) {
      assertThat(nodes.sharers(rank)).isEqualTo(4);
    }
    for (int rank = 4; rank < 7; rank++) {
      assertThat(nodes.sharers(rank)).isEqualTo(3);
    }
  }

  @Test
  void sizeOfNodesIsKnownUnlessHostsDiffer() {
    assertThat(Nodes.one(5).ranksPerNode()).isEqualTo(5);
    String[] one = {"a", "a", "a", "a", "a"};
    assertThat(declared(2, one).ranksPerNode()).isEqualTo(2);
    assertThat(found(new String[] {"a", "a", "b"}).ranksPerNode()).isEqualTo(2);
    assertThat(found(new String[] {"a", "b", "b"}).ranksPerNode()).isZero();
    assertThat(found(new String[] {"a", "a", "b", "c", "c"}).ranksPerNode()).isZero();
  }

  @Test
  void aNodeAHostHasTheHostToItself() {
    Nodes nodes = found(new String[] {"a", "b", "b"});
    assertThat(nodes.sharers(0)).isEqualTo(1);
    assertThat(nodes.sharers(2)).isEqualTo(2);
    assertThat(Nodes.one(5).sharers(3)).isEqualTo(5);
  }

  /** The system is the same, the shared memory is not. */
  @Test
  void containersOfAHostThatDoNotShareMemoryAreNodes() {
    String[] hosts = {"boot 26", "boot 26", "boot 27", "boot 27"};
    assertThat(found(hosts).count()).isEqualTo(2);
    assertThat(declared(2, hosts).count()).isEqualTo(2);
    assertThatThrownBy(() -> declared(4, hosts))
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageStartingWith(ErrorCode.NODE_ON_TWO_HOSTS.id())
        .hasMessageContaining("ranks 2 and 0 run on one host in containers")
        .hasMessageContaining("EP4J_SHM_DIR");
  }

  @Test
  void othersKnowTheSameByItsWords() {
    String[] hosts = {"a", "a", "a", "b", "b", "c"};
    for (Nodes nodes : new Nodes[] {found(hosts), declared(1, hosts), Nodes.one(1)}) {
      Nodes same = Nodes.of(nodes.words());
      assertThat(same).hasToString(nodes.toString());
      for (int rank = 0; rank < nodes.ranks(); rank++) {
        assertThat(same.of(rank)).isEqualTo(nodes.of(rank));
        assertThat(same.sharers(rank)).isEqualTo(nodes.sharers(rank));
      }
    }
  }

  /** Two domains of two hosts each. */
  @Test
  void hostsOfADomainAreANode() {
    String[] hosts = {"a", "a", "b", "b", "c", "d", "d"};
    String[] domains = {"x", "x", "x", "x", "y", "y", "y"};
    Nodes nodes = Nodes.found(hosts, domains);
    assertThat(nodes).hasToString("[0, 4, 7]");
    assertThat(nodes.together(1, 2)).isTrue();
    assertThat(nodes.shareHost(1, 2)).isFalse();
    assertThat(nodes.shareHost(2, 3)).isTrue();
    assertThat(nodes.firstOnHost(3)).isEqualTo(2);
    assertThat(nodes.endOnHost(2)).isEqualTo(4);
    assertThat(nodes.firstOnHost(6)).isEqualTo(5);
    assertThat(nodes.endOnHost(6)).isEqualTo(7);
    assertThat(nodes.sharers(0)).isEqualTo(2);
    for (int rank = 0; rank < 7; rank++) {
      assertThat(nodes.spansHosts(rank)).isTrue();
      assertThat(Nodes.of(nodes.words()).spansHosts(rank)).isTrue();
      assertThat(found(hosts).spansHosts(rank)).isFalse();
      assertThat(declared(1, hosts).spansHosts(rank)).isFalse();
    }
  }

  /** A host of another domain between them keeps them apart, as it did before. */
  @Test
  void hostsOfADomainThatAreNotNeighboursAreNodes() {
    assertThat(Nodes.found(new String[] {"a", "b", "c"}, new String[] {"x", "b", "x"}))
        .hasToString("[0, 1, 2, 3]");
  }

  @Test
  void declaredNodesMaySpanHostsOfOneDomain() {
    String[] hosts = {"a", "a", "b", "b", "c", "c"};
    String[] domains = {"x", "x", "x", "x", "c", "c"};
    assertThat(Nodes.declared(2, hosts, domains)).hasToString("[0, 2, 4, 6]");
    Nodes nodes = Nodes.declared(4, hosts, domains);
    assertThat(nodes).hasToString("[0, 4, 6]");
    assertThat(nodes.spansHosts(1)).isTrue();
    assertThat(nodes.spansHosts(4)).isFalse();
    assertThatThrownBy(() -> Nodes.declared(6, hosts, domains))
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageStartingWith(ErrorCode.NODE_ON_TWO_HOSTS.id())
        .hasMessageContaining("ranks 4 and 0");
  }

  @Test
  void ranksOfAHostAreConsecutiveInANode() {
    String[] hosts = {"a", "b", "a"};
    String[] domains = {"x", "x", "x"};
    assertThat(Nodes.declared(1, hosts, domains)).hasToString("[0, 1, 2, 3]");
    for (ThrowingCallable opening :
        new ThrowingCallable[] {
          () -> Nodes.found(hosts, domains), () -> Nodes.declared(3, hosts, domains)
        }) {
      assertThatThrownBy(opening)
          .isInstanceOf(ConfigurationMismatchException.class)
          .hasMessageStartingWith(ErrorCode.HOST_RANKS_NOT_CONSECUTIVE.id())
          .hasMessageContaining("ranks 0 and 2 run on one host, but rank 1 between them");
    }
  }

  private static Nodes found(String[] hosts) {
    return Nodes.found(hosts, hosts);
  }

  private static Nodes declared(int ranksPerNode, String[] hosts) {
    return Nodes.declared(ranksPerNode, hosts, hosts);
  }
}
