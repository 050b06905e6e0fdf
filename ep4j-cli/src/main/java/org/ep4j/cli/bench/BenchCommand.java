package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import org.ep4j.CombineOrder;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.NodeChoice;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.cli.Spelling;
import org.ep4j.cli.launch.EngineOptions;
import org.ep4j.cli.launch.NodeOptions;
import org.ep4j.cli.launch.WorldOptions;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ErrorCode;
import org.ep4j.verify.RoutingKind;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Measures dispatch and combine on this machine. */
@Command(
    name = "bench",
    sortOptions = false,
    subcommands = {
      MoeCommand.class,
      NvlinkCommand.class,
      ProxyCommand.class,
      PutCommand.class,
      WireCommand.class
    },
    synopsisSubcommandLabel = "[moe|nvlink|proxy|put|wire]",
    description = {
      "Measure dispatch and combine, high throughput (ht), low latency (ll) or both (all).",
      "",
      "Before the timing, the oracle computes every output and compares every byte on every rank."
          + " A time is that of the slowest rank after a common start. GB/s count the rows that a"
          + " rank receives (logical), or receives from other ranks (remote). The ceiling is the"
          + " limit of the memory, measured in the same run on all ranks at once: copying the bytes"
          + " of a dispatch, reading those of a combine. With --nodes, ht of the host engine prints"
          + " a second table with the traffic between nodes and the rate of the wire alone. On GPUs"
          + " the table shows scale-out GB/s (rows sent to other nodes) and its ceiling (the wire"
          + " alone, or copies to and from host memory on all GPUs at once if kernels write there),"
          + " scale-up GB/s (rows from other ranks of the node), and the busy cores.",
      "",
      "ll on GPUs measures 1 to 1024 tokens in seven steps, about two minutes on two GPUs; --tokens"
          + " measures one number.",
      ""
    })
public final class BenchCommand implements Callable<Integer> {
  private static final int MAX_RANKS = 1024;

  /** Ranks on the host, at least and at most; between, one for each core. */
  private static final int MIN_HOST_RANKS = 2;

  private static final int MAX_HOST_RANKS = 4;
  private static final int MAX_SMS = 4096;
  private static final int LOW_LATENCY_TOKENS = 128;
  private static final int HIGH_THROUGHPUT_TOKENS = 4096;
  private static final int MANY_TOKENS = 1024;
  private static final List<Integer> SWEEP = List.of(1, 16, 64, 128, 256, 512, 1024);
  private static final int SETS = 4;
  private static final int FEW_SETS = 2;

  @Parameters(
      index = "0",
      arity = "0..1",
      defaultValue = "all",
      paramLabel = "ht|ll|all",
      description = "What to measure; default ${DEFAULT-VALUE}.")
  private String operations = "all";

  @HelpGroup(HelpGroup.RANKS)
  @Option(
      names = {"--ranks", "--num-processes"},
      paramLabel = "N",
      description = "Number of ranks; default: the number of cores, 2 to 4, or the number of GPUs.")
  private @Nullable Integer ranks;

  @Mixin private WorldOptions world = new WorldOptions();
  @Mixin private NodeOptions nodes = new NodeOptions();

