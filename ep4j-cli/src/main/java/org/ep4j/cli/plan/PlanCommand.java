package org.ep4j.cli.plan;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.ep4j.BufferSizes;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.report.PageFile;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Style;
import org.ep4j.config.BackendName;
import org.ep4j.error.ErrorCode;
import org.ep4j.plan.DrawnRouting;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.PlacementGain;
import org.ep4j.plan.Plan;
import org.ep4j.plan.PlanDType;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.PlanRouting;
import org.ep4j.plan.PlanVariants;
import org.ep4j.plan.PlannedMemory;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.plan.RecordedRouting;
import org.ep4j.plan.simulation.Perturbations;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.verify.RoutingKind;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Predicts dispatch and combine on a machine that need not exist here. */
@Command(
    name = "plan",
    sortOptions = false,
    description = {
      "Predict dispatch and combine on a cluster: time, what limits it, memory.",
      "",
      "Nothing is measured, and no GPU is needed. A time is that of the kernels on the slowest"
          + " rank. GB/s have the unit of published tables: high throughput counts received rows"
          + " on one node, and rows once a receiving node on several, own rank and own node"
          + " included; low latency counts rows once an expert. The combine moves BF16. Errors"
          + " against published tables: docs/plan.md.",
      ""
    })
public final class PlanCommand implements Callable<Integer> {
  private static final Pattern GROUPED = Pattern.compile("grouped:(\\d{1,6})");
  private static final int HIGH_THROUGHPUT_TOKENS = 4096;
  private static final int LOW_LATENCY_TOKENS = 128;
  private static final int USUAL_TOP_K = 8;
  private static final int USUAL_EXPERTS = 256;

  @Option(
      names = "--machine",
      required = true,
      paramLabel = "NAME|FILE",
      description =
          "h800-cx7, h100-cx7, h100-roce-2x200, h200, b200, gb200-nvl72, or a file like those.")
  private String machine = "";

  @Option(
      names = "--fit",
      paramLabel = "FILE",
      description =
          "Fit the constants of one node to kernels that 'bench ht --json FILE' has measured on"
              + " GPUs. Repeatable: constants need several numbers of SMs and of tokens. Prints"
              + " measured and predicted times; with --profile to standard error.")
  private List<Path> measured = List.of();

  @Option(
      names = "--against",
      paramLabel = "FILE",
      description =
          "Print what the profile predicts for kernels that 'bench ht --json FILE' has measured,"
              + " and fit nothing to them. Repeatable.")
  private List<Path> compared = List.of();

  @Option(
      names = "--profile",
      description = "Print the profile of the machine as JSON, and plan nothing.")
  private boolean profileOnly;

  @Option(
      names = "--kind",
      defaultValue = "ht",
      paramLabel = "KIND",
      description = "ht (high throughput) or ll (low latency); default ${DEFAULT-VALUE}.")
  private PlanKind kind = PlanKind.HT;

  @Option(
      names = "--ranks",
      defaultValue = "8",
      paramLabel = "N",
      description = "GPUs; default ${DEFAULT-VALUE}.")
  private int ranks;

  @Option(
      names = "--ranks-per-node",
      paramLabel = "N",
      description =
          "GPUs of a node, which use NVLink; default: the most that the machine has, in nodes that"
              + " are all alike. 1: every row crosses NICs.")
  private @Nullable Integer ranksPerNode;

  @Option(
      names = "--tokens",
      paramLabel = "N",
      description = "Tokens of each rank; default 4096, 128 for ll, or as recorded.")
  private @Nullable Integer tokens;

  @Option(
      names = "--hidden",
      defaultValue = "7168",
      paramLabel = "N",
      description = "Values of a row; default ${DEFAULT-VALUE}.")
  private int hidden;

  @Option(
      names = "--topk",
      paramLabel = "N",
      description = "Experts of a token; default 8, or as recorded.")
  private @Nullable Integer topk;

  @Option(
      names = "--experts",
      paramLabel = "N",
      description =
          "Experts, a multiple of --ranks unless they are placed; default 256, or as recorded or"
              + " placed.")
  private @Nullable Integer experts;

  @Option(
      names = "--dtype",
      defaultValue = "fp8",
      paramLabel = "TYPE",
      description = "Rows of the dispatch: fp8 or bf16; default ${DEFAULT-VALUE}.")
  private PlanDType dtype = PlanDType.FP8;

