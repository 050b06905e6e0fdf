package org.ep4j.cli.vectors;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.ep4j.cases.CaseDirectory;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.launch.EngineOptions;
import org.ep4j.cli.launch.NodeOptions;
import org.ep4j.cli.launch.World;
import org.ep4j.cli.launch.WorldOptions;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Compares recorded results with those of ep4j. */
@Command(
    name = "verify",
    sortOptions = false,
    description = {
      "Compare recorded results with ep4j's, bit for bit, and report per case.",
      "",
      "A case is a directory with rank0.safetensors and so on. layout_range and src_info pair the"
          + " low-latency rows. Without --threads or --processes every case runs on both. The first"
          + " difference is reported with output, rank, row, token and byte.",
      ""
    })
public final class VerifyCommand implements Callable<Integer> {
  private static final int DEPTH = 4;

  /** Kinds of cases. */
  enum Kind {
    /** High throughput. */
    HT,
    /** Low latency. */
    LL
  }

  @Option(
      names = "--vectors",
      required = true,
      paramLabel = "DIR",
      description = "A case, or a directory with cases below it.")
  private Path vectors = Path.of("");

  @Option(
      names = "--kind",
      paramLabel = "ht|ll",
      description = "Only cases of high throughput or of low latency.")
  private @Nullable Kind kind;

  @Mixin private WorldOptions world = new WorldOptions();

  @Mixin private NodeOptions nodes = new NodeOptions();

  @Mixin private EngineOptions engines = new EngineOptions();

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public VerifyCommand() {}

  @Override
  public Integer call() throws Exception {
    List<CaseDirectory> cases = new ArrayList<>();
    List<RuntimeException> invalid = new ArrayList<>();
    for (Path path : find()) {
      try {
        CaseDirectory one = CaseDirectory.open(path);
        if (kind == null || (kind == Kind.LL) == one.metadata().lowLatency()) {
          cases.add(one);
        }
      } catch (Ep4jException | UncheckedIOException e) {
        invalid.add(e);
      }
    }
    if (cases.isEmpty() && invalid.size() == 1) {
      throw invalid.getFirst();
    }
    List<String> problems = invalid.stream().map(e -> String.valueOf(e.getMessage())).toList();
    if (cases.isEmpty()) {
      throw new CommandFailure(
          ErrorCode.NO_CASES,
          ExitCodes.FAILED,
          problems.isEmpty()
              ? vectors + ": no case of the kind in --kind"
              : vectors + ": no valid case:\n" + String.join("\n", problems));
    }
    CommandSpec command = CommandSpecs.require(spec);
    nodes.checkWire(command, engines.onDevice(command), world.join());
    if (world.join()) {
      return World.join(verifier(cases, problems, "processes"));
    }
    int worst = ExitCodes.OK;
    for (int ranks : new TreeSet<>(cases.stream().map(CaseDirectory::ranks).toList())) {
      nodes.check(command, ranks, false);
      CaseVerifier verifier = verifier(cases, problems, "threads");
      if (!world.processes()) {
        worst = Math.max(worst, World.threads(ranks, verifier));
      }
      if (!world.threads()) {
        worst = Math.max(worst, world.processes(command, ranks));
      }
    }
    return worst;
  }

  private CaseVerifier verifier(List<CaseDirectory> cases, List<String> problems, String hosting) {
    CommandSpec command = CommandSpecs.require(spec);
    return new CaseVerifier(
        cases, problems, engines.device(command), engines.backend(command), nodes, hosting);
  }

  /** The directories that are cases. */
  private List<Path> find() {
    if (!Files.exists(vectors)) {
      throw new CommandFailure(
          ErrorCode.NO_CASES,
          ExitCodes.FAILED,
          vectors + ": does not exist: name a case, or a directory with cases");
    }
    if (!Files.isDirectory(vectors)) {
      throw new CommandFailure(
          ErrorCode.NO_CASES,
          ExitCodes.FAILED,
          vectors + ": is a file: name its directory, " + vectors.toAbsolutePath().getParent());
    }
    List<Path> found;
    try (Stream<Path> entries = Files.walk(vectors, DEPTH)) {
      found = entries.filter(CaseDirectory::isCase).sorted().toList();
    } catch (IOException e) {
      throw unlisted(e);
    } catch (UncheckedIOException e) {
      throw unlisted(Objects.requireNonNull(e.getCause()));
    }
    if (found.isEmpty()) {
      throw new CommandFailure(
          ErrorCode.NO_CASES,
          ExitCodes.FAILED,
          vectors + ": no case here or below: no rank0.safetensors");
    }
    return found;
  }

  private CommandFailure unlisted(IOException cause) {
    return new CommandFailure(
        ErrorCode.NO_CASES,
        ExitCodes.FAILED,
        vectors + ": cannot be listed: " + FileProblem.of(cause),
        cause);
  }
}
