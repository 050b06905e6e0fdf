package org.ep4j.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Style;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DoctorTest {
  @TempDir Path scratch;

  @Test
  void tellsFactsOfThisMachine() {
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
        .contains("NCCL")
        .contains("NVSHMEM")
        .contains("libibverbs")
        .contains("RDMA devices");
  }

  @Test
  void jsonHasEveryFindingOfTheText() {
    String json = CommandLineRun.of("doctor", "--json").out();

    for (Finding finding : DoctorCommand.look(System.getenv())) {
      assertThat(json).contains("\"" + finding.name() + "\"");
    }
  }

  @Test
  void everyMissingThingSaysWhatThatMeans() {
    List<Finding> findings = DoctorCommand.look(Map.of("EP4J_SHM_DIR", scratch + "/absent"));

    assertThat(findings)
        .filteredOn(finding -> finding.state() != Finding.State.FOUND)
        .isNotEmpty()
        .allSatisfy(finding -> assertThat(finding.meaning()).isNotEmpty());
    assertThat(DoctorCommand.text(findings, Style.PLAIN))
        .contains("not a directory")
        .contains("EP4J_SHM_DIR");
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
  void badSettingsAreAFindingAndNotACrash() {
    String text =
        DoctorCommand.text(
            SettingFacts.look(Map.of("EP4J_RANK", "seven", "EP4J_WORLD_SIZE", "4")), Style.PLAIN);

    assertThat(text).contains("unusable variables").contains("EP4J_RANK");
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
  void theCloneOfABrokenFileIsAbsent() throws IOException {
    Path file = Files.write(scratch.resolve("info"), new byte[] {(byte) 0xFF, '\n', ':'});

    assertThat(SystemFiles.value(file, "model")).isEmpty();
    assertThat(SystemFiles.line(scratch.resolve("absent"))).isEmpty();
    assertThat(SystemFiles.kilobytes(file, "MemTotal")).isEmpty();
  }
}
