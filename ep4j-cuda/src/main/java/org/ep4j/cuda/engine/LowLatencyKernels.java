package org.ep4j.cuda.engine;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.BufferConfig;
import org.ep4j.InvalidArgumentException;
import org.ep4j.RowFormat;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.jit.KernelCompiler;

/** The low-latency kernels of one buffer on its device, and how they use shared memory. */
final class LowLatencyKernels implements AutoCloseable {
  /** Words of a rank in the shared memory of a dispatch: an address and two numbers. */
  private static final int RANK_WORDS = 4;

  private static final String DISPATCH = "low_latency_dispatch.cu";
  private static final String COMBINE = "low_latency_combine.cu";

  /** The files they are in. */
  static final List<String> ENTRIES = List.of(DISPATCH, COMBINE);

  private final List<AutoCloseable> owned = new ArrayList<>();

  /** Warps that count experts at once. */
  final int countWarps;

  /** Shared memory of a block of a dispatch. */
  final int dispatchBytes;

  /** Shared memory of a block of a combine. */
  final int combineBytes;

  private final KernelCall<LowLatencyField> bf16;
  private final KernelCall<LowLatencyField> fp8;
  private final KernelCall<LowLatencyField> nvfp4;
  private final KernelCall<LowLatencyField> sums;
  private final KernelCall<LowLatencyField> logFmt;
  private final KernelCall<LowLatencyField> partial;

  /**
   * @param sharedBytes what a block may use
   * @param localExperts experts of this rank
   */
  LowLatencyKernels(
      CudaDevice device, BufferConfig config, int ranks, int localExperts, int sharedBytes) {
    long tables = (long) RANK_WORDS * ranks + config.experts();
    long words = sharedBytes / Integer.BYTES - tables;
    long places = localExperts * (ranks + 1L);
    countWarps = Math.clamp(words / config.experts(), 0, Kernels.WARPS);
    if (countWarps == 0 || places > words) {
      throw new InvalidArgumentException(
          "experts",
          config.experts() + ", " + localExperts + " of them on a rank of " + ranks,
          "few enough for their counters, "
              + Math.max(places, config.experts())
              + " of at most "
              + words,
          "use more ranks, or the high-throughput operations");
    }
    long needed = tables + Math.max(places, (long) countWarps * config.experts());
    dispatchBytes = (int) needed * Integer.BYTES;
    combineBytes = ranks * Long.BYTES;
    KernelCompiler compiler = KernelCompiler.standard();
    CudaModule dispatching = load(compiler, device, DISPATCH);
    CudaModule combining = load(compiler, device, COMBINE);
    bf16 = call(dispatching, "ep4j_low_latency_dispatch_bf16", dispatchBytes);
    fp8 = call(dispatching, "ep4j_low_latency_dispatch_fp8", dispatchBytes);
    nvfp4 = call(dispatching, "ep4j_low_latency_dispatch_nvfp4", dispatchBytes);
    sums = call(combining, "ep4j_low_latency_combine", combineBytes);
    logFmt = call(combining, "ep4j_low_latency_combine_logfmt", combineBytes);
    partial = call(combining, "ep4j_low_latency_combine_partial", combineBytes);
  }

  private CudaModule load(KernelCompiler compiler, CudaDevice device, String entry) {
    CudaModule module = compiler.load(device, entry, Map.of());
    owned.add(module);
    return module;
  }

  private KernelCall<LowLatencyField> call(CudaModule module, String name, int sharedBytes) {
    KernelCall<LowLatencyField> call =
        new KernelCall<>(module.kernel(name), LowLatencyField.class, Kernels.THREADS, sharedBytes);
    owned.add(call);
    return call;
  }

  KernelCall<LowLatencyField> dispatch(RowFormat format) {
    return switch (format) {
      case BF16 -> bf16;
      case FP8 -> fp8;
      case NVFP4 -> nvfp4;
    };
  }

  KernelCall<LowLatencyField> combine(boolean encoded, boolean partialRounding) {
    return encoded ? logFmt : partialRounding ? partial : sums;
  }

  @Override
  public void close() {
    for (int i = owned.size() - 1; i >= 0; i--) {
      try {
        owned.get(i).close();
      } catch (Exception e) {
        throw e instanceof RuntimeException known ? known : new IllegalStateException(e);
      }
    }
  }
}
