package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;

class RenamedOptionsTest {
  private final StringWriter err = new StringWriter();

  @Test
  void oldSpellingsAreReplacedWithAWarning() {
    assertThat(replace("bench", "proxy", "--together=8"))
        .containsExactly("bench", "proxy", "--batch=8");
    assertThat(replace("bench", "ht", "--beside-nccl"))
        .containsExactly("bench", "ht", "--with-nccl-traffic");
    assertThat(err.toString()).contains("--together is renamed: use --batch");
  }

  @Test
  void argumentsOfLaunchedProgramsAreKept() {
    assertThat(replace("launch", "-n", "2", "program", "--together"))
        .containsExactly("launch", "-n", "2", "program", "--together");
    assertThat(err.toString()).isEmpty();
  }

  private String[] replace(String... arguments) {
    return RenamedOptions.replace(arguments, new PrintWriter(err, true));
  }
}
