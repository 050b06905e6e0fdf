package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.group.Group;
import org.junit.jupiter.api.Test;

class MembersTest {
  @Test
  void aRankOutsideTheGroupDoesNotNameTheOthers() {
    List<Group> groups = Group.inProcess(2);
    Members stopped = new Members(groups.get(1));
    assertThat(stopped.silenceOf(0)).isEqualTo("is silent");
    assertThat(stopped.silenceOf(1)).startsWith("is this rank itself: its process was stopped");
    groups.get(1).fail("stopped for 3 s");
    assertThat(stopped.silenceOf(0))
        .contains("does not wait for this rank (1), which is out of the group")
        .contains("stopped for 3 s");
    assertThat(stopped.silenceOf(1))
        .contains("is this rank itself, which is out")
        .contains("stopped for 3 s");
    groups.get(0).close();
  }
}
