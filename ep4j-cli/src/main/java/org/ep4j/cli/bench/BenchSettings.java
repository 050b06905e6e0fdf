package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.CombineOrder;
import org.ep4j.bench.NodeChoice;
import org.ep4j.cli.launch.EngineOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;

/**
 * Settings of a bench, equal on every rank.
 *
 * @param kind operations to measure
 * @param device engine: {@code auto}, {@code host} or {@code cuda}
 * @param tokens per rank, high throughput
 * @param lowLatencyTokens tokens per rank, low latency
 * @param sweep numbers of tokens per rank for low latency on GPUs; empty: lowLatencyTokens
 * @param maxTokens maximum of tokens per rank, low latency
 * @param hidden elements of a row
 * @param topk experts per token
 * @param experts number of experts
 * @param payloads formats of the rows, one after the other
 * @param layout row order at the receiver
 * @param applyWeights whether combines of high throughput apply weights
 * @param order of sums: RANK, the default of each kind of operation, or EXPERT
 * @param mode calls of high throughput
 * @param routing how tokens choose experts
 * @param topkGroups nodes that the experts of a token are on, at most; 0: all nodes
 * @param plan numbers of iterations
 * @param seed of inputs and routing
 * @param options variant of low latency
 * @param sms SMs or threads of a rank, 0 = chosen by the engine; the host uses the first
 * @param nodes ranks that share memory
 * @param backends backends between GPUs, measured one after the other
 * @param nccl work of NCCL on the same GPUs
 */
