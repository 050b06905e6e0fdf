package org.ep4j.cli.vectors;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The commands on the recorded vectors of DeepEP V1. */
class VectorsCommandTest {
  @TempDir Path scratch;

  @Test
  void everyRecordedCaseIsReproducedOnThreadsAndProcesses() throws Exception {
    CommandLineRun run = verify(RecordedVectors.directory());

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("6 of 6 cases equal")
        .contains("4 threads")
        .contains("4 processes")
        .doesNotContain("WRONG");
  }

  @Test
  void onlyCasesOfAKind() throws Exception {
    CommandLineRun run = verify(RecordedVectors.directory(), "--kind", "ll", "--threads");

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("ll-bf16").doesNotContain("ht-");
  }

  @Test
  void acrossNodesTheBitsAreThoseOfOneNode() throws Exception {
    CommandLineRun run =
        verify(
            RecordedVectors.directory(),
            "--threads",
            "--device",
            "host",
            "--ranks-per-node",
            "3",
            "--wire",
            "tcp");

    assertThat(run.code()).as(run.out()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("6 of 6 cases equal");
  }

  @Test
  void aKindWithoutCasesIsReported() {
    CommandLineRun run =
        CommandLineRun.of(
            "verify",
            "--vectors",
            RecordedVectors.directory().resolve("ht-bf16").toString(),
            "--kind",
            "ll");

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err()).contains("--kind");
  }

  /** By default a case of each kind; {@code verify} compares the other formats in every build. */
  static Stream<Arguments> recordedCases() {
    return Boolean.getBoolean("ep4j.full")
        ? Stream.of("ht-bf16", "ht-fp8", "ll-bf16", "ll-fp8")
            .flatMap(
                name -> Stream.of(arguments(name, "--threads"), arguments(name, "--processes")))
        : Stream.of(arguments("ht-fp8", "--threads"), arguments("ll-fp8", "--processes"));
  }

  @ParameterizedTest
  @MethodSource("recordedCases")
  void runWritesWhatWasRecordedAsACaseThatVerifies(String name, String hosting) throws Exception {
    Path input = RecordedVectors.directory().resolve(name);
    Path output = scratch.resolve("out");
    CommandLineRun run =
        run("run", hosting, "--input", input.toString(), "--output", output.toString());

    assertThat(run.err()).isEmpty();
    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    CaseDirectory directory = CaseDirectory.open(input);
    WrittenCase.isThatOf(directory, output);
    try (Stream<Path> files = Files.list(output)) {
      assertThat(files).hasSize(directory.ranks());
    }
    run = CommandLineRun.of("verify", "--threads", "--vectors", output.toString());
    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
  }

