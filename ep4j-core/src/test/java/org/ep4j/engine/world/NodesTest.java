package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

class NodesTest {
  @Test
  void ranksOfAHostShareItWhateverNodesAreDeclared() {
    Nodes nodes = Nodes.declared(2, new String[] {"a", "a", "a", "a", "b", "b", "b"});
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
    assertThat(Nodes.declared(2, one).ranksPerNode()).isEqualTo(2);
    assertThat(Nodes.found(new String[] {"a", "a", "b"}).ranksPerNode()).isEqualTo(2);
    assertThat(Nodes.found(new String[] {"a", "b", "b"}).ranksPerNode()).isZero();
    assertThat(Nodes.found(new String[] {"a", "a", "b", "c", "c"}).ranksPerNode()).isZero();
  }

  @Test
  void aNodeAHostHasTheHostToItself() {
    Nodes nodes = Nodes.found(new String[] {"a", "b", "b"});
    assertThat(nodes.sharers(0)).isEqualTo(1);
    assertThat(nodes.sharers(2)).isEqualTo(2);
    assertThat(Nodes.one(5).sharers(3)).isEqualTo(5);
  }

  /** The system is the same, the shared memory is not. */
  @Test
  void containersOfAHostThatDoNotShareMemoryAreNodes() {
    String[] hosts = {"boot 26", "boot 26", "boot 27", "boot 27"};
    assertThat(Nodes.found(hosts).count()).isEqualTo(2);
    assertThat(Nodes.declared(2, hosts).count()).isEqualTo(2);
    assertThatThrownBy(() -> Nodes.declared(4, hosts))
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageStartingWith(ErrorCode.NODE_ON_TWO_HOSTS.id())
        .hasMessageContaining("ranks 2 and 0 run on one host in containers")
        .hasMessageContaining("EP4J_SHM_DIR");
  }

  @Test
  void othersKnowTheSameByItsWords() {
    String[] hosts = {"a", "a", "a", "b", "b", "c"};
    for (Nodes nodes : new Nodes[] {Nodes.found(hosts), Nodes.declared(1, hosts), Nodes.one(1)}) {
      Nodes same = Nodes.of(nodes.words());
      assertThat(same).hasToString(nodes.toString());
      for (int rank = 0; rank < nodes.ranks(); rank++) {
        assertThat(same.of(rank)).isEqualTo(nodes.of(rank));
        assertThat(same.sharers(rank)).isEqualTo(nodes.sharers(rank));
      }
    }
  }
}