record BenchSettings(
    Kind kind,
    String device,
    int tokens,
    int lowLatencyTokens,
    List<Integer> sweep,
    int maxTokens,
    int hidden,
    int topk,
    int experts,
    List<Payload> payloads,
    Layout layout,
    boolean applyWeights,
    CombineOrder order,
    Mode mode,
    RoutingKind routing,
    int topkGroups,
    IterationPlan plan,
    long seed,
    LowLatencyVariant options,
    List<Integer> sms,
    NodeChoice nodes,
    List<String> backends,
    NcclChoice nccl) {
  /** Operations to measure. */
  enum Kind {
    /** High throughput. */
    HT,
    /** Low latency. */
    LL,
    /** Both. */
    ALL
  }

  /** Calls of high throughput. */
  enum Mode {
    /** The receiver gets the exact number of rows. */
    EXACT,
    /** The caller fixes the number of rows. */
    STATIC,
    /** A dispatch uses the handle of an earlier dispatch. */
    CACHED,
    /** Dispatch with a fixed number of rows, and combine, are captured once and replayed. */
    GRAPH
  }

  /**
   * A variant of low latency.
   *
   * @param logFmt combine in LogFMT-10
   * @param hook split into a sending and a receiving half
   * @param zeroCopy combine from the region of the buffer
   * @param partial ranks sum their rows of a token before they send them
   * @param rankMajor a rank receives a row once, grouped by source rank; the caller sums before the
   *     combine
   */
  record LowLatencyVariant(
      boolean logFmt, boolean hook, boolean zeroCopy, boolean partial, boolean rankMajor) {
    /** Order of the received rows. */
    Layout layout() {
      return rankMajor ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR;
    }

    /** Whether a rank returns one row per token. */
    boolean returnsOnce() {
      return partial || rankMajor;
    }

    /** Format of returned rows, for tables. */
    String returnedWord() {
      return logFmt ? "logfmt10" : word(Payload.BF16);
    }

    /** Bytes of a returned row. */
    double returnedBytes(int hidden) {
      return logFmt
          ? hidden * LOGFMT_BITS / 8.0 + (double) hidden / LOGFMT_BLOCK * Float.BYTES
          : DType.BF16.bytes(hidden);
    }
  }

  /** Groups of rows that a rank receives in low latency. */
  long latencyGroups(int ranks, int localExperts) {
    return options.rankMajor ? ranks : localExperts;
  }

  /** Capacity of a group in rows. */
  long latencyCapacity(int ranks) {
    return (options.rankMajor ? 1L : ranks) * maxTokens;
  }

  private static final int LOGFMT_BITS = 10;
  private static final int LOGFMT_BLOCK = 128;

  private static final int SMALL_TOKENS = 32;

  /** A multiple of the block of every payload. */
  private static final int SMALL_HIDDEN = 128;

  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  /** Whether GPUs do the work. */
  boolean onDevice() {
    return EngineOptions.onDevice(device);
  }

  /** Whether the caller fixes the number of rows. */
  boolean staticSizes() {
    return mode == Mode.STATIC || mode == Mode.GRAPH;
  }

  boolean highThroughput() {
    return kind != Kind.LL;
  }

  boolean lowLatency() {
    return kind != Kind.HT;
  }

  /**
   * These settings with few short rows, which a bench runs before it draws its inputs: until the
   * JIT compiler has finished, a vector operation is a slow call, and large operations consist of
   * these calls.
   */
  BenchSettings small() {
    return few(Math.min(SMALL_HIDDEN, hidden));
  }

  /** These settings with few rows of full length, which use the same kernels. */
  BenchSettings few() {
    return few(hidden);
  }

  private BenchSettings few(int length) {
    int rows = Math.min(SMALL_TOKENS, Math.max(tokens, lowLatencyTokens));
    return with(payloads, rows, rows, Math.max(1, rows), length, new IterationPlan(1, 0, 1));
  }

  /** These settings with one payload. */
  BenchSettings only(Payload payload) {
    return with(List.of(payload), tokens, lowLatencyTokens, maxTokens, hidden, plan);
  }

  /** These settings with another number of tokens per rank in low latency. */
  BenchSettings latency(int rows) {
    int max = sweep.isEmpty() ? maxTokens : Math.max(1, rows);
    return with(payloads, tokens, rows, max, hidden, plan);
  }

  /** These settings with other nodes. */
  BenchSettings across(NodeChoice choice) {
    return where(choice, backends);
  }

  /** These settings with one backend. */
  BenchSettings on(String backend) {
    return where(nodes, List.of(backend));
  }

  private BenchSettings where(NodeChoice choice, List<String> reach) {
    return new BenchSettings(
        kind,
        device,
        tokens,
        lowLatencyTokens,
        sweep,
        maxTokens,
        hidden,
        topk,
        experts,
        payloads,
        layout,
        applyWeights,
        order,
        mode,
        routing,
        topkGroups,
        plan,
        seed,
        options,
        sms,
        choice,
        reach,
        nccl);
  }

  private BenchSettings with(
      List<Payload> rowsTravelAs,
      int highThroughputRows,
      int lowLatencyRows,
      int maxRows,
      int rowLength,
      IterationPlan work) {
    return new BenchSettings(
        kind,
        device,
        highThroughputRows,
        lowLatencyRows,
        sweep,
        maxRows,
        rowLength,
        topk,
        experts,
        rowsTravelAs,
        layout,
        applyWeights,
        order,
        mode,
        routing,
        topkGroups,
        work,
        seed,
        options,
        sms,
        nodes,
        backends,
        nccl);
  }

  /** Row order at the receiver and what combines do with it, for tables. */
  String layoutWords() {
    return layout == Layout.FLAT
        ? "flat"
        : "expert-major" + (applyWeights ? ", weights applied" : "") + orderWords();
  }

  /** The order of sums for tables, empty for the default. */
  String orderWords() {
    return order == CombineOrder.EXPERT ? ", summed by experts" : "";
  }

  /** The order of the sums of low latency, whose default is that of the choices. */
  CombineOrder lowLatencyOrder() {
    return order == CombineOrder.EXPERT ? CombineOrder.EXPERT : CombineOrder.CHOICE;
  }

  /** Draws the routing of an input set. */
  RoutingGenerator generator(int set, int ranks) {
    int groups = topkGroups == 0 ? 1 : nodes.count(ranks);
    return new RoutingGenerator(
        routing, seed + set, experts, topk, groups, topkGroups == 0 ? 1 : topkGroups);
  }

  /** Format of rows in high throughput. */
  Payload payload() {
    return payloads.getFirst();
  }

  /** The buffer for high throughput. */
  BufferConfig highThroughputConfig(int ranks) {
    return config(ranks).highThroughput(highThroughputPart(List.of(payload()), layout)).build();
  }

  /** The buffer for all operations with all payloads. */
  BufferConfig pressureConfig(int ranks) {
    BufferConfig.Builder config = config(ranks);
    if (highThroughput()) {
      config.highThroughput(highThroughputPart(payloads, Layout.FLAT, Layout.EXPERT_MAJOR));
    }
    if (lowLatency()) {
      config.lowLatency(maxTokens);
    }
    return config.build();
  }

  private HighThroughputConfig highThroughputPart(List<Payload> travelling, Layout... layouts) {
    DType widest =
        travelling.stream()
            .flatMap(each -> Stream.of(each.sums(), each.rows()))
            .max(Comparator.comparingInt(DType::bits))
            .orElseThrow();
    return HighThroughputConfig.builder()
        .maxTokens(Math.max(1, tokens))
        .rowDType(widest)
        .layouts(layouts)
        .combineInPlace(options.zeroCopy())
        .build();
  }

  /** The buffer for low latency. */
  BufferConfig lowLatencyConfig(int ranks) {
    return config(ranks).lowLatency(maxTokens).build();
  }

  private BufferConfig.Builder config(int ranks) {
    return BufferConfig.builder()
        .engine(onDevice() ? EngineName.CUDA : device)
        .hidden(hidden)
        .topK(topk)
        .placement(ExpertPlacement.blocks(experts, ranks))
        .timeout(TIMEOUT)
        .parallelism(sms.getFirst())
        .ranksPerNode(nodes.ranksPerNode())
        .wire(nodes.wire())
        .backend(backends.getFirst());
  }

  /** The fields for the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("kind", word(kind));
    tree.put("device", device);
    tree.put("tokens", tokens);
    tree.put("ll_tokens", sweep.isEmpty() ? List.of(lowLatencyTokens) : sweep);
    tree.put("max_tokens", maxTokens);
    tree.put("hidden", hidden);
    tree.put("topk", topk);
    tree.put("experts", experts);
    tree.put("dtypes", payloads.stream().map(BenchSettings::word).toList());
    tree.put("layout", word(layout).replace('_', '-'));
    tree.put("apply_weights", applyWeights);
    tree.put("order", word(order));
    tree.put("mode", word(mode));
    tree.put("routing", word(routing));
    tree.put("topk_groups", topkGroups);
    // Each result has its own numbers; these are the user's.
    tree.put("iterations", plan.iterations() > 0 ? plan.iterations() : null);
    tree.put("warmup", plan.warmup() >= 0 ? plan.warmup() : null);
    tree.put("buffers", plan.buffers());
    tree.put("seed", seed);
    tree.put("logfmt", options.logFmt);
    tree.put("hook", options.hook);
    tree.put("zero_copy", options.zeroCopy);
    tree.put("partial", options.partial);
    tree.put("rank_major", options.rankMajor);
    tree.put("sms", sms);
    tree.put("ranks_per_node", nodes.ranksPerNode());
    tree.put("backends", onDevice() ? backends : List.of());
    tree.put("beside_nccl", nccl.background());
    return tree;
  }

  /** Name of a constant on the command line. */
  static String word(Enum<?> choice) {
    return choice.name().toLowerCase(Locale.ROOT);
  }
}
