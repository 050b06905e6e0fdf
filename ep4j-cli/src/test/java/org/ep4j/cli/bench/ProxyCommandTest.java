package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.ep4j.bench.proxy.RoundTimes;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.probe.ProxyProbe;
import org.junit.jupiter.api.Test;

class ProxyCommandTest {
  @Test
  void commandsArePostedAndTimed() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
    CommandLineRun run =
        CommandLineRun.of(
            "bench",
            "proxy",
            "--threads",
            "1,2",
            "--batch",
            "32,5",
            "--commands",
            "100000",
            "--rounds",
            "200");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("verified");
  }

  /** Clocks with an offset of 5000 ns; a read takes 600 ns, of which the response takes 400. */
  @Test
  void aTimeIsAnUpperBound() {
    int rounds = 100;
    long[] words = new long[rounds * ProxyProbe.WORDS];
    long[] posts = new long[rounds];
    for (int i = 0; i < rounds; i++) {
      long gpu = 10_000L * i;
      int at = i * ProxyProbe.WORDS;
      words[at] = gpu + 200 + 5000;
      words[at + 1] = gpu;
      words[at + 2] = gpu + 600;
      words[at + 3] = gpu + 1000;
      words[at + 4] = gpu + 1500;
      words[at + 5] = gpu + 4000;
      posts[i] = gpu + 1500 + 1200 + 5000;
    }
    RoundTimes times = RoundTimes.of(words, posts, 10);

    assertThat(times.fromStore().median()).isCloseTo(1.2 + 0.4, within(1e-9));
    assertThat(times.fromPush().median()).isCloseTo(1.7 + 0.4, within(1e-9));
    assertThat(times.roundTrip().median()).isCloseTo(2.5, within(1e-9));
    assertThat(times.look().median()).isCloseTo(0.6, within(1e-9));
    assertThat(times.fromStore().micros()).hasSize(rounds - 10);
  }
}
