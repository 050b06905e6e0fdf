package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PutCommandTest {
  @TempDir Path scratch;

  @Test
  void putsAreVerifiedAndTimed() throws Exception {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
    CommandLineRun run =
        CliProcess.run(
            scratch,
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
