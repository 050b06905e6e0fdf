package org.ep4j.cli.vectors;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The commands on vectors of our own, whose sums are in the order of experts. */
class VectorsOfSumsByExpertsTest {
  private static final List<String> INPUTS = List.of("x", "topk_idx", "topk_weights", "expert_out");

  @TempDir Path scratch;

  private Path vectors = Path.of("");

  @BeforeEach
  void write() {
    vectors = scratch.resolve("vectors");
    CommandLineRun run = CommandLineRun.of("vectors", "--output", vectors.toString());

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains("expert-ht-bf16-1", "expert-ht-fp32-4", "expert-ll-bf16-2");
  }

  @Test
  void anyNumberOfRanksHasTheBitsOfTheOracle() {
    CommandLineRun run = verify(vectors);

    assertThat(run.code()).as(run.out() + run.err()).isEqualTo(ExitCodes.OK);
    for (int ranks : new int[] {1, 2, 4}) {
      assertThat(run.out()).contains("4 of 4 cases equal the recording, bit for bit (" + ranks);
    }
  }

  @Test
  void nodesHaveThemToo() {
    CommandLineRun run = verify(vectors, "--ranks-per-node", "1", "--wire", "tcp");

    assertThat(run.code()).as(run.out() + run.err()).isEqualTo(ExitCodes.OK);
  }

  @ParameterizedTest
  @ValueSource(strings = {"expert-ht-bf16-2", "expert-ll-bf16-2"})
  void runWithTheOrderWritesThem(String name) throws Exception {
    Path input = Files.createDirectory(scratch.resolve("input"));
    CaseDirectory expected = CaseDirectory.open(vectors.resolve(name));
    for (int rank = 0; rank < expected.ranks(); rank++) {
      rewrite(vectors.resolve(name), input, rank, true);
    }
    Path output = scratch.resolve("out");

    CommandLineRun run = run(input, output);

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    WrittenCase.isThatOf(expected, output);
    assertThat(verify(output).code()).isEqualTo(ExitCodes.OK);
  }

