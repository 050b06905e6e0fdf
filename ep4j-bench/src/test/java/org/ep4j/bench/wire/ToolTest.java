package org.ep4j.bench.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ToolTest {
  /** More than a pipe holds. */
  private static final String MUCH = "head -c 200000 /dev/zero; ";

  @TempDir private Path scratch;

  @Test
  void serverAndClientMayWriteMoreThanAPipeHolds() {
    Path listening = scratch.resolve("listening");
    Tool shell = new Tool("sh", Duration.ofSeconds(20));
    ThreadRanks.run(
        2,
        group -> {
          double found =
              shell.measure(
                  group,
                  new CommandAgreement(group),
                  _ -> List.of("-c", MUCH + "touch " + listening + "; exec sleep 1000"),
                  _ -> List.of("-c", MUCH + "test -e " + listening + " && echo 42"),
                  output -> output.endsWith("42\n") ? 42 : 0);
          assertThat(found).isEqualTo(group.rank() == 0 ? 42 : 0);
        });
  }
}
