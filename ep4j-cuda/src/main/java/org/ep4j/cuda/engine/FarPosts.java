package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.far.FarConnection;

/**
 * What low-latency kernels know where a wire carries rows to other nodes, on the device: {@code
 * FarPosts} of {@code kernels/low_latency_posts.cuh}, and behind it what counters were when numbers
 * began, which is nothing.
 */
final class FarPosts implements AutoCloseable {
  /** Counters that each rank has of each rank. */
  private static final int COUNTERS = 5;

  private final DeviceMemory memory;

  FarPosts(CudaDevice device, FarConnection far, LowLatencyLayout layout, int ranks) {
    int fields = FarPostsField.values().length;
    long[] image = new long[fields + counters(ranks)];
    memory = DeviceMemory.allocate(device, (long) image.length * Long.BYTES);
    int first = far.firstLowLatencyCounter();
    image[FarPostsField.WORLD.ordinal()] = far.world();
    image[FarPostsField.SHADOW.ordinal()] = far.lowLatencyShadow();
    image[FarPostsField.SHADOW_SOURCE.ordinal()] = far.lowLatencySource();
    image[FarPostsField.HALF_BYTES.ordinal()] = layout.halfBytes;
    image[FarPostsField.ROWS_OFFSET.ordinal()] = layout.sourceBytes;
    image[FarPostsField.TARGET.ordinal()] = far.lowLatencyTarget();
    image[FarPostsField.COUNTERS.ordinal()] = far.counters() + (long) first * Long.BYTES;
    image[FarPostsField.BASE.ordinal()] = memory.address() + (long) fields * Long.BYTES;
    image[FarPostsField.FIRST_COUNTER.ordinal()] = first;
    boolean complete = false;
    try {
      memory.copyFrom(0, MemorySegment.ofArray(image));
      complete = true;
    } finally {
      if (!complete) {
        memory.close();
      }
    }
  }

  /** Counters of a rank of so many. */
  static int counters(int ranks) {
    return ranks * COUNTERS;
  }

  /** Where kernels find it. */
  long address() {
    return memory.address();
  }

  @Override
  public void close() {
    memory.close();
  }
}