  @Test
  void anotherOrderHasOtherBits() throws Exception {
    Path other = Files.createDirectory(scratch.resolve("by-choice"));
    for (int rank = 0; rank < 2; rank++) {
      rewrite(vectors.resolve("expert-ll-bf16-2"), other, rank, false);
    }

    CommandLineRun run = verify(other);

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.out()).contains("WRONG").contains("combined_x of rank");
  }

  @Test
  void rowsThatPadAGroupAreZeroAndTakeNoPart() throws Exception {
    Path input = Files.createDirectory(scratch.resolve("input"));
    float[] x = new float[3 * 8];
    Arrays.fill(x, 1);
    float[] y = new float[8 * 8];
    for (int row = 0; row < 8; row++) {
      boolean padding = row == 3 || row > 5;
      Arrays.fill(y, row * 8, (row + 1) * 8, padding ? Float.NaN : 1 << row);
    }
    SafetensorsWriter.write(
        input.resolve("rank0.safetensors"),
        Map.of("kind", "ht", "experts", "2", "expert_alignment", "4"),
        Map.of(
            "x", Tensor.of(x, 3, 8),
            "topk_idx", Tensor.of(new long[] {1, 0, 0, -1, 0, 1}, 3, 2),
            "expert_out", Tensor.of(y, 8, 8)));
    Path output = scratch.resolve("out");

    CommandLineRun run = run(input, output);

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    try (SafetensorsFile file = SafetensorsFile.open(output.resolve("rank0.safetensors"))) {
      float[] received = file.tensor("recv_x").toFloatArray();
      float[] sums = file.tensor("combined_x").toFloatArray();
      for (int i = 0; i < 8; i++) {
        for (int row = 0; row < 8; row++) {
          assertThat(received[row * 8 + i]).isEqualTo(row == 3 || row > 5 ? 0 : 1);
        }
        assertThat(List.of(sums[i], sums[8 + i], sums[16 + i]))
            .containsExactly(1f + 16, 2f, 4f + 32);
      }
    }
    assertThat(verify(output).code()).isEqualTo(ExitCodes.OK);
  }

  @Test
  void anOptionThatContradictsTheOrderOfTheFilesIsRefused() {
    CommandLineRun run =
        CommandLineRun.of(
            "run",
            "--order",
            "rank",
            "--input",
            vectors.resolve("expert-ht-bf16-2").toString(),
            "--output",
            scratch.resolve("out").toString());

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err()).contains("order is expert instead of rank");
  }

  @Test
  void anUnknownOrderAndTooManyRanksAreRefused() {
    CommandLineRun order =
        CommandLineRun.of("run", "--input", "i", "--output", "o", "--order", "experts");
    CommandLineRun ranks = CommandLineRun.of("vectors", "--output", "o", "--ranks", "2,17");

    assertThat(order.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(order.err()).contains("--order = experts; it must be one of rank, expert");
    assertThat(ranks.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(ranks.err()).contains("--ranks = 17; it must be 1 to 16");
  }

  /** No file is at fault, and none is read. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--experts -1 | --experts = -1; it must be at least 1",
        "--experts 0 | --experts = 0; it must be at least 1",
        "--expert-alignment -4 | --expert-alignment = -4; it must be at least 1",
        "--max-tokens 0 | --max-tokens = 0; it must be at least 1",
        "--metadata use_fp8=banana | --metadata use_fp8 = banana; it must be true or false",
        "--metadata num_experts=x | --metadata num_experts = x; it must be a natural number",
        "--metadata ranks=-1 | --metadata ranks = -1; it must be a natural number",
        "--metadata kind=hx | --metadata kind = hx; it must be 'ht' or 'll'",
        "--metadata order=x | --metadata order = x; it must be 'rank' or 'expert'",
        "--metadata =x | --metadata = =x; it must be KEY=VALUE",
      })
  void aBadParameterNamesItsOption(String options, String expected) {
    CommandLineRun run = CommandLineRun.of(("run --input i --output o " + options).split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1900: " + expected);
  }

  @Test
  void anOptionAndAStringForTheSameParameterAreRefused() {
    CommandLineRun run =
        CommandLineRun.of(
            "run", "--input", "i", "--output", "o", "--experts", "8", "--metadata", "experts=4");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err())
        .contains("EP4J-1904: --experts and --metadata experts set the same string");
  }

  @ParameterizedTest
  @CsvSource({
    "expert-ht-bf16-2, --max-tokens 128, --max-tokens is for ll only",
    "expert-ht-bf16-2, --metadata max_tokens=128, --metadata max_tokens is for ll only",
    "expert-ll-bf16-2, --expert-alignment 4, --expert-alignment is for ht only"
  })
  void aParameterOfTheOtherKindIsRefused(String name, String options, String expected) {
    Path output = scratch.resolve("out");
    CommandLineRun run =
        CommandLineRun.of(
            ("run --threads --device host --input "
                    + vectors.resolve(name)
                    + " --output "
                    + output
                    + " "
                    + options)
                .split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1905: " + expected);
    assertThat(output).doesNotExist();
  }

  @Test
  void stringsThatAreNoParametersStayInTheResults() {
    Path output = scratch.resolve("out");
    CommandLineRun run =
        CommandLineRun.of(
            ("run --threads --device host --metadata origin=here --input "
                    + vectors.resolve("expert-ht-bf16-1")
                    + " --output "
                    + output)
                .split(" ", -1));

    assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
    try (SafetensorsFile file = SafetensorsFile.open(output.resolve("rank0.safetensors"))) {
      assertThat(file.metadata()).containsEntry("origin", "here");
    }
  }

  private static CommandLineRun run(Path input, Path output) {
    return CommandLineRun.of(
        "run",
        "--threads",
        "--device",
        "host",
        "--order",
        "expert",
        "--input",
        input.toString(),
        "--output",
        output.toString());
  }

  private static CommandLineRun verify(Path directory, String... more) {
    return CommandLineRun.of(
        Stream.concat(
                Stream.of(
                    "verify", "--threads", "--device", "host", "--vectors", directory.toString()),
                Stream.of(more))
            .toArray(String[]::new));
  }

  /** Copies the file of a rank without its order, and without its results if {@code inputs}. */
  private static void rewrite(Path from, Path to, int rank, boolean inputs) {
    String name = "rank" + rank + ".safetensors";
    try (SafetensorsFile file = SafetensorsFile.open(from.resolve(name))) {
      Map<String, Tensor> tensors = new LinkedHashMap<>();
      for (String tensor : inputs ? INPUTS : file.names()) {
        tensors.put(tensor, file.tensor(tensor));
      }
      Map<String, String> metadata = new LinkedHashMap<>(file.metadata());
      metadata.remove("order");
      SafetensorsWriter.write(to.resolve(name), metadata, tensors);
    }
  }
}
