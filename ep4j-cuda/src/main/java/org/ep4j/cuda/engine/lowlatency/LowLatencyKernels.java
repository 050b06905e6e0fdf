package org.ep4j.cuda.engine.lowlatency;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.KernelFiles;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.jit.KernelConstants;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Limits;
import org.ep4j.engine.RenamedVariables;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.RowFormat;
import org.jspecify.annotations.Nullable;

/**
 * The low-latency kernels of one buffer on its device, and their use of shared memory. Those for
 * its longest rows are compiled for its shape; shorter rows need those for any shape. Used by one
 * thread at a time.
 */
public final class LowLatencyKernels implements AutoCloseable {

  /** Words per rank in the shared memory of a dispatch: two addresses and two numbers. */
  private static final int RANK_WORDS = 6;

  /** Bytes per rank in the shared memory of a combine: two addresses and a number. */
  private static final int RANK_BYTES = 20;

  /** Tokens whose routing is published together, one bit of a word each. */
  private static final int GROUP = 32;

  private static final String DISPATCH = "lowlatency/low_latency_dispatch";
  private static final String WEIGHTED_DISPATCH = "lowlatency/low_latency_weighted_dispatch";
  private static final String COMBINE = "lowlatency/low_latency_combine";
  private static final String DISPATCH_RANK_MAJOR = "lowlatency/low_latency_dispatch_rank_major";
  private static final String COMBINE_RANK_MAJOR = "lowlatency/low_latency_combine_rank_major";

  /**
   * First major compute capability whose kernels may start before the previous kernel has ended.
   */
  private static final int FIRST_TO_START_EARLY = 9;

  /** The ranks that kernels access; each case has its own files. */
  public enum Reach {
    /** One node. */
    NODE(".cu"),
    /** Several nodes, whose memory kernels write directly. */
    MAPPED("_mapped.cu"),
    /** Several nodes; a wire transports what kernels write locally. */
    PUTS("_puts.cu");

    private final String suffix;

    /** The case for {@code internode}; null: one node. */
    public static Reach of(@Nullable InternodeConnection internode) {
      return internode == null ? NODE : internode.puts() ? PUTS : MAPPED;
    }

    Reach(String suffix) {
      this.suffix = suffix;
    }
  }

  private final ResourceStack owned = new ResourceStack();
  private final KernelFiles files;
  private final Reach reach;

  /** Tokens whose routing is published together. */
  final int tileTokens;

  /** Shared memory of a block of a dispatch. */
  final int dispatchBytes;

  /** Shared memory of a block of a combine. */
  final int combineBytes;

  private final boolean startsEarly;
  private final List<KernelCall<LowLatencyParameters>> calls = new ArrayList<>();

  /** Elements of the longest rows. */
  private final int hidden;

  /** For these rows. */
  private final KernelSet ofBuffer;

  /**
   * For all other rows. Loaded while the buffer opens, too: to load a kernel waits for those that
   * run on the GPU, which may wait for the rank that loads.
   */
  private final KernelSet ofAnyShape;

  /** The kernels with one choice of compile-time constants. */
  private final class KernelSet {
    private final Dispatches expertMajor;

    /** Deliver the weights of the rows. */
    private final Dispatches weighted;

    private final Dispatches rankMajor;
    private final KernelCall<LowLatencyParameters> sums;
    private final KernelCall<LowLatencyParameters> logFmt;
    private final KernelCall<LowLatencyParameters> partial;
    private final KernelCall<LowLatencyParameters> summed;

    KernelSet(KernelConstants constants) {
      expertMajor = dispatches(load(DISPATCH, constants));
      weighted = dispatches(load(WEIGHTED_DISPATCH, constants));
      rankMajor = dispatches(load(DISPATCH_RANK_MAJOR, constants));
      CudaModule combining = load(COMBINE, constants);
      sums = call(combining, "combine_bf16", combineBytes);
      logFmt = call(combining, "combine_logfmt", combineBytes);
      partial = call(combining, "combine_partial", combineBytes);
      CudaModule adding = load(COMBINE_RANK_MAJOR, constants);
      summed = call(adding, "combine_summed", combineBytes);
    }

    private CudaModule load(String entry, KernelConstants constants) {
      return files.load(owned, entry + reach.suffix, constants);
    }

    private Dispatches dispatches(CudaModule module) {
      return new Dispatches(
          call(module, "dispatch_bf16", dispatchBytes),
          call(module, "dispatch_fp8", dispatchBytes),
          call(module, "dispatch_nvfp4", dispatchBytes));
    }

    private KernelCall<LowLatencyParameters> call(CudaModule module, String name, int sharedBytes) {
      KernelCall<LowLatencyParameters> call =
          owned.own(
              new KernelCall<>(
                  module,
                  "low_latency::" + name,
                  new LowLatencyParameters(),
                  Kernels.THREADS,
                  sharedBytes,
                  startsEarly));
      calls.add(call);
      return call;
    }
  }

  /** Dispatches of one layout. */
  private record Dispatches(
      KernelCall<LowLatencyParameters> bf16,
      KernelCall<LowLatencyParameters> fp8,
      KernelCall<LowLatencyParameters> nvfp4) {
    KernelCall<LowLatencyParameters> of(RowFormat format) {
      return switch (format) {
        case BF16 -> bf16;
        case FP8 -> fp8;
        case NVFP4 -> nvfp4;
      };
    }
  }

