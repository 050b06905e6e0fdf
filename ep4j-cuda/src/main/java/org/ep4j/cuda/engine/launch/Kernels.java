package org.ep4j.cuda.engine.launch;

import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.jit.KernelConstants;
import org.ep4j.cuda.jit.KernelName;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.ep4j.cuda.struct.CombineParameters;
import org.ep4j.cuda.struct.DispatchParameters;
import org.ep4j.cuda.struct.ExpertIdsParameters;
import org.ep4j.cuda.struct.LayoutParameters;
import org.ep4j.cuda.struct.ScaleRowsParameters;
import org.ep4j.cuda.struct.Struct;
import org.ep4j.cuda.struct.TransposeParameters;
import org.ep4j.engine.Limits;
import org.ep4j.tensor.DType;

/** The compiled kernels of one buffer on its device, and their shared memory. */
public final class Kernels implements AutoCloseable {
  /** Threads of a block, as in the kernels' launch bounds. */
  public static final int THREADS = 512;

  /** Warps of a block. */
  public static final int WARPS = THREADS / 32;

  /**
   * Threads of a block of the combines of EXPERT_MAJOR rows within one node, with bulk copies: one
   * more warp notifies.
   */
  private static final int EXPERT_COMBINE_THREADS = THREADS + 32;

  /** Threads of a block of the kernels of one thread a token or choice. */
  public static final int LAYOUT_THREADS = 256;

  /** Threads of a block of the kernels that transpose scales. */
  private static final int TRANSPOSE_THREADS = 256;

  private static final String DISPATCH = "dispatch/dispatch.cu";
  private static final String EXPERT_DISPATCH = "dispatch/expert_dispatch.cu";
  private static final String COMBINE = "combine/combine.cu";
  private static final String EXPERT_COMBINE = "combine/expert_combine.cu";
  private static final String WEIGHTED_EXPERT_COMBINE = "combine/weighted_expert_combine.cu";
  private static final String EXPERT_PULL_COMBINE = "combine/expert_pull_combine.cu";
  private static final String INTERNODE_DISPATCH = "internode/internode_dispatch.cu";
  private static final String INTERNODE_EXPERT_DISPATCH = "internode/internode_expert_dispatch.cu";
  private static final String INTERNODE_COMBINE = "internode/internode_combine.cu";
  private static final String INTERNODE_WEIGHTED_COMBINE =
      "internode/internode_weighted_combine.cu";
  private static final String INTERNODE_BY_EXPERTS = "internode/internode_by_experts.cu";
  private static final String LAYOUT = "dispatch/layout.cu";
  private static final String TRANSPOSE_SCALES = "dispatch/transpose_scales.cu";
  private static final String SCALE_ROWS = "dispatch/scale_rows.cu";
  private static final String EXPERT_IDS = "dispatch/expert_ids.cu";

  /** Row types with sums. */
  private static final List<DType> SUMMED = List.of(DType.BF16, DType.FP16, DType.FP32);

  private final ResourceStack owned = new ResourceStack();
  private final KernelConstants constants;

  /** Dynamic shared memory of a block. */
  public final int sharedBytes;

  public final KernelCall<DispatchParameters> dispatch;
  public final KernelCall<DispatchParameters> expertDispatch;
  public final KernelCall<LayoutParameters> layout;
  public final KernelCall<TransposeParameters> transposeScales;
  public final KernelCall<ScaleRowsParameters> scaleRows;
  public final KernelCall<ExpertIdsParameters> expertIds;

  private final Map<DType, KernelCall<CombineParameters>> flatCombines = new EnumMap<>(DType.class);
  private final Map<DType, KernelCall<CombineParameters>> flatPushes = new EnumMap<>(DType.class);

  /**
   * Pulls in the order of experts; none on GPUs without bulk copies, and between nodes unless the
   * buffer declares that experts write their rows where other ranks can read them.
   */
  private final Map<DType, KernelCall<CombineParameters>> pullsByExperts =
      new EnumMap<>(DType.class);

  /** The same in the order of ranks; none between nodes. */
  private final Map<DType, KernelCall<CombineParameters>> pullsByRanks = new EnumMap<>(DType.class);

  private final ExpertCombines expertCombines;

  /** Multiply the rows by their weights. */
  private final ExpertCombines weightedCombines;

  /**
   * The combines of EXPERT_MAJOR rows.
   *
   * @param rounding by type of the rows, in which partial sums are sent
   * @param exact by type of the rows; partial sums are sent as float32
   */
  private record ExpertCombines(
      Map<DType, KernelCall<CombineParameters>> rounding,
      Map<DType, KernelCall<CombineParameters>> exact) {}

