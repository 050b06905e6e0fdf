package org.ep4j.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Style;
import org.ep4j.rdma.verbs.ports.PcieLocation;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DoctorTest {
  @TempDir Path scratch;

  @Test
  void reportsFactsOfThisMachine() {
    CommandLineRun run = CommandLineRun.of("doctor");

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains(Runtime.version().toString())
        .contains(System.getProperty("java.home"))
        .contains(CpuFacts.model())
        .contains(Runtime.getRuntime().availableProcessors() + " usable cores")
        .contains("/dev/shm")
        .contains("CUDA driver library")
        .contains("NVRTC")
        .contains("compiled kernels")
        .contains("Backends")
        .contains("nccl")
        .contains("nvshmem")
        .contains("libibverbs")
        .contains("RDMA")
        .contains("EP4J_IB_QPS_PER_PORT");
  }

  @Test
  void theReportEndsWithAVerdictAndFitsIntoATerminal() {
    List<Finding> findings = DoctorCommand.look(System.getenv());
    String text = DoctorCommand.text(findings, Style.PLAIN);

    assertThat(text).containsPattern("\nVerdict\n  ok  ready +engine (host|cuda)\n");
    assertThat(text.lines().filter(line -> line.length() > 100 && line.strip().contains("  ")))
        .isEmpty();
    String pages = "Memory: transparent huge pages";
    List<Finding> warned =
        List.of(
            Finding.found("Engines", "host", "available", ""),
            Finding.warning("Memory", "transparent huge pages", "never", "slow"),
            Finding.missing("Memory", "/dev/shm", "not a directory", "mount it"),
            Finding.missing("GPU", "driver", "none", "not loaded"));
    assertThat(DoctorCommand.text(Verdict.of(warned), Style.PLAIN))
        .contains("ready", "engine host", pages, "Memory: /dev/shm")
        .containsPattern("!!  warnings +2\n")
        .doesNotContain("driver");
    assertThat(Verdict.of(List.of())).first().extracting(Finding::name).isEqualTo("not ready");
  }

  @Test
  void longTextIsWrappedAndNotRepeated() {
    String reason = "word ".repeat(30).strip();
    String text =
        DoctorCommand.text(
            List.of(
                Finding.missing("GPU", "one", "none", reason),
                Finding.missing("GPU", "two", "none", reason)),
            Style.PLAIN);

    assertThat(text.lines()).allMatch(line -> line.length() <= 100);
    assertThat(text).containsOnlyOnce("for the same reason as GPU: one");
  }

  @Test
  void jsonHasEveryFindingOfTheText() {
    String json = CommandLineRun.of("doctor", "--json").out();

    for (Finding finding : DoctorCommand.look(System.getenv())) {
      assertThat(json).contains("\"" + finding.name() + "\"");
    }
  }

  @Test
  void everyMissingItemHasAConsequence() {
    List<Finding> findings = DoctorCommand.look(Map.of("EP4J_SHM_DIR", scratch + "/missing"));

    assertThat(findings)
        .filteredOn(finding -> finding.state() != Finding.State.FOUND)
        .isNotEmpty()
        .allSatisfy(finding -> assertThat(finding.meaning()).isNotEmpty());
    assertThat(DoctorCommand.text(findings, Style.PLAIN))
        .contains("not a directory")
        .contains("EP4J_SHM_DIR");
  }

  @Test
  void theListOfSettingsEqualsTheirPage() throws IOException {
    Path page = Path.of("..", "docs", "configuration.md");
    assumeThat(page).as("missing in a bundle").exists();
    Set<String> written =
        Pattern.compile("EP4J_[A-Z_]*[A-Z]")
            .matcher(Files.readString(page))
            .results()
            .map(MatchResult::group)
            .collect(Collectors.toSet());
    written.remove("EP4J_IB"); // of EP4J_IB_*

    assertThat(UnreadVariables.SETTINGS).containsExactlyInAnyOrderElementsOf(written);
  }

  @Test
  void theStatusOfPartsEqualsTheTableOfTheReadme() throws IOException {
    Path page = Path.of("..", "README.md");
    assumeThat(page).as("missing in a bundle").exists();
    List<String> rows =
        StatusFacts.parts().stream()
            .map(part -> "| %s | %s | %s |".formatted(part.name(), part.hasRunOn(), part.tier()))
            .toList();

    assertThat(Files.readString(page))
        .contains(
            "| part | has run on | tier |\n|---|---|---|\n" + String.join("\n", rows) + "\n\n");
    assertThat(DoctorCommand.text(StatusFacts.look(), Style.PLAIN))
        .startsWith("Status of this version, not of this machine\n")
        .containsPattern("ok  proven +host engine; wires tcp, shm\n")
        .containsPattern("--  emulated +wire verbs\n +has run on: Soft-RoCE");
  }

  @Test
  void unsetConnectionsAreReportedWithTheirDefault() {
    assertThat(DoctorCommand.text(WireFacts.look(Map.of()), Style.PLAIN))
        .containsPattern("EP4J_WIRE_CONNECTIONS +one per progress context");
  }

  @Test
  void aMisspelledVariableIsReported() {
    assertThat(DoctorCommand.look(Map.of("EP4J_LIVENES_MS", "5000", "EP4J_LIVENESS_MS", "5000")))
        .filteredOn(finding -> finding.meaning().contains("spelling"))
        .extracting(Finding::name)
        .containsExactly("EP4J_LIVENES_MS");
  }

  @Test
  void renamedVariableIsReportedWithItsNewName() {
    Map<String, String> given = Map.of("EP4J_CUDA_LINES", "0");

    assertThat(DoctorCommand.text(SettingFacts.look(given), Style.PLAIN))
        .containsPattern("EP4J_CUDA_LINES +renamed\n.*set EP4J_CUDA_LL_PACKETS");
    assertThat(UnreadVariables.of(given)).isEmpty();
  }

  @Test
  void settingsOfGpusAreReportedWithTheirDefaults() {
    Map<String, String> given = Map.of("EP4J_CUDA_LL_PACKETS", "0");

    assertThat(DoctorCommand.text(SettingFacts.look(given), Style.PLAIN))
        .containsPattern("EP4J_CUDA_LL_PACKETS +0\n.*from the environment")
        .containsPattern("EP4J_CUDA_SPECIALIZE +1\n.*default")
        .containsPattern("EP4J_PROXY_THREADS +1\n.*default")
        .contains("EP4J_CUDA_DEVICE", "EP4J_PROXY_CORES", "ep4j.host.streaming");
  }

  @Test
  void settingsNameTheirVariable() {
    List<Finding> findings =
        SettingFacts.look(
            Map.of(
                "EP4J_RANK", "1",
                "EP4J_WORLD_SIZE", "4",
                "EP4J_RENDEZVOUS", "head:29500",
                "EP4J_SECRET", "do not print me"));

    String text = DoctorCommand.text(findings, Style.PLAIN);
    assertThat(text)
        .contains("head:29500")
        .contains("from EP4J_RENDEZVOUS")
        .contains("from EP4J_SECRET")
        .doesNotContain("do not print me");
  }

  @Test
  void rdmaPortsAndSettingsAreShown() {
    RdmaPort.Address address = new RdmaPort.Address(3, "0000:ffff:0a00:0001", "RoCE v2");
    List<RdmaPort> ports =
        List.of(port("mlx5_0", "ACTIVE", List.of(address)), port("mlx5_1", "DOWN", List.of()));

    String text = DoctorCommand.text(RdmaFacts.ports(ports), Style.PLAIN);
    assertThat(text).contains("mlx5_0:1").contains("GID 3").contains("NUMA node 1");
    assertThat(text).contains("mlx5_1:1").contains("not active");
    assertThat(rdma(Map.of("EP4J_IB_SL", "3"), ports))
        .contains("ports of local rank 0")
        .contains("from GPU 0: mlx5_0:1 (1 bridge)")
        .contains("EP4J_IB_SL")
        .contains("from the environment");
    assertThat(rdma(Map.of("EP4J_IB_SL", "99"), ports)).contains("from 0 to 15");
    assertThat(rdma(Map.of("EP4J_IB_HCA", "mlx5_1"), ports)).contains("no usable port");
  }

  private static String rdma(Map<String, String> environment, List<RdmaPort> ports) {
    PcieLocation gpu = new PcieLocation(List.of("pci0000:00", "0000:00:01.0", "0000:3c:00.0"), 1);
    Map<String, PcieLocation> senders = Map.of("GPU 0", gpu);
    return DoctorCommand.text(RdmaFacts.settings(environment, ports, senders), Style.PLAIN);
  }

  private static RdmaPort port(String device, String state, List<RdmaPort.Address> addresses) {
    String path = "/sys/devices/pci0000:00/0000:00:01.0/0000:3b:00.0";
    return new RdmaPort(device, 1, state, "Ethernet", "400 Gb/sec", 1, path, addresses);
  }

  @Test
  void wiresAreReportedWithTheirSettings() {
    List<Finding> findings = WireFacts.look(Map.of("EP4J_WIRE", "tcp", "EP4J_WIRE_LANES", "2"));

    assertThat(findings).extracting(Finding::name).contains("inproc", "shm", "tcp", "ucx");
    assertThat(DoctorCommand.text(findings, Style.PLAIN))
        .containsPattern("EP4J_WIRE_LANES +2\n +from the environment")
        .containsPattern("EP4J_WIRE_ENCRYPTED +false\n +default");
  }

  @Test
  void badWireSettingsAreFindings() {
    assertThat(WireFacts.look(Map.of("EP4J_WIRE_LANES", "many")))
        .filteredOn(finding -> finding.state() == Finding.State.WARNING)
        .singleElement()
        .satisfies(finding -> assertThat(finding.meaning()).contains("EP4J_WIRE_LANES = many"));
    assertThat(WireFacts.look(Map.of("EP4J_WIRE", "pigeon")))
        .filteredOn(finding -> finding.state() == Finding.State.WARNING)
        .singleElement()
        .satisfies(finding -> assertThat(finding.meaning()).contains("set it to one of"));
  }

  @Test
  void badSettingsAreAFindingAndNotACrash() {
    String text =
        DoctorCommand.text(
            SettingFacts.look(Map.of("EP4J_RANK", "seven", "EP4J_WORLD_SIZE", "4")), Style.PLAIN);

    assertThat(text).contains("unusable variables").contains("EP4J_RANK");
  }

  /** In a process of its own: the cache and the compiler read the variables of their process. */
  @Test
  void badVariablesOfOtherPartsAreFindings() throws Exception {
    Map<String, String> bad = Map.of("EP4J_CUDA_CACHE_MB", "much", "EP4J_LOCAL_RANK", "first");
    try (CliProcess doctor = CliProcess.start(scratch, bad, "doctor", "--json")) {
      CommandLineRun end = doctor.end();

      assertThat(end.code()).isZero();
      assertThat(end.out())
          .contains("EP4J-1741: EP4J_CUDA_CACHE_MB = 'much'", "EP4J_LOCAL_RANK = 'first'");
    }
  }

  @Test
  void valuesThatTheirReaderRefusesAreWarnings() {
    Map<String, String> bad =
        Map.of(
            "EP4J_CUDA_DEVICE", "x",
            "EP4J_PROXY_THREADS", "99",
            "EP4J_PROXY_CORES", "all",
            "EP4J_DEBUG", "yes");
    assertThat(SettingFacts.look(bad))
        .filteredOn(finding -> finding.state() == Finding.State.WARNING)
        .extracting(Finding::name)
        .containsExactlyInAnyOrderElementsOf(bad.keySet());
    assertThat(SettingFacts.look(Map.of("EP4J_PROXY_CORES", "3, 4", "EP4J_DEBUG", "TRUE")))
        .noneMatch(finding -> finding.state() == Finding.State.WARNING);
  }

  @Test
  void settingsOfTheGroupAreShownWithoutARank() {
    String text =
        DoctorCommand.text(
            SettingFacts.look(Map.of("EP4J_LIVENESS_MS", "5000", "EP4J_SECRET", "do not print me")),
            Style.PLAIN);

    assertThat(text)
        .containsPattern("EP4J_LIVENESS_MS +5000\n.*no effect")
        .containsPattern("EP4J_SECRET +set\n")
        .doesNotContain("do not print me");
  }

  @Test
  void librariesAreFoundBehindTheirLinks() throws IOException {
    Path real = Files.createFile(scratch.resolve("libnccl.so.2.28.9"));
    Files.createSymbolicLink(scratch.resolve("libnccl.so.2"), real);
    Files.createSymbolicLink(scratch.resolve("libgone.so"), scratch.resolve("nowhere"));
    Libraries libraries = new Libraries(Map.of("LD_LIBRARY_PATH", scratch + ":/not/there::"));

    assertThat(libraries.find("libnccl.so.2")).contains(real.toRealPath());
    assertThat(libraries.find("libgone.so")).isEmpty();
  }

  @Test
  void theCloneOfABrokenFileIsMissing() throws IOException {
    Path file = Files.write(scratch.resolve("info"), new byte[] {(byte) 0xFF, '\n', ':'});

    assertThat(SystemFiles.value(file, "model")).isEmpty();
    assertThat(SystemFiles.line(scratch.resolve("missing"))).isEmpty();
    assertThat(SystemFiles.kilobytes(file, "MemTotal")).isEmpty();
  }
}