  /**
   * @param files source of the kernels
   * @param reach the ranks that the kernels access
   * @param llPackets whether rows travel as packed flags within a node
   * @param sharedBytes shared memory available to a block
   * @param localExperts experts of this rank
   */
  public LowLatencyKernels(
      KernelFiles files,
      BufferConfig config,
      Reach reach,
      boolean llPackets,
      int localExperts,
      int sharedBytes) {
    this.files = files;
    this.reach = reach;
    hidden = config.hidden();
    int ranks = ranksOf(config);
    long counted = localExperts + 1L;
    long tables = (long) RANK_WORDS * ranks + config.experts() + 2 + counted * (ranks + 1L);
    long words = sharedBytes / Integer.BYTES - tables;
    long max = Math.ceilDiv(Limits.lowLatencyTokens(config), GROUP);
    // A tile has one counter per expert and rank, and per group of tokens one word for the group
    // and one for each choice.
    long counters = (long) config.experts() + ranks;
    long groupWords = counters + (long) GROUP * config.topK();
    long groups = Math.clamp((words - counters) / groupWords, 0, max);
    if (groups == 0) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_EXPERT_COUNTERS,
          "experts",
          config.experts() + ", " + localExperts + " of them on a rank of " + ranks,
          "few enough for their counters, "
              + (tables + counters + groupWords)
              + " of at most "
              + (tables + words),
          "use more ranks, or the high-throughput operations");
    }
    tileTokens = (int) groups * GROUP;
    long needed = tables + counters + groups * groupWords;
    dispatchBytes = (int) needed * Integer.BYTES;
    combineBytes = ranks * RANK_BYTES;
    KernelConstants constants = constants(config, ranks, llPackets);
    startsEarly = files.device().properties().major() >= FIRST_TO_START_EARLY;
    boolean complete = false;
    try {
      ofBuffer = new KernelSet(constants);
      // Linked kernels have no constants.
      ofAnyShape =
          files.transport() == null && constants.isSpecial()
              ? new KernelSet(constants.withoutShape())
              : ofBuffer;
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Files to look up while a buffer opens. The ranks of a node have not exchanged their devices
   * yet, so the use of packed flags is a guess.
   */
  public static Map<String, KernelConstants> files(int device, BufferConfig config, Reach reach) {
    boolean llPackets =
        reach == Reach.NODE
            && wantsPackets(System.getenv())
            && IntStream.range(0, CudaDevice.count())
                .allMatch(other -> CudaDevice.areLinked(device, other));
    KernelConstants constants = constants(config, ranksOf(config), llPackets);
    Map<String, KernelConstants> entries = new LinkedHashMap<>();
    for (String file :
        List.of(DISPATCH, WEIGHTED_DISPATCH, COMBINE, DISPATCH_RANK_MAJOR, COMBINE_RANK_MAJOR)) {
      entries.put(file + reach.suffix, constants);
    }
    return entries;
  }

  /** The same for the kernels that shorter rows need. */
  public static Map<String, KernelConstants> filesOfAnyShape(
      int device, BufferConfig config, Reach reach) {
    Map<String, KernelConstants> entries = files(device, config, reach);
    entries.replaceAll((_, constants) -> constants.withoutShape());
    return entries;
  }

  private static int ranksOf(BufferConfig config) {
    return Objects.requireNonNull(config.placement(), "settled placement").ranks();
  }

  /** Whether low-latency rows carry packed flags if NVLink connects all GPUs. */
  public static boolean wantsPackets(Map<String, String> environment) {
    String setting = RenamedVariables.value(environment, PrebuiltKernels.LL_PACKETS_VARIABLE);
    return setting == null || !setting.strip().equals("0");
  }

  /** Compile-time constants of the kernels of a buffer; see {@code low_latency.cuh}. */
  private static KernelConstants constants(BufferConfig config, int ranks, boolean llPackets) {
    return new KernelConstants(
        llPackets ? PrebuiltKernels.LL_PACKETS : Map.of(),
        PrebuiltKernels.lowLatencyConstants(
            config.hidden(), ranks, config.experts(), config.topK(), Limits.masking(config)));
  }

  /** All kernels. */
  List<KernelCall<LowLatencyParameters>> calls() {
    return calls;
  }

  private KernelSet of(int elements) {
    return elements == hidden ? ofBuffer : ofAnyShape;
  }

  /**
   * A dispatch of rows of {@code elements} elements.
   *
   * @param delivers whether weights are delivered; RANK_MAJOR has one kernel for both cases
   */
  KernelCall<LowLatencyParameters> dispatch(
      int elements, RowFormat format, boolean asRankMajor, boolean delivers) {
    KernelSet set = of(elements);
    return (asRankMajor ? set.rankMajor : delivers ? set.weighted : set.expertMajor).of(format);
  }

  KernelCall<LowLatencyParameters> combine(int elements, boolean encoded, boolean partialRounding) {
    KernelSet set = of(elements);
    return encoded ? set.logFmt : partialRounding ? set.partial : set.sums;
  }

  /** The combine of rows that callers have summed. */
  KernelCall<LowLatencyParameters> combineRankMajor(int elements) {
    return of(elements).summed;
  }

  @Override
  public void close() {
    owned.close();
  }
}
