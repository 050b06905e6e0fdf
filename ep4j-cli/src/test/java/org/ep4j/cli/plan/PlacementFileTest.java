package org.ep4j.cli.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PlacementFileTest {
  private static final ReplicatedPlacement SMALL =
      ReplicatedPlacement.of(
          ExpertPlacement.table(new int[] {0, 1, 1, 0}, 2), new int[] {0, 1, 0, 2}, 3);

  @TempDir Path scratch;

  @Test
  void placementsSurviveTheFile() throws IOException {
    Path file = scratch.resolve("p.json");
    for (ReplicatedPlacement placement :
        new ReplicatedPlacement[] {
          SMALL, ExpertPlacement.balance(new long[] {9, 7, 5, 3, 1}, 3, 2), blocks(4096, 1024)
        }) {
      Files.writeString(file, PlacementFile.text(placement));
      assertThat(PlacementFile.read(file)).isEqualTo(placement);
    }
  }

  private static ReplicatedPlacement blocks(int experts, int ranks) {
    return ReplicatedPlacement.of(ExpertPlacement.blocks(experts, ranks));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "\"version\" : 1 | \"version\" : 2 | version = 2; it must be 1",
        "\"version\" : 1, | '' | version = 0; it must be 1",
        "\"ranks\" : 2 | \"ranks\" : 1 | rankOfExpert[1] = 1; it must be 0..0",
        "\"ranks\" : 2 | \"ranks\" : 0 | ranks = 0; it must be >= 1",
        "\"ranks\" : 2 | \"ranks\" : 2000000000 | ranks = 2000000000; it must be at most 65536",
        "\"ranks\" : 2 | \"ranks\" : 20000000000 | out of range",
        "\"ranks\" : 2 | \"ranks\" : 2.5 | ranks = value number float",
        "\"experts\" : 3 | \"experts\" : 4 | replicas of expert 3 = 0",
        "\"experts\" : 3 | \"experts\" : 5 | experts = 5; it must be 1..4",
        "\"experts\" : 3 | \"experts\" : 2 | logicalOf[3] = 2; it must be 0..1",
        "\"experts\" : 3 | \"expert\" : 3 | a field = 'expert'",
        "[ 0, 1, 0, 2 ] | [ 0, 1, 2 ] | logicalOf.length = 3; it must be 4",
        "[ 0, 1, 0, 2 ] | [ 0, 1, 0, \"2\" ] | logical_of[3] = value string",
        "[ 0, 1, 0, 2 ] | 7 | logical_of = value number int",
        "[ 0, 1, 1, 0 ] | [ ] | experts = 0",
        "\"rank_of\" : [ 0, 1, 1, 0 ], | '' | rank_of = missing",
        "\"ranks\" | \"experts\" | Duplicate field 'experts'"
      })
  void nonsenseIsRefusedByName(String text, String wrong, String message) {
    String placement = PlacementFile.text(SMALL);
    assertThat(placement).contains(text);

    assertThatThrownBy(() -> PlacementFile.parse("p.json", placement.replace(text, wrong)))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PLACEMENT_INVALID.id())
        .hasMessageContaining("p.json")
        .hasMessageContaining(message);
  }

  @Test
  void textThatIsNoPlacementIsRefused() {
    String cut = PlacementFile.text(SMALL).substring(0, 60);
    for (String text : new String[] {"", "[]", "{}", "null", cut, "\u0000", "{}{}"}) {
      assertThatThrownBy(() -> PlacementFile.parse("p.json", text))
          .as(text)
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith(ErrorCode.PLACEMENT_INVALID.id());
    }
    assertThatThrownBy(() -> PlacementFile.read(scratch)).hasMessageContaining("it must be a file");
  }
}
