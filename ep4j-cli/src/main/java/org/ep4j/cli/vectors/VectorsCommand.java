package org.ep4j.cli.vectors;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import org.ep4j.cases.SeededCase;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.ep4j.tensor.DType;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Writes cases whose results come from the oracle. */
@Command(
    name = "vectors",
    sortOptions = false,
    description = {
      "Write cases for ep4j verify whose results come from the oracle, not from an engine.",
      "",
      "The tokens are drawn from a seed and summed in the order of experts. For each number of ranks"
          + " there are a case of each row type of high throughput and one of low latency, with the"
          + " same tokens: their sums are the same bits.",
      ""
    })
public final class VectorsCommand implements Callable<Integer> {
  private static final List<DType> DTYPES = List.of(DType.BF16, DType.FP16, DType.FP32);

  @Option(
      names = "--output",
      required = true,
      paramLabel = "DIR",
      description = "Directory of the cases; created if missing.")
  private Path output = Path.of("");

  @Option(
      names = "--ranks",
      split = ",",
      paramLabel = "N,...",
      defaultValue = "1,2,4",
      description = "Numbers of ranks; default ${DEFAULT-VALUE}.")
  private List<Integer> ranks = List.of();

  @Option(
      names = "--seed",
      paramLabel = "N",
      defaultValue = "1",
      description = "Seed of the tokens; default ${DEFAULT-VALUE}.")
  private long seed;

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public VectorsCommand() {}

  @Override
  public Integer call() {
    CommandSpec command = CommandSpecs.require(spec);
    for (int number : ranks) {
      CommandSpecs.checkValue(
          command,
          number >= 1 && number <= SeededCase.MAX_RANKS,
          "--ranks",
          number,
          "1 to " + SeededCase.MAX_RANKS);
    }
    PrintWriter out = command.commandLine().getOut();
    for (int number : ranks) {
      write(out, "ll", DType.BF16, number);
      for (DType dtype : DTYPES) {
        write(out, "ht", dtype, number);
      }
    }
    return ExitCodes.OK;
  }

  private void write(PrintWriter out, String kind, DType dtype, int number) {
    Path one =
        output.resolve(
            "expert-%s-%s-%d".formatted(kind, dtype.name().toLowerCase(Locale.ROOT), number));
    try {
      Files.createDirectories(one);
    } catch (IOException e) {
      throw new CommandFailure(
          ErrorCode.OUTPUT_NOT_WRITTEN,
          ExitCodes.FAILED,
          one + ": cannot be created: " + FileProblem.of(e),
          e);
    }
    SeededCase.write(one, seed, kind.equals("ll"), dtype, number);
    out.println(one);
  }
}
