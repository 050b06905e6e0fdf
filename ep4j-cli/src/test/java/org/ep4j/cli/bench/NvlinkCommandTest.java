package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.probe.ProbeLoad;
import org.ep4j.cuda.probe.ProbeSpeed;
import org.junit.jupiter.api.Test;

class NvlinkCommandTest {
  @Test
  void allGpusPushToOneAnother() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
    CommandLineRun run =
        CommandLineRun.of(
            "bench",
            "nvlink",
            "--sms",
            "4,16",
            "--row-bytes",
            "512,14336,40000",
            "--rows",
            "100",
            "--iterations",
            "3");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("40000").contains("verified");
  }

  @Test
  void speedsCountWhatAGpuReceives() {
    ProbeSpeed with = new ProbeSpeed(new ProbeLoad(1000 * 16, 1000, true), 4, 8, new double[] {50});
    ProbeSpeed without =
        new ProbeSpeed(new ProbeLoad(1000 * 16, 1000, false), 4, 8, new double[] {50});

    assertThat(with.logicalGbps()).isCloseTo(1280, within(0.01));
    assertThat(with.remoteGbps()).isCloseTo(960, within(0.01));
    assertThat(without.logicalGbps()).isCloseTo(960, within(0.01));
  }
}
