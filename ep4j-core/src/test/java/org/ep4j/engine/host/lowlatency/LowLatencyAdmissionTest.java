package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.heads;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.lowlatency.LowLatencyMaskTest.combine;
import static org.ep4j.engine.host.lowlatency.LowLatencyMaskTest.dispatch;
import static org.ep4j.engine.host.lowlatency.LowLatencyMaskTest.onRanks;
import static org.ep4j.engine.host.lowlatency.LowLatencyMaskTest.sum;

import java.time.Duration;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.group.Group;
import org.junit.jupiter.api.Test;

/** Masked ranks that are admitted at an inconvenient time. */
class LowLatencyAdmissionTest {
  private static final Duration LONG = Duration.ofSeconds(60);

  /** Masked when its rows arrived and admitted before their combine: no rank has the rows. */
  private static void rank1HasNoRowsOfRank0(
      ExpertBuffer buffer, Group group, LowLatencyMaskTest.Body combineOn0) throws Exception {
    LowLatencyDispatch d = dispatch(buffer, true);
    group.barrier(LONG);
    if (buffer.rank() == 1) {
      buffer.updateMask(0, true);
    }
    d.hook().receive();
    group.barrier(LONG);
    buffer.cleanMask();
    group.barrier(LONG);
    LowLatencyCombine c = combine(buffer, d, true);
    if (buffer.rank() == 1) {
      c.hook().receive();
      assertThat(heads(c.x())).containsExactly(sum(1, 0, 1));
      group.barrier(LONG);
    } else {
      group.barrier(LONG);
      combineOn0.run(buffer, group);
      c.hook().receive();
      assertThat(heads(c.x())).containsExactly(sum(0, 0));
    }
    group.barrier(LONG);
  }

  @Test
  void aRankWithNoRowsToReturnIsMasked() {
    onRanks(
        2,
        true,
        LONG,
        (buffer, group) -> {
          rank1HasNoRowsOfRank0(buffer, group, (b, g) -> assertThat(b.isMasked(1)).isFalse());
          assertThat(buffer.isMasked(1)).isEqualTo(buffer.rank() == 0);
        });
  }

  @Test
  void withoutMaskingARankWithNoRowsToReturnIsNamed() {
    assertThatThrownBy(
            () ->
                onRanks(
                    2,
                    false,
                    LONG,
                    (buffer, group) -> rank1HasNoRowsOfRank0(buffer, group, (b, g) -> {})))
        .hasMessageContaining("rank 0 failed")
        .hasMessageContaining("rows (the peer had masked this rank)");
  }

  @Test
  void aRankThatIsNotAdmittedTriesAgainAndCatchesUp() {
    onRanks(
        2,
        true,
        LONG,
        (buffer, group) -> {
          LowLatencyDispatch open = dispatch(buffer, true);
          if (buffer.rank() == 0) {
            open.hook().receive();
            buffer.updateMask(1, true);
            for (int round = 0; round < 3; round++) {
              dispatch(buffer, false);
            }
            buffer.updateMask(1, false);
            group.barrier(LONG);
          } else {
            group.barrier(LONG);
            assertThatThrownBy(buffer::cleanMask)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("call its hook");
            open.hook().receive();
            buffer.cleanMask();
          }
          group.barrier(LONG);
          LowLatencyDispatch d = dispatch(buffer, false);
          assertThat(ints(d.counts())).containsExactly(2);
        });
  }
}