  @Mixin private EngineOptions engines = new EngineOptions();

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = {"--tokens", "--num-tokens"},
      paramLabel = "N",
      description =
          "Tokens of each rank; default 4096 (ht), 128 (ll; also the maximum of ll in all; ll alone"
              + " on GPUs: 1 to 1024).")
  private @Nullable Integer tokens;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--hidden",
      defaultValue = "7168",
      paramLabel = "N",
      description = "Elements of a row; default ${DEFAULT-VALUE}.")
  private int hidden;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = {"--topk", "--num-topk"},
      defaultValue = "8",
      paramLabel = "N",
      description = "Experts of each token; default ${DEFAULT-VALUE}.")
  private int topk;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = {"--experts", "--num-experts"},
      defaultValue = "256",
      paramLabel = "N",
      description = "Experts of all ranks; default ${DEFAULT-VALUE}.")
  private int experts;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--dtype",
      split = ",",
      paramLabel = "bf16|fp8|nvfp4",
      description = "Formats of the rows; default bf16 and fp8. ht also supports fp16 and fp32.")
  private @Nullable List<Payload> payloads;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--layout",
      defaultValue = "flat",
      paramLabel = "flat|expert-major",
      description = "Row order at the receiver (ht); default ${DEFAULT-VALUE}.")
  private String layout = "flat";

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--apply-weights",
      description = "Combines multiply rows by their weights (ht, expert-major).")
  private boolean applyWeights;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--order",
      defaultValue = "rank",
      paramLabel = "rank|expert",
      description = {
        "Order of the sums of a combine: rank, the default, adds by ascending ranks (ht) or in the",
        "order of a token's choices (ll); expert adds by ascending experts, whose bits do not",
        "depend on the world. For ht it needs expert-major rows, on GPUs also --zero-copy; it",
        "excludes --partial and --rank-major (ll)."
      })
  private String order = "rank";

  @Option(
      names = "--mode",
      defaultValue = "exact",
      paramLabel = "exact|static|cached|graph",
      description =
          "Whether the receiver gets the row count (exact) or fixes it (static), for ht; on GPUs"
              + " also dispatches with the handle of an earlier one (cached), or static ones"
              + " captured in a graph with their combines (graph); default ${DEFAULT-VALUE}.")
  private String mode = "exact";

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--routing",
      defaultValue = "uniform",
      paramLabel = "uniform|zipf|hot",
      description = "How tokens choose experts; default ${DEFAULT-VALUE}.")
  private RoutingKind routing = RoutingKind.UNIFORM;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = {"--topk-groups", "--num-topk-groups"},
      defaultValue = "0",
      paramLabel = "N",
      description =
          "Grouped gating: the experts of a token are on N nodes; default 0: on any. Needs declared"
              + " nodes.")
  private int topkGroups;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = "--iterations",
      paramLabel = "N",
      description =
          "Timed iterations; default: as many as fit into some seconds, 10 to 300 (ht) or 20 to"
              + " 1000 (ll).")
  private @Nullable Integer iterations;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = "--warmup",
      paramLabel = "N",
      description =
          "Untimed iterations before; default: until the operation stops becoming faster, at most"
              + " some seconds.")
  private @Nullable Integer warmup;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = "--buffers",
      paramLabel = "N",
      description =
          "Input sets in rotation; default 4, or 2 of "
              + MANY_TOKENS
              + " tokens and more, which exceed every cache.")
  private @Nullable Integer buffers;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--seed",
      defaultValue = "1",
      paramLabel = "N",
      description = "Seed of inputs and routing; default ${DEFAULT-VALUE}.")
  private long seed;

  @HelpGroup(HelpGroup.LOW_LATENCY)
  @Option(
      names = "--max-tokens",
      paramLabel = "N",
      description = "Maximum of tokens per rank (ll); default: the number of tokens.")
  private @Nullable Integer maxTokens;

  @Mixin private TestOptions testOptions = new TestOptions();

  @HelpGroup(HelpGroup.LOW_LATENCY)
  @Option(
      names = {"--logfmt", "--use-logfmt"},
      description = "Combine in LogFMT-10 (ll).")
  private boolean logFmt;

  @HelpGroup(HelpGroup.LOW_LATENCY)
  @Option(
      names = "--hook",
      description = "Split operations into a sending and a receiving half (ll).")
  private boolean hook;

  @HelpGroup(HelpGroup.LOW_LATENCY)
  @Option(
      names = "--partial",
      description = "Each rank sums its rows of a token before it sends them (ll).")
  private boolean partial;

  @HelpGroup(HelpGroup.LOW_LATENCY)
  @Option(
      names = "--rank-major",
      description =
          "A rank receives a row once, grouped by source rank; the caller sums before the combine"
              + " (ll).")
  private boolean rankMajor;

  @HelpGroup(HelpGroup.LOAD)
  @Option(
      names = "--zero-copy",
      description =
          "Combine rows where peers read them: in the region of the buffer (ll), over the received"
              + " rows (ht).")
  private boolean zeroCopy;

  @HelpGroup(HelpGroup.RANKS)
  @Option(
      names = "--sms",
      split = ",",
      defaultValue = "0",
      paramLabel = "N",
      description =
          "Threads (host) or SMs (cuda) of a rank; cuda measures a list of numbers one by one;"
              + " default 0: chosen by the engine.")
  private List<Integer> sms = List.of(0);

  @Mixin private NcclOptions nccl = new NcclOptions();

  @Mixin private JsonOption json = new JsonOption();
  @Mixin private HtmlOption html = new HtmlOption();
  @Mixin private TraceOption trace = new TraceOption();

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public BenchCommand() {}

  @Override
  public Integer call() throws Exception {
    BenchSettings settings = settings();
    OutputFile artifact = json.file(spec);
    BenchTests tests = tests();
    ResultFiles results = new ResultFiles(artifact, html.file(spec, artifact, !tests.any()), null);
    ResultFiles files = results.with(trace.file(spec, settings.onDevice(), !tests.any(), results));
    int worldSize = ranks(settings);
    nodes.checkWire(CommandSpecs.require(spec), settings.onDevice(), world.join());
    if (!world.join()) {
      BenchLimits.check(CommandSpecs.require(spec), across(settings, worldSize), worldSize);
    }
    boolean threads = world.threads(settings.onDevice());
    return world.run(
        CommandSpecs.require(spec),
        worldSize,
        threads,
        (group, progress) -> {
          int traced = files.trace() == null ? 0 : TraceRecorder.MAX_OPERATIONS;
          try (TraceRecorder recorder = TraceRecorder.of(group, traced)) {
            RankContext context =
                new RankContext(
                    group,
                    new CommandAgreement(group),
                    across(settings, group.size()),
                    progress,
                    files.tables(),
                    recorder);
            return new BenchSession(context, files, tests).run(threads);
          }
        });
  }

  /** Checks the options that depend on the number of ranks; a joined world has its own number. */
  private BenchSettings across(BenchSettings settings, int worldSize) {
    CommandSpecs.checkValue(
        spec,
        !tests().shrink() || worldSize > 1,
        "--ranks",
        worldSize,
        "2 or more for " + TestOptions.SHRINK);
    nodes.check(CommandSpecs.require(spec), worldSize, world.join());
    boolean device = settings.onDevice() && settings.highThroughput() && nodes.declared();
    nccl.check(CommandSpecs.require(spec), device);
    return settings.across(new NodeChoice(nodes.ranksPerNode(worldSize), nodes.wire()));
  }

  private int ranks(BenchSettings settings) {
    if (ranks != null) {
      return ranks;
    }
    return nodes.ranks(settings.onDevice() ? Math.max(1, CudaDevice.count()) : hostRanks());
  }

  /** Ranks of the host engine poll: more ranks than cores measure the scheduler. */
  static int hostRanks() {
    return Math.clamp(Runtime.getRuntime().availableProcessors(), MIN_HOST_RANKS, MAX_HOST_RANKS);
  }

  private BenchSettings.Kind kind() {
    List<String> known = new ArrayList<>();
    for (BenchSettings.Kind kind : BenchSettings.Kind.values()) {
      if (kind.name().equalsIgnoreCase(operations)) {
        return kind;
      }
      known.add(kind.name().toLowerCase(Locale.ROOT));
    }
    known.addAll(CommandSpecs.require(spec).subcommands().keySet());
    String nearest =
        Spelling.nearest(operations, known).map("; did you mean %s?"::formatted).orElse("");
    String last = known.removeLast();
    throw CommandSpecs.usage(
        CommandSpecs.require(spec),
        ErrorCode.UNKNOWN_COMMAND,
        "unknown operation '%s': use %s or %s%s"
            .formatted(operations, String.join(", ", known), last, nearest));
  }

  /** The tests of the options. */
  BenchTests tests() {
    return testOptions.checked(CommandSpecs.require(spec));
  }

  /** The settings of the options. */
  BenchSettings settings() {
    BenchSettings.Kind kind = kind();
    KindOptions.check(CommandSpecs.require(spec), kind);
    range("--ranks", ranks == null ? 1 : ranks, 1, MAX_RANKS);
    range("--tokens", tokens == null ? 0 : tokens, 0, Integer.MAX_VALUE);
    CommandSpecs.checkValue(spec, experts >= 1, "--experts", experts, "at least 1");
    range("--topk", topk, 1, Math.min(experts, BufferConfig.MAX_TOP_K));
    boolean measured = !tests().any();
    CommandSpecs.checkValue(
        spec, measured || sms.size() == 1, "--sms", sms, "one number in a test");
    range("--buffers", buffers == null ? 1 : buffers, 1, 64);
    sms.forEach(number -> range("--sms", number, 0, MAX_SMS));
    int highThroughput = tokens == null ? HIGH_THROUGHPUT_TOKENS : tokens;
    boolean only = kind == BenchSettings.Kind.LL;
    int lowLatency =
        tokens == null ? LOW_LATENCY_TOKENS : only ? tokens : Math.min(tokens, LOW_LATENCY_TOKENS);
    int max = maxTokens == null ? Math.max(1, lowLatency) : maxTokens;
    range(
        "--max-tokens", max, Math.max(1, kind == BenchSettings.Kind.HT ? 1 : lowLatency), 1 << 20);
    Layout rows =
        word("--layout", layout, "flat", "expert-major").equals("flat")
            ? Layout.FLAT
            : Layout.EXPERT_MAJOR;
    CommandSpecs.check(
        spec,
        !applyWeights || rows == Layout.EXPERT_MAJOR,
        ErrorCode.INAPPLICABLE_OPTION,
        "--apply-weights is for expert-major rows only: add --layout expert-major, or leave it"
            + " out");
    CombineOrder sums =
        CombineOrder.valueOf(word("--order", order, "rank", "expert").toUpperCase(Locale.ROOT));
    CommandSpecs.check(
        spec,
        sums == CombineOrder.RANK || only || rows == Layout.EXPERT_MAJOR,
        ErrorCode.INAPPLICABLE_OPTION,
        "--order expert is for expert-major rows only: add --layout expert-major, or leave it out");
    CommandSpecs.check(
        spec,
        sums == CombineOrder.RANK || !(partial || rankMajor),
        ErrorCode.CONFLICTING_OPTIONS,
        "--order expert excludes --partial and --rank-major: their rows are sums of ranks");
    List<Payload> wanted = payloads;
    String engine = engines.device(CommandSpecs.require(spec));
    CommandSpecs.check(
        spec,
        sums == CombineOrder.RANK || only || zeroCopy || !EngineOptions.onDevice(engine),
        ErrorCode.INAPPLICABLE_OPTION,
        "--order expert on GPUs is for rows that peers read: add --zero-copy, or leave it out");
    boolean all = only && tokens == null && maxTokens == null && EngineOptions.onDevice(engine);
    List<Integer> sweep = all ? SWEEP : List.of();
    boolean large =
        kind != BenchSettings.Kind.LL
            && highThroughput >= MANY_TOKENS
            && !EngineOptions.onDevice(engine);
    int sets = buffers != null ? buffers : large ? FEW_SETS : SETS;
    return new BenchSettings(
        kind,
        engine,
        highThroughput,
        lowLatency,
        sweep,
        max,
        hidden,
        topk,
        experts,
        wanted == null ? List.of(Payload.BF16, Payload.FP8) : wanted,
        rows,
        applyWeights,
        sums,
        BenchSettings.Mode.valueOf(
            word("--mode", mode, "exact", "static", "cached", "graph").toUpperCase(Locale.ROOT)),
        routing,
        topkGroups,
        IterationPlan.of(spec, iterations, warmup, sets),
        seed,
        new BenchSettings.LowLatencyVariant(logFmt, hook, zeroCopy, partial, rankMajor),
        sms,
        NodeChoice.HOSTS,
        engines.backends(),
        nccl.choice(CommandSpecs.require(spec), engine));
  }

  private void range(String option, int value, int least, int max) {
    CommandSpecs.checkValue(
        spec, value >= least && value <= max, option, value, least + ".." + max);
  }

  private String word(String option, String value, String... allowed) {
    String lower = value.toLowerCase(Locale.ROOT);
    CommandSpecs.checkValue(
        spec, List.of(allowed).contains(lower), option, value, String.join(", ", allowed));
    return lower;
  }
}
