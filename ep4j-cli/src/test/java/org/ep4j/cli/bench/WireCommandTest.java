package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.bench.wire.Iperf;
import org.ep4j.bench.wire.Perftest;
import org.ep4j.bench.wire.UcxPerftest;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WireCommandTest {
  @TempDir Path scratch;

  private static CommandLineRun bench(String arguments) {
    return CommandLineRun.of(("bench wire " + arguments).split(" ", -1));
  }

  @Test
  void measuresAndVerifiesEachWire() throws Exception {
    Path file = scratch.resolve("wire.json");
    CommandLineRun run =
        bench("--threads --lanes 1 --sizes 8,5000,40000 --millis 5 --json " + file);

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("Wire inproc  1 lane\n").contains("Wire tcp  1 lane, 1 conn");
    assertThat(run.out()).contains("verified").contains("4.9 KiB");
    assertThat(Files.readString(file))
        .contains("\"mputs_per_s\"")
        .contains("\"iperf3_1_connections_gbps\"");
  }

  @Test
  void encryptedTcpIsMeasuredToo() {
    CommandLineRun run =
        bench("--threads --wire tcp --encrypted --lanes 1 --sizes 100,100000 --millis 5");

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("Wire tcp").contains("verified");
  }

  @Test
  void ucxIsComparedWithItsTool() {
    assumeTrue(Files.exists(Path.of("/usr/bin/ucx_perftest")), "no ucx_perftest, so maybe no UCX");
    CommandLineRun run = bench("--threads --wire ucx --lanes 1 --sizes 8,1048576 --millis 5");

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("Wire ucx  1 lane").contains("ucp_put_bw").contains("verified");
  }

  @Test
  void theReportOfUcxPerftestIsRead() {
    String report =
        """
        [1795.1] [host:1] warning, one two
        iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
        2000,0.162,78.894,1309.053,0.10,2156.40,12675,764
        """;
    assertThat(UcxPerftest.value(report, "50.0_percentile_lat")).isCloseTo(0.162, within(1e-9));
    assertThat(UcxPerftest.value(report, "overall_bw")).isCloseTo(2156.40, within(1e-9));
    assertThat(UcxPerftest.value("unable to connect", "overall_bw")).isZero();
  }

  @Test
  void anUnknownWireIsNamed() {
    CommandLineRun run = bench("--threads --wire semaphore --sizes 8");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err())
        .contains("EP4J-1906: --wire = semaphore; it must be one of auto, ")
        .contains("tcp");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "wire --threads --wire shm --sizes 8 --millis 1",
        "ht --threads --device host --ranks 2 --nodes 2 --wire shm --tokens 4 --hidden 128"
      })
  void aWireThatCannotConnectTheRanksIsUnavailable(String arguments) {
    CommandLineRun run = CommandLineRun.of(("bench " + arguments).split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("EP4J-5002: ", "wire 'shm' cannot connect these ranks");
  }

  @Test
  void soIsOneThatCannotConnectProcesses() throws Exception {
    CommandLineRun run =
        CliProcess.run(
            scratch, "bench", "wire", "--wire", "inproc", "--sizes", "8", "--millis", "1");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("EP4J-5002: ");
  }

  @Test
  void badSizesAreUsageErrors() {
    assertThat(bench("--sizes 0").code()).isEqualTo(ExitCodes.USAGE);
    assertThat(bench("--lanes 0").code()).isEqualTo(ExitCodes.USAGE);
    assertThat(bench("--json /no/such/dir/x.json").code()).isEqualTo(ExitCodes.USAGE);
  }

  /** The unknown wire keeps a command that overlooks the size from filling the memory. */
  @Test
  void aSizeThatWouldFillTheMemoryIsRefused() {
    CommandLineRun run = bench("--threads --wire semaphore --sizes 8,1073741825");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err())
        .contains("EP4J-1900: --sizes = 1073741825; it must be 1..1073741824 (1 GiB)");
  }

  @Test
  void iperfsReportIsRead() {
    String report =
        """
        {"end": {"sum_sent": {"bits_per_second": 1e9},
          "sum_received": {"start": 0, "bytes": 5, "bits_per_second": 2.4e+10, "sender": true}}}
        """;
    assertThat(Iperf.gbps(report)).isCloseTo(3.0, within(1e-9));
    assertThat(Iperf.gbps("{\"error\": \"unable to connect\"}")).isZero();
  }

  @Test
  void theReportsOfPerftestAreRead() {
    String bandwidth =
        """
         #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
         1048576    164              0.00               81.84  \t\t   0.000082
        ---------------------------------------------------------------------------------------
        """;
    String latency =
        """
         #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]
         8       200          2579.38        4190.86      3993.82  \t       3844.44
        """;
    assertThat(Perftest.column(bandwidth, 3)).isCloseTo(81.84, within(1e-9));
    assertThat(Perftest.column(latency, 4)).isCloseTo(3993.82, within(1e-9));
    assertThat(Perftest.column("Couldn't connect to 10.0.0.1:18515", 3)).isZero();
  }
}
