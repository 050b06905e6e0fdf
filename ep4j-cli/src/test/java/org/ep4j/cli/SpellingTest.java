package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SpellingTest {
  private static final List<String> COMMANDS =
      List.of("bench", "run", "verify", "launch", "doctor", "cache", "errors", "version");

  @ParameterizedTest
  @CsvSource({
    "bnech, bench",
    "verfy, verify",
    "lanuch, launch",
    "BENCH, bench",
    "doktor, doctor",
    "run1, run",
    "frobnicate, ''",
    "xyz, ''"
  })
  void onlyNamesThatDifferByASlipAreSuggested(String given, String meant) {
    assertThat(Spelling.nearest(given, COMMANDS).orElse("")).isEqualTo(meant);
  }
}
