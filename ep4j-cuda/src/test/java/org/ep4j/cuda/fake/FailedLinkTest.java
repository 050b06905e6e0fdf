package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.ExpertBuffer;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.put.DevicePut;
import org.ep4j.cuda.put.PutConfig;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.WireEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** One of two ranks cannot connect to the other, which learns it without waiting. */
@OnFakeDriver
@Timeout(120)
class FailedLinkTest {
  /** A rank that waited for the other until its timeout would not end in the time of the test. */
  private static final Duration LONG = Duration.ofMinutes(30);

  @ParameterizedTest
  @CsvSource({"tcp, 257", "auto, many"})
  void aBadVariableOfOneRankIsToldToTheOther(String wire, String lanes) {
    try (RankProcesses ranks =
        new ProcessWorld()
            .start(
                2,
                Opening.class,
                List.of(wire),
                rank -> rank == 0 ? Map.of() : Map.of(WireEnvironment.LANES, lanes))) {
      ranks.awaitSuccess(Duration.ofMinutes(2));
    }
  }

  @Test
  void memoryForPutsThatOneRankCannotReachIsToldToTheOther() {
    FakeDriver.failCall("cuCtxEnablePeerAccess", 1, 719);
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(
                    () ->
                        DevicePut.open(
                            group,
                            new PutConfig("direct", new PutShape(256, 1, 1), 0, "auto", LONG)))
                .hasMessageContaining("cuCtxEnablePeerAccess"));
    assertThat(FakeDriver.live()).isEmpty();
  }

  /** Opens a buffer of two nodes in vain. */
  public static final class Opening implements RankJob {
    /** Used by reflection. */
    public Opening() {}

    @Override
    public void run(Group group, List<String> arguments) {
      assertThatThrownBy(
              () ->
                  ExpertBuffer.open(
                      group,
                      Batch.config(OneRank.TOKENS)
                          .timeout(LONG)
                          .ranksPerNode(1)
                          .wire(arguments.getFirst())
                          .build()))
          .hasMessageContaining(WireEnvironment.LANES);
    }
  }
}
