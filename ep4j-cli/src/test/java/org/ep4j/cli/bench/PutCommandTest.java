package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.api.Test;

class PutCommandTest {
  @Test
  void putsAreVerifiedAndTimed() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
    CommandLineRun run =
        CommandLineRun.of(
            "bench",
            "put",
            "--threads",
            "--sizes",
            "16,4096",
            "--warps",
            "8",
            "--backend",
            "direct");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("verified");
  }
}