  @Option(
      names = "--routing",
      defaultValue = "uniform",
      paramLabel = "KIND|FILE",
      description =
          "uniform, zipf, hot, grouped:G (experts of a token on G nodes, or all), or a recorded"
              + " routing: a safetensors file with topk_idx [tokens, topk], or a directory with"
              + " rank0.safetensors and so on; default ${DEFAULT-VALUE}.")
  private String routing = "";

  @Mixin private PlacementOptions placements = new PlacementOptions();

  @Option(
      names = "--sms",
      defaultValue = "24",
      paramLabel = "N",
      description = "SMs of a high-throughput operation; default ${DEFAULT-VALUE}.")
  private int sms;

  @Option(
      names = "--backend",
      defaultValue = BackendName.DIRECT,
      paramLabel = "NAME",
      description = "direct, nccl or nvshmem; default ${DEFAULT-VALUE}.")
  private String backend = BackendName.DIRECT;

  @Mixin private SimulationOptions simulation = new SimulationOptions();

  @Option(
      names = "--json",
      paramLabel = "FILE",
      description =
          "Write the plan as JSON, too. - is standard output; the table then goes to standard"
              + " error.")
  private @Nullable Path json;

  @Option(
      names = "--html",
      paramLabel = "FILE",
      description =
          "Write a page with plots, too: what limits each operation, time against ranks and SMs."
              + " One file that loads nothing. - is standard output.")
  private @Nullable Path html;

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public PlanCommand() {}

  @Override
  public Integer call() {
    PrintWriter out = CommandSpecs.require(spec).commandLine().getOut();
    if (profileOnly) {
      out.print(profileText());
      out.flush();
      return ExitCodes.OK;
    }
    OutputFile file = outputFile();
    placements.check(CommandSpecs.require(spec));
    Perturbations perturbations = simulation.perturbations(CommandSpecs.require(spec));
    OutputFile placementFile = placements.output();
    OutputFile page = html == null ? null : PageFile.checked(spec, "--html", html);
    differ("--placement-out", placementFile, "--json", file);
    differ("--html", page, "--json", file);
    differ("--html", page, "--placement-out", placementFile);
    boolean taken =
        Stream.of(file, placementFile, page)
            .filter(Objects::nonNull)
            .anyMatch(OutputFile::isStandardOutput);
    PrintWriter tables = taken ? CommandSpecs.require(spec).commandLine().getErr() : out;
    MachineProfile profile = fitted(ProfileFile.read(machine), tables);
    compare(profile, tables);
    PlanRequest request = request(profile);
    if (placements.isBalance()) {
      request = request.withPlacement(placements.balanced(request));
    }
    PlacementGain gain = request.placement() == null ? null : PlacementGain.of(profile, request);
    Plan plan = gain == null ? Plan.of(profile, request) : gain.placed();
    BufferSizes memory = PlannedMemory.of(request);
    SimulatedReport simulated =
        simulation.isSimulate() ? SimulatedReport.of(profile, request, perturbations) : null;
    PlanReport report = new PlanReport(profile, request, plan, memory, gain, simulated);
    String pageText = page == null ? "" : PlanPage.of(report, nodeSize(profile));
    tables.print(report.text(Style.detect()));
    tables.flush();
    if (file != null) {
      file.write(Json.text(report.tree()));
    }
    if (placementFile != null) {
      placementFile.write(PlacementFile.text(request.placed()));
    }
    if (page != null) {
      page.write(pageText);
    }
    return ExitCodes.OK;
  }

  /** Refuses two options that name one file. */
  private void differ(
      String option, @Nullable OutputFile file, String other, @Nullable OutputFile otherFile) {
    CommandSpecs.check(
        spec,
        file == null || otherFile == null || !file.isSameAs(otherFile),
        ErrorCode.CONFLICTING_OPTIONS,
        option + " and " + other + " name the same file, " + file + ": name two");
  }

  /** Ranks of a node in plans of other numbers of ranks, at most. */
  private int nodeSize(MachineProfile profile) {
    return ranksPerNode == null ? profile.count(ProfileConstant.RANKS_PER_NODE) : ranksPerNode;
  }

  private String profileText() {
    String text = ProfileFile.text(machine);
    MachineProfile profile = ProfileFile.parse(machine, text);
    PrintWriter tables = CommandSpecs.require(spec).commandLine().getErr();
    MachineProfile fitted = fitted(profile, tables);
    compare(fitted, tables);
    return measured.isEmpty()
        ? text
        : ProfileFile.text(fitted, "As " + profile.name() + ", with one node as measured");
  }

