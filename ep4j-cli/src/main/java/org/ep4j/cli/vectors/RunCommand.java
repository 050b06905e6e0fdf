package org.ep4j.cli.vectors;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.ep4j.ExpertBuffer;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cases.CaseFile;
import org.ep4j.cases.CaseRunner;
import org.ep4j.cases.CaseStrings;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.launch.EngineOptions;
import org.ep4j.cli.launch.NodeOptions;
import org.ep4j.cli.launch.WorldOptions;
import org.ep4j.cli.text.Progress;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Dispatches and combines the tensors of files. */
@Command(
    name = "run",
    sortOptions = false,
    description = {
      "Dispatch and combine real routing: safetensors in, safetensors out.",
      "",
      "The input directory has a file per rank, rank0.safetensors, rank1.safetensors and so on,"
          + " with x (and x_scales), topk_idx, topk_weights. expert_out, if present, is combined;"
          + " layout_range and src_info of the file place its low-latency rows. Inputs and results"
          + " are written to the output directory under the same file names, in the row order of"
          + " ep4j: all files or none. That directory is a case for ep4j verify."
          + " docs/command-line.md describes the files.",
      "",
      "Metadata strings describe the case: kind (ht or ll), experts, expert_alignment,"
          + " max_tokens, use_fp8, ...; the options below supply missing ones.",
      ""
    })
public final class RunCommand implements Callable<Integer> {
  @Option(
      names = "--input",
      required = true,
      paramLabel = "DIR",
      description = "Directory of the inputs.")
  private Path input = Path.of("");

  @Option(
      names = "--output",
      required = true,
      paramLabel = "DIR",
      description = "Directory of the results; created if missing.")
  private Path output = Path.of("");

  @Mixin private WorldOptions world = new WorldOptions();

  @Mixin private NodeOptions nodes = new NodeOptions();

  @Mixin private EngineOptions engines = new EngineOptions();

  private static final List<String> KINDS = List.of("ht", "ll");

  /** Strings of one kind, which have options of the same names. */
  private static final String EXPERT_ALIGNMENT = "expert_alignment";

  private static final String MAX_TOKENS = "max_tokens";

  private static final List<String> ORDERS = List.of("rank", "expert");

  @Option(names = "--kind", paramLabel = "ht|ll", description = "High throughput or low latency.")
  private @Nullable String kind;

  @Option(
      names = {"--experts", "--num-experts"},
      paramLabel = "N",
      description = "Experts of all ranks.")
  private @Nullable Integer experts;

  @Option(
      names = "--expert-alignment",
      paramLabel = "N",
      description = "Alignment of the counts per expert (ht).")
  private @Nullable Integer expertAlignment;

  @Option(
      names = "--max-tokens",
      paramLabel = "N",
      description = "Maximum of tokens per rank (ll).")
  private @Nullable Integer maxTokens;

  @Option(
      names = "--order",
      paramLabel = "rank|expert",
      description =
          "Order of sums: expert adds by ascending experts, and high-throughput rows are grouped by"
              + " expert; default rank, in ll the order of a token's choices.")
  private @Nullable String order;

  @Option(
      names = "--metadata",
      paramLabel = "K=V",
      description = "Another metadata string, for example use_fp8=true; can be repeated.")
  private Map<String, String> metadata = new LinkedHashMap<>();

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public RunCommand() {}

  @Override
  public Integer call() throws Exception {
    CommandSpec command = CommandSpecs.require(spec);
    CommandSpecs.checkValue(
        command,
        kind == null || KINDS.contains(kind),
        "--kind",
        String.valueOf(kind),
        "one of ht, ll");
    CommandSpecs.checkValue(
        command,
        order == null || ORDERS.contains(order),
        "--order",
        String.valueOf(order),
        "one of rank, expert");
    CommandSpecs.check(
        command,
        !sameDirectory(),
        ErrorCode.OUTPUT_IS_INPUT,
        "--output is --input: name another directory, results do not replace inputs");
    checkParameters(command);
    CaseDirectory directory = CaseDirectory.open(input, given());
    checkKind(command, directory);
    OutputFiles.check(output, directory.ranks());
    int ranks = directory.ranks();
    nodes.check(command, ranks, world.join());
    nodes.checkWire(command, engines.onDevice(command), world.join());
    if (world.join()) {
      return world.run(command, ranks, (group, progress) -> runRank(directory, group, progress));
    }
    // Checks the settings once, before every rank would report the same error.
    ExpertBuffer.sizes(config(directory), ranks);
    try {
      return world.run(command, ranks, (group, progress) -> runRank(directory, group, progress));
    } finally {
      OutputFiles.sweep(output);
    }
  }

