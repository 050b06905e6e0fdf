package org.ep4j.nccl.gin;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GinPlanTest {
  private static GinPlan plan(int lanes, String contexts, String communicators) {
    return GinPlan.of(
        Map.of(GinPlan.CONTEXTS, contexts, GinPlan.COMMUNICATORS, communicators), lanes);
  }

  @ParameterizedTest
  @CsvSource(
      useHeadersInDisplayName = true,
      textBlock =
          """
          LANES, CONTEXTS, COMMS, requested, had, communicators
          8,     '',       '',    8,         4,   2
          8,     '',       '',    8,         8,   1
          10,    '',       '',    10,        4,   3
          8,     '',       '',    8,         3,   3
          3,     '',       '',    3,         4,   1
          100,   '',       '',    32,        4,   8
          100,   '',       '',    32,        32,  1
          100,   64,       '',    64,        4,   16
          8,     64,       '',    8,         4,   2
          8,     4,        '',    4,         4,   1
          8,     '',       1,     8,         4,   1
          8,     '',       2,     4,         4,   2
          8,     '',       3,     3,         4,   3
          8,     4,        2,     2,         4,   2
          2,     '',       5,     1,         4,   2
          """)
  void lanesAndContextsOfTheFirstDecideTheCommunicators(
      int lanes, String contexts, String comms, int requested, int had, int communicators) {
    GinPlan plan = plan(lanes, contexts, comms);
    assertThat(plan.inEach()).isEqualTo(requested);
    assertThat(plan.communicators(had)).isEqualTo(communicators);
  }

  @Test
  void onlyPlansWithoutVariablesAreOpen() {
    assertThat(plan(8, "", " ").open()).isTrue();
    assertThat(plan(8, "8", "").open()).isFalse();
    assertThat(plan(8, "", "2").open()).isFalse();
  }

  @ParameterizedTest
  @CsvSource({
    "EP4J_NCCL_GIN_CONTEXTS, many, 1..999",
    "EP4J_NCCL_GIN_CONTEXTS, 0, 1..999",
    "EP4J_NCCL_GIN_CONTEXTS, 1000, 1..999",
    "EP4J_NCCL_GIN_COMMS, -1, 1..32",
    "EP4J_NCCL_GIN_COMMS, 0, 1..32",
    "EP4J_NCCL_GIN_COMMS, 33, 1..32",
    "EP4J_NCCL_GIN_COMMS, 2.5, 1..32",
  })
  void badValuesAreRefusedWithTheVariableAndItsLimits(String variable, String set, String limits) {
    assertThatThrownBy(() -> GinPlan.of(Map.of(variable, set), 100))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.NCCL_SETTING.id())
        .hasMessageContaining(variable)
        .hasMessageContaining("'" + set + "'")
        .hasMessageContaining(limits);
  }

  @Test
  void moreCommunicatorsThanPossibleAreRefusedWithTheLargestNumberOfContexts() {
    GinPlan plan = plan(1024, "129", "");
    assertThat(plan.communicators(5)).isEqualTo(26);
    assertThatThrownBy(() -> plan.communicators(4))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.NCCL_SETTING.id())
        .hasMessageContaining("EP4J_NCCL_GIN_CONTEXTS")
        .hasMessageContaining("at most 128");
  }
}
