package org.ep4j.cuda.struct;

/**
 * What kernels have counted in the last windows of operations, in mapped host memory: records of
 * windows follow. See {@code kernels/common/observation.cuh}.
 */
public final class ObservedWindows extends Struct {
  /** For offsets; placed nowhere. */
  public static final ObservedWindows WORDS = new ObservedWindows();

  /** Complete windows since the buffer was opened or reset: last block, release. */
  public final U64 complete = u64("complete");

  /** Time of the end of the first operation since then: last block. */
  public final U64 began = u64("began");

  public ObservedWindows() {
    super("ObservedWindows");
  }
}