  /** Refuses values that would be reported as those of the files. */
  private void checkParameters(CommandSpec command) {
    checkPositive(command, "--experts", experts);
    checkPositive(command, "--expert-alignment", expertAlignment);
    checkPositive(command, "--max-tokens", maxTokens);
    metadata.forEach(
        (key, value) -> {
          CommandSpecs.checkValue(
              command, !key.isBlank(), "--metadata", key + "=" + value, "KEY=VALUE");
          String limit = CaseStrings.limit(key, value);
          CommandSpecs.checkValue(command, limit.isEmpty(), "--metadata " + key, value, limit);
        });
    options()
        .keySet()
        .forEach(
            key ->
                CommandSpecs.check(
                    command,
                    !metadata.containsKey(key),
                    ErrorCode.CONFLICTING_OPTIONS,
                    "--%s and --metadata %s set the same string: leave one of them out"
                        .formatted(key.replace('_', '-'), key)));
  }

  private static void checkPositive(CommandSpec command, String option, @Nullable Integer value) {
    CommandSpecs.checkValue(
        command, value == null || value >= 1, option, String.valueOf(value), "at least 1");
  }

  /** Refuses a parameter of the other kind: the results would keep it, and no run would use it. */
  private void checkKind(CommandSpec command, CaseDirectory directory) {
    boolean lowLatency = directory.metadata().lowLatency();
    String key = lowLatency ? EXPERT_ALIGNMENT : MAX_TOKENS;
    CommandSpecs.check(
        command,
        !given().containsKey(key),
        ErrorCode.INAPPLICABLE_OPTION,
        "%s is for %s only, and %s is a case of %s: leave it out"
            .formatted(
                metadata.containsKey(key) ? "--metadata " + key : "--" + key.replace('_', '-'),
                lowLatency ? "ht" : "ll",
                input,
                lowLatency ? "ll" : "ht"));
  }

  private BufferConfig config(CaseDirectory directory) {
    CommandSpec command = CommandSpecs.require(spec);
    BufferConfig.Builder config =
        directory.config().engine(engines.device(command)).backend(engines.backend(command));
    return nodes.declare(config, directory.ranks()).build();
  }

  private int runRank(CaseDirectory directory, Group group, Progress progress) {
    if (group.size() != directory.ranks()) {
      throw new CommandFailure(
          ErrorCode.WRONG_NUMBER_OF_RANKS,
          ExitCodes.USAGE,
          "%s holds the files of %d ranks, but the world has %d: start as many ranks as files"
              .formatted(directory.path(), directory.ranks(), group.size()));
    }
    CommandAgreement agreement = new CommandAgreement(group);
    progress.at("reading " + directory.path());
    try (Arena arena = Arena.ofShared();
        CaseFile file = directory.read(group.rank());
        ExpertBuffer buffer = ExpertBuffer.open(group, config(directory));
        OutputFiles files = new OutputFiles(output, group.rank())) {
      progress.at("running " + directory.path());
      Map<String, Tensor> outputs = CaseRunner.run(buffer, file, arena);
      progress.at("writing " + output);
      // With its inputs, a result is a case again: verify can repeat it.
      Map<String, Tensor> all = new LinkedHashMap<>(CaseRunner.inputs(file));
      all.putAll(outputs);
      files.write(file.strings(), all, agreement);
      if (group.rank() == 0) {
        String combined =
            file.find("expert_out") == null
                ? "nothing was combined: the files have no expert_out\n"
                : "";
        progress.above(
            () ->
                System.out.printf(
                    "%s: %d files, %s engine: %s%n%s",
                    output,
                    group.size(),
                    buffer.engine(),
                    String.join(", ", outputs.keySet()),
                    combined));
      }
    }
    return ExitCodes.OK;
  }

  private Map<String, String> given() {
    Map<String, String> given = new LinkedHashMap<>(metadata);
    given.putAll(options());
    return given;
  }

  /** The strings that have options of their own. */
  private Map<String, String> options() {
    Map<String, String> options = new LinkedHashMap<>();
    put(options, "kind", kind);
    put(options, "experts", experts);
    put(options, "order", order);
    put(options, EXPERT_ALIGNMENT, expertAlignment);
    put(options, MAX_TOKENS, maxTokens);
    return options;
  }

  private static void put(Map<String, String> options, String key, @Nullable Object value) {
    if (value != null) {
      options.put(key, value.toString());
    }
  }

  private boolean sameDirectory() throws IOException {
    return Files.isDirectory(input) && Files.isDirectory(output) && Files.isSameFile(input, output);
  }
}
