package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

class LibraryLanesTest {
  private static final WireOptions FIVE = WireOptions.builder().lanes(5).build();

  @Test
  void theProgramWinsOverTheVariableAndTheVariableOverTheDefault() {
    Map<String, String> set = Map.of("EP4J_WIRE_LANES", "12");
    assertThat(LibraryLanes.of(FIVE, set)).isEqualTo(new LibraryLanes(5, true));
    assertThat(LibraryLanes.of(WireOptions.DEFAULT, set)).isEqualTo(new LibraryLanes(12, true));
    for (String open : List.of("", "0", " ")) {
      assertThat(LibraryLanes.of(WireOptions.DEFAULT, Map.of("EP4J_WIRE_LANES", open)))
          .isEqualTo(new LibraryLanes(8, false));
    }
    assertThatThrownBy(
            () -> LibraryLanes.of(WireOptions.DEFAULT, Map.of("EP4J_WIRE_LANES", "1025")))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.WIRE_VARIABLE.id());
  }

  @Test
  void differentNumbersAreReportedOnAllRanks() {
    ThreadRanks.run(
        3,
        group ->
            assertThatThrownBy(
                    () ->
                        LibraryLanes.agreed(
                            group,
                            new LibraryLanes(group.rank() == 2 ? 16 : 8, group.rank() == 2),
                            Duration.ofSeconds(30)))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageStartingWith(ErrorCode.CONFIGURATION_MISMATCH.id())
                .hasMessageContaining("8 lanes on rank 0 and 16 on rank 2")
                .hasMessageContaining("EP4J_WIRE_LANES"));
  }

  /** Otherwise only the rank with the variable refuses the number, and the others wait for it. */
  @Test
  void aNumberThatOneRankSetsIsADemandOfAll() {
    ThreadRanks.run(
        2,
        group ->
            assertThat(
                    LibraryLanes.agreed(
                        group, new LibraryLanes(8, group.rank() == 1), Duration.ofSeconds(30)))
                .isEqualTo(new LibraryLanes(8, true)));
  }
}