  /** The profile, fitted if there are measurements; prints how well. */
  private MachineProfile fitted(MachineProfile base, PrintWriter tables) {
    if (measured.isEmpty()) {
      return base;
    }
    MeasuredRuns runs = MeasuredRuns.read(measured);
    MachineProfile profile = runs.fit(base);
    print("Fitted to", runs, profile, tables);
    return profile;
  }

  private void compare(MachineProfile profile, PrintWriter tables) {
    if (!compared.isEmpty()) {
      print("Compared with", MeasuredRuns.read(compared), profile, tables);
    }
  }

  private static void print(
      String title, MeasuredRuns runs, MachineProfile profile, PrintWriter tables) {
    Style style = Style.detect();
    tables.print(style.bold(title + " " + runs.names()) + "\n\n" + runs.errors(profile, style));
    tables.print('\n');
    tables.flush();
  }

  private @Nullable OutputFile outputFile() {
    if (json == null) {
      return null;
    }
    OutputFile file = new OutputFile(json);
    String problem = file.problem();
    CommandSpecs.check(
        spec, problem.isEmpty(), ErrorCode.BAD_JSON_FILE, "--json " + json + ": " + problem);
    return file;
  }

  private PlanRequest request(MachineProfile profile) {
    int greatest = profile.count(ProfileConstant.RANKS_PER_NODE);
    int usual = PlanVariants.greatestDivisor(Math.max(1, ranks), greatest);
    int usualTokens = kind == PlanKind.HT ? HIGH_THROUGHPUT_TOKENS : LOW_LATENCY_TOKENS;
    String name = backend.toLowerCase(Locale.ROOT);
    CommandSpecs.checkValue(
        spec,
        BackendName.ALL.contains(name) && !name.equals(BackendName.AUTO),
        "--backend",
        backend,
        "direct, nccl or nvshmem");
    int usualTopK = USUAL_TOP_K;
    int usualExperts = USUAL_EXPERTS;
    PlanRouting chosen = drawn();
    if (chosen == null) {
      RecordingFile.Recording recording = recorded();
      RecordedRouting found = recording.routing();
      usualTokens = found.maxTokens(Math.max(1, ranks));
      usualTopK = found.topK();
      usualExperts = recording.experts().orElse(usualExperts);
      chosen = found;
    }
    ReplicatedPlacement placement = placements.read();
    if (placement != null) {
      usualExperts = placement.experts();
    }
    int settledExperts = experts == null ? usualExperts : experts;
    if (placement == null && placements.isBalance() && settledExperts <= PlanRequest.MAX_EXPERTS) {
      // Until the load is known: any number of experts, each once.
      placement = ReplicatedPlacement.of(ExpertPlacement.blocks(settledExperts, ranks));
    }
    return new PlanRequest(
        kind,
        ranks,
        ranksPerNode == null ? usual : ranksPerNode,
        tokens == null ? usualTokens : tokens,
        hidden,
        topk == null ? usualTopK : topk,
        settledExperts,
        dtype,
        chosen,
        sms,
        name,
        placement);
  }

  /** The routing that has a name, or null. */
  private @Nullable PlanRouting drawn() {
    String word = routing.toLowerCase(Locale.ROOT);
    Matcher grouped = GROUPED.matcher(word);
    if (grouped.matches()) {
      int groups = Integer.parseInt(grouped.group(1));
      CommandSpecs.checkValue(spec, groups >= 1, "--routing", routing, "grouped:1 or more");
      return new DrawnRouting(RoutingKind.UNIFORM, groups);
    }
    for (RoutingKind known : RoutingKind.values()) {
      if (known.name().toLowerCase(Locale.ROOT).equals(word)) {
        return new DrawnRouting(known, 0);
      }
    }
    return null;
  }

  private RecordingFile.Recording recorded() {
    Path path = Path.of(routing);
    CommandSpecs.check(
        spec,
        // An empty name is that of the current directory.
        !routing.isEmpty() && Files.exists(path),
        ErrorCode.PLAN_ROUTING,
        CommandSpecs.badValue(
                "--routing",
                routing,
                "uniform, zipf, hot, grouped:G, or a file or directory that exists")
            + ": correct it");
    return RecordingFile.read(path);
  }
}
