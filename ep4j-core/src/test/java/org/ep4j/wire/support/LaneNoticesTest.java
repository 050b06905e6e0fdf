package org.ep4j.wire.support;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.group.Group;
import org.junit.jupiter.api.Test;

/** Both ends are on threads of this JVM: a notice has arrived when the call returns. */
class LaneNoticesTest {
  private static final long TOPIC = 3;

  private final List<Group> groups = Group.inProcess(2);
  private final LaneNotices here = new LaneNotices(groups.get(0), TOPIC);
  private final LaneNotices there = new LaneNotices(groups.get(1), TOPIC);

  @Test
  void aNoticeNamesItsSenderAndItsLane() {
    here.send(1, 5, "cut");
    assertThat(there.count()).isEqualTo(1);
    assertThat(there.text(0, 5)).isEqualTo("cut");
    assertThat(there.text(0, 4)).isNull();
    assertThat(there.text(1, 5)).isNull();
    assertThat(here.count()).isZero();
  }

  @Test
  void aRankDoesNotReturnANotice() {
    here.send(1, 5, "cut");
    there.send(0, 5, "the peer has lost it");
    assertThat(here.count()).isZero();
    there.send(0, 4, "another lane");
    assertThat(here.text(1, 4)).isEqualTo("another lane");
  }

  @Test
  void aTextThatIsTooLongEndsWithAWholeCharacter() {
    // Three bytes each; 1020 bytes are a multiple of three.
    here.send(1, 0, "x" + "\u20ac".repeat(400));
    assertThat(there.text(0, 0)).isEqualTo("x" + "\u20ac".repeat(339));
    here.send(1, 1, "\u20ac".repeat(400));
    assertThat(there.text(0, 1)).isEqualTo("\u20ac".repeat(340));
  }

  @Test
  void aClosedWireGetsNoNotices() {
    there.close();
    here.send(1, 5, "cut");
    assertThat(there.count()).isZero();
  }

  @Test
  void wiresOfOneGroupDoNotGetTheNoticesOfEachOther() {
    try (LaneNotices other = new LaneNotices(groups.get(1), TOPIC + 1)) {
      here.send(1, 5, "cut");
      assertThat(other.count()).isZero();
    }
  }
}