  /**
   * A kernel file, compiled for the shape of the buffer and for any; the same where the buffer has
   * no constants.
   *
   * @param ofBuffer for operations with as many choices a token as the buffer has
   * @param ofAnyShape for those with fewer choices. Loaded while the buffer opens, too: to load a
   *     kernel waits for those that run on the GPU, which may wait for the rank that loads
   */
  private record Modules(CudaModule ofBuffer, CudaModule ofAnyShape) {}

  /**
   * @param files source of the kernels that access other ranks
   * @param config with settled placement
   * @param internode whether the ranks are on several nodes
   */
  public Kernels(KernelFiles files, BufferConfig config, boolean internode) {
    constants = constants(config, internode);
    CudaDevice device = files.device();
    KernelFiles plain = new KernelFiles(device, null);
    boolean complete = false;
    try {
      String prefix = internode ? "internode_" : "";
      Modules dispatching = load(files, internode ? INTERNODE_DISPATCH : DISPATCH);
      Modules grouping = load(files, internode ? INTERNODE_EXPERT_DISPATCH : EXPERT_DISPATCH);
      CudaModule counting = plain.load(owned, LAYOUT, KernelConstants.NONE);
      CudaModule transposing = plain.load(owned, TRANSPOSE_SCALES, KernelConstants.NONE);
      CudaModule turning = plain.load(owned, SCALE_ROWS, KernelConstants.NONE);
      CudaModule translating = plain.load(owned, EXPERT_IDS, KernelConstants.NONE);
      String first = prefix + "dispatch_kernel";
      int staticBytes =
          dispatching
              .ofBuffer
              .kernel(KernelName.symbol(first, new DispatchParameters().name()))
              .staticSharedBytes();
      // Room for the static shared memory of any of them, less than 1024 bytes: words that warps
      // share, notices of pushes and, between nodes, the world and notices of filled slots.
      sharedBytes =
          (device.properties().sharedBytesPerBlock() - Math.max(1024, staticBytes)) / 1024 * 1024;
      dispatch = call(dispatching, first, new DispatchParameters());
      expertDispatch = call(grouping, prefix + "expert_dispatch_kernel", new DispatchParameters());
      if (internode) {
        // One kernel for both layouts.
        String name = "internode_combine_kernel";
        expertCombines = combines(load(files, INTERNODE_COMBINE), name, THREADS);
        weightedCombines = combines(load(files, INTERNODE_WEIGHTED_COMBINE), name, THREADS);
        flatCombines.putAll(expertCombines.rounding);
        flatPushes.putAll(expertCombines.rounding);
        if (device.properties().hasBulkCopies() && Limits.writesExpertRowsInPlace(config)) {
          Modules pulls = load(files, INTERNODE_BY_EXPERTS);
          for (DType dtype : SUMMED) {
            pullsByExperts.put(
                dtype, combine(pulls, "internode_by_experts_kernel", dtype, "", THREADS));
          }
        }
      } else {
        Modules flat = load(files, COMBINE);
        for (DType dtype : SUMMED) {
          flatCombines.put(dtype, combine(flat, "combine_kernel", dtype, "", THREADS));
          flatPushes.put(dtype, combine(flat, "combine_kernel", dtype, "_push", THREADS));
        }
        String name = "expert_combine_kernel";
        int threads = device.properties().hasBulkCopies() ? EXPERT_COMBINE_THREADS : THREADS;
        expertCombines = combines(load(files, EXPERT_COMBINE), name, threads);
        weightedCombines = combines(load(files, WEIGHTED_EXPERT_COMBINE), name, threads);
        if (device.properties().hasBulkCopies()) {
          Modules pulls = load(files, EXPERT_PULL_COMBINE);
          for (DType dtype : SUMMED) {
            pullsByExperts.put(dtype, combine(pulls, "pull_by_experts_kernel", dtype, "", THREADS));
            pullsByRanks.put(dtype, combine(pulls, "pull_by_ranks_kernel", dtype, "", THREADS));
          }
        }
      }
      layout =
          owned.own(
              new KernelCall<>(
                  counting, "layout_kernel", new LayoutParameters(), LAYOUT_THREADS, 0));
      transposeScales =
          owned.own(
              new KernelCall<>(
                  transposing,
                  "transpose_scales_kernel",
                  new TransposeParameters(),
                  TRANSPOSE_THREADS,
                  0));
      scaleRows =
          owned.own(
              new KernelCall<>(
                  turning, "scale_rows_kernel", new ScaleRowsParameters(), TRANSPOSE_THREADS, 0));
      expertIds =
          owned.own(
              new KernelCall<>(
                  translating, "expert_ids_kernel", new ExpertIdsParameters(), LAYOUT_THREADS, 0));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Compile-time constants of the kernels of a buffer, see {@code common/specialized.cuh}. None
   * between nodes, where wires are the limit.
   */
  private static KernelConstants constants(BufferConfig config, boolean internode) {
    if (internode) {
      return KernelConstants.NONE;
    }
    int ranks = Objects.requireNonNull(config.placement(), "settled placement").ranks();
    return new KernelConstants(
        Map.of(), PrebuiltKernels.highThroughputConstants(ranks, config.experts(), config.topK()));
  }

  /** Files that access other ranks, looked up while a buffer opens; see the constructor. */
  public static Map<String, KernelConstants> files(BufferConfig config, boolean internode) {
    KernelConstants constants = constants(config, internode);
    Map<String, KernelConstants> entries = new LinkedHashMap<>();
    if (internode && Limits.writesExpertRowsInPlace(config)) {
      entries.put(INTERNODE_BY_EXPERTS, constants);
    }
    List<String> files =
        internode
            ? List.of(
                INTERNODE_DISPATCH,
                INTERNODE_EXPERT_DISPATCH,
                INTERNODE_COMBINE,
                INTERNODE_WEIGHTED_COMBINE)
            : List.of(
                DISPATCH,
                EXPERT_DISPATCH,
                COMBINE,
                EXPERT_COMBINE,
                WEIGHTED_EXPERT_COMBINE,
                EXPERT_PULL_COMBINE);
    for (String entry : files) {
      entries.put(entry, constants);
    }
    return entries;
  }

  /**
   * Those within a node, for operations with fewer choices a token than the buffer has. Between
   * nodes they are the same kernels.
   */
  public static Map<String, KernelConstants> filesOfAnyShape(BufferConfig config) {
    Map<String, KernelConstants> entries = files(config, false);
    entries.replaceAll((_, constants) -> constants.withoutShape());
    return entries;
  }

  /** Files that access no other rank. */
  public static Map<String, KernelConstants> filesOfOneRank() {
    return Map.of(
        LAYOUT, KernelConstants.NONE,
        TRANSPOSE_SCALES, KernelConstants.NONE,
        SCALE_ROWS, KernelConstants.NONE,
        EXPERT_IDS, KernelConstants.NONE);
  }

  private Modules load(KernelFiles files, String entry) {
    CudaModule ofBuffer = files.load(owned, entry, constants);
    return new Modules(
        ofBuffer,
        constants.isSpecial() ? files.load(owned, entry, constants.withoutShape()) : ofBuffer);
  }

  private ExpertCombines combines(Modules modules, String name, int threads) {
    ExpertCombines all = new ExpertCombines(new EnumMap<>(DType.class), new EnumMap<>(DType.class));
    for (DType dtype : SUMMED) {
      KernelCall<CombineParameters> rounding = combine(modules, name, dtype, "", threads);
      all.rounding.put(dtype, rounding);
      all.exact.put(
          dtype, dtype == DType.FP32 ? rounding : combine(modules, name, dtype, "_exact", threads));
    }
    return all;
  }

  private KernelCall<CombineParameters> combine(
      Modules modules, String name, DType dtype, String end, int threads) {
    String symbol = name + "_" + dtype.name().toLowerCase(Locale.ROOT) + end;
    return call(modules, symbol, new CombineParameters(), threads);
  }

  private <P extends Struct> KernelCall<P> call(Modules modules, String name, P parameters) {
    return call(modules, name, parameters, THREADS);
  }

  private <P extends Struct> KernelCall<P> call(
      Modules modules, String name, P parameters, int threads) {
    return owned.own(
        new KernelCall<>(
            modules.ofBuffer, modules.ofAnyShape, name, parameters, threads, sharedBytes, false));
  }

  /**
   * The combine of FLAT rows of a summed type.
   *
   * @param readable whether peers can read the rows of this rank
   */
  public KernelCall<CombineParameters> flatCombine(DType dtype, boolean readable) {
    return of(readable ? flatCombines : flatPushes, dtype);
  }

  /**
   * The combine of EXPERT_MAJOR rows of a summed type.
   *
   * @param exact whether partial sums are sent as float32
   * @param weighted whether rows are multiplied by their weights
   */
  public KernelCall<CombineParameters> expertCombine(DType dtype, boolean exact, boolean weighted) {
    ExpertCombines combines = weighted ? weightedCombines : expertCombines;
    return of(exact ? combines.exact : combines.rounding, dtype);
  }

  /** Whether there are combines in the order of experts. */
  public boolean combinesByExperts() {
    return !pullsByExperts.isEmpty();
  }

  /**
   * The combine that pulls EXPERT_MAJOR rows of a summed type.
   *
   * @param byExperts whether in the order of experts, or of ranks
   */
  public KernelCall<CombineParameters> expertPull(DType dtype, boolean byExperts) {
    return of(byExperts ? pullsByExperts : pullsByRanks, dtype);
  }

  private static KernelCall<CombineParameters> of(
      Map<DType, KernelCall<CombineParameters>> combines, DType dtype) {
    return Objects.requireNonNull(combines.get(dtype), "rows of a type that is summed");
  }

  @Override
  public void close() {
    owned.close();
  }
}
