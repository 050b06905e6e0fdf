package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;

import org.ep4j.cli.text.Table;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What commands print fits into a terminal window. */
class TableWidthTest {
  private static final String SMALL =
      " --threads --ranks 2 --device host --tokens 12 --hidden 256 --topk 3 --experts 10"
          + " --iterations 3 --warmup 1 --buffers 1";

  @ParameterizedTest
  @ValueSource(
      strings = {
        "version",
        "errors",
        "errors EP4J-3050",
        "errors EP4J-4002",
        "plan --machine h100-cx7 --ranks 64",
        "plan --machine gb200-nvl72 --ranks 64 --kind ll --routing hot",
        "plan --machine h100-cx7 --ranks 32 --simulate --late 3:20",
        "plan --machine h200 --routing hot --balance",
        "bench all" + SMALL,
        "bench ht --nodes 2 --wire inproc" + SMALL,
      })
  void linesFit(String command) {
    CommandLineRun run = CommandLineRun.of(command.split(" ", -1));

    assertThat(run.code()).as("%s", run).isEqualTo(ExitCodes.OK);
    assertThat(run.out().lines()).isNotEmpty().allMatch(line -> line.length() <= Table.WIDTH);
  }
}