  @Test
  void aBadFileIsNamedBeforeAnyRankStarts() throws Exception {
    Path input = copy("ht-onetoken");
    Path path = input.resolve("rank2.safetensors");
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      Map<String, Tensor> tensors = new HashMap<>();
      file.names().forEach(name -> tensors.put(name, file.tensor(name)));
      tensors.remove("expert_out");
      SafetensorsWriter.write(path, file.metadata(), tensors);
    }
    CommandLineRun run =
        CommandLineRun.of(
            "run", "--input", input.toString(), "--output", scratch.resolve("out").toString());

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err())
        .contains(path + ": tensor 'expert_out': is missing, but BF16 in the file of rank 0");
  }

  @Test
  void aFlippedBitIsReported() throws Exception {
    Path broken = copy("ht-bf16");
    Path file = broken.resolve("rank2.safetensors");
    byte[] bytes = Files.readAllBytes(file);
    int at;
    try (SafetensorsFile header = SafetensorsFile.open(file)) {
      Tensor recorded = header.tensor("recv_x");
      long data = recorded.address() - header.tensor(header.names().iterator().next()).address();
      long headerBytes = 8 + ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getLong();
      at = (int) (headerBytes + data + 3 * 1024 + 17);
    }
    bytes[at] ^= 4;
    Files.write(file, bytes);
    CommandLineRun run = verify(broken, "--threads");

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.out())
        .contains("WRONG")
        .contains("recv_x of rank 2, row 3")
        .contains("byte 17")
        .contains("0 of 1 cases equal");
  }

  @Test
  void aTruncatedCaseIsReportedAndTheOthersContinue() throws Exception {
    copy("ht-onetoken");
    Path bad = copy("ht-bf16-align");
    Path file = bad.resolve("rank1.safetensors");
    byte[] bytes = Files.readAllBytes(file);
    Files.write(file, Arrays.copyOf(bytes, bytes.length - 100));
    CommandLineRun run = verify(scratch.resolve("cases"), "--threads");

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.out())
        .contains("BAD")
        .contains("rank1.safetensors")
        .contains(ErrorCode.SAFETENSORS_INVALID.id())
        .contains("1 of 2 cases equal");
  }

  @Test
  void aMissingRankIsNamedAndNothingIsWritten() throws Exception {
    Path input = copy("ht-onetoken");
    Files.delete(input.resolve("rank2.safetensors"));
    Path output = scratch.resolve("out");
    CommandLineRun run =
        CommandLineRun.of("run", "--input", input.toString(), "--output", output.toString());

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err()).contains("rank2.safetensors is missing").doesNotContain("\tat ");
    assertThat(output).doesNotExist();
  }

  @Test
  void aDirectoryThatCannotBeCreatedIsReported() throws Exception {
    Path input = copy("ht-onetoken");
    Path output = Files.createFile(scratch.resolve("file"));
    CommandLineRun run =
        CommandLineRun.of(
            "run", "--threads", "--input", input.toString(), "--output", output.toString());

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err()).contains("EP4J-8020: " + output).doesNotContain("\tat ");
  }

  @Test
  void optionsSupplyMissingMetadata() throws Exception {
    Path input = copy("ht-onetoken");
    for (int rank = 0; rank < 4; rank++) {
      Path path = input.resolve("rank" + rank + ".safetensors");
      try (SafetensorsFile file = SafetensorsFile.open(path)) {
        Map<String, Tensor> inputs = new HashMap<>();
        for (String name : List.of("x", "topk_idx", "topk_weights")) {
          inputs.put(name, file.tensor(name));
        }
        SafetensorsWriter.write(path, Map.of(), inputs);
      }
    }
    Path output = scratch.resolve("out");
    String[] arguments = {
      "run", "--threads", "--input", input.toString(), "--output", output.toString()
    };
    CommandLineRun without = CommandLineRun.of(arguments);
    assertThat(without.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(without.err()).contains("metadata 'experts' is missing");

    String[] more = Arrays.copyOf(arguments, arguments.length + 2);
    more[arguments.length] = "--experts";
    more[arguments.length + 1] = "8";
    assertThat(CommandLineRun.of(more).code()).isEqualTo(ExitCodes.OK);
    try (SafetensorsFile file = SafetensorsFile.open(output.resolve("rank0.safetensors"))) {
      assertThat(file.names()).contains("recv_x").doesNotContain("combined_x");
      assertThat(file.metadata()).containsEntry("experts", "8");
    }
  }

  @Test
  void anUnknownKindIsRefusedAlsoWhereTheFilesNameOne() throws Exception {
    String input = copy("ht-onetoken").toString();
    CommandLineRun run =
        CommandLineRun.of("run", "--input", input, "--output", "o", "--kind", "hx");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1900: --kind = hx; it must be one of ht, ll");
  }

  @Test
  void resultsNeverReplaceTheInputs() throws Exception {
    String input = copy("ht-onetoken").toString();
    CommandLineRun run = CommandLineRun.of("run", "--input", input, "--output", input);

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1908: ");
  }

  @Test
  void anInvalidCaseIsReportedWithItsOwnCode() throws Exception {
    Path input = copy("ht-onetoken");
    Files.delete(input.resolve("rank1.safetensors"));
    CommandLineRun run = CommandLineRun.of("verify", "--vectors", input.toString());

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err()).contains("EP4J-7302: ").doesNotContain("EP4J-8022");
  }

  @Test
  void directoriesWithoutCasesAreReported() {
    String nothing = scratch.toString();

    assertThat(CommandLineRun.of("verify", "--vectors", nothing).err()).contains("EP4J-8022: ");
    CommandLineRun missing = CommandLineRun.of("verify", "--vectors", nothing + "/missing");
    assertThat(missing.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(missing.err())
        .contains("EP4J-8022: ")
        .contains("/missing: ")
        .doesNotContain("Exception");
    assertThat(CommandLineRun.of("run", "--input", nothing + "/missing", "--output", "o").err())
        .contains("/missing: ")
        .doesNotContain("Exception");
    assertThat(CommandLineRun.of("run", "--input", nothing, "--output", nothing + "/o").err())
        .contains("holds no rank0.safetensors");
    assertThat(CommandLineRun.of("verify").code()).isEqualTo(ExitCodes.USAGE);
  }

  @Test
  void aFileOfACaseIsAnsweredWithItsDirectory() throws Exception {
    Path file = Files.createFile(scratch.resolve("rank0.safetensors"));
    CommandLineRun run = CommandLineRun.of("verify", "--vectors", file.toString());

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err())
        .contains("EP4J-8022: " + file + ": is a file: name its directory, " + scratch);
  }

  private CommandLineRun verify(Path directory, String... more)
      throws IOException, InterruptedException {
    List<String> arguments =
        Stream.concat(Stream.of("verify", "--vectors", directory.toString()), Stream.of(more))
            .toList();
    return run(arguments.toArray(String[]::new));
  }

  /** Runs in this JVM; only ranks that are processes need more. */
  private CommandLineRun run(String... arguments) throws IOException, InterruptedException {
    return List.of(arguments).contains("--threads")
        ? CommandLineRun.of(arguments)
        : CliProcess.run(scratch, arguments);
  }

  private Path copy(String name) throws IOException {
    Path target = Files.createDirectories(scratch.resolve("cases").resolve(name));
    try (Stream<Path> files = Files.list(RecordedVectors.directory().resolve(name))) {
      for (Path file : files.toList()) {
        Files.write(target.resolve(file.getFileName().toString()), Files.readAllBytes(file));
      }
    }
    return target;
  }
}
