package org.ep4j.cuda.internode;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.function.Consumer;
import org.ep4j.cuda.backend.LibraryModule;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Kernel;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.struct.InternodeTransport;
import org.ep4j.cuda.struct.QuiesceParameters;

/**
 * Determines that a library carries nothing between the nodes, as {@link InternodeQuiesce} does for
 * a wire, and resets counters to 0: {@code kernels/transport/library_quiesce.cu}. Called while no
 * other kernel of any rank uses the library.
 */
final class LibraryQuiesce implements AutoCloseable {
  private static final String ENTRY = "transport/library_quiesce.cu";

  /** Device memory of the waits. */
  static final long BYTES = Long.BYTES;

  private static final int WARP = 32;

  /** Threads of a block at most; warps with several lanes signal on one after the other. */
  private static final int MAX_THREADS = 1024;

  private static final int CLEARING_THREADS = 256;

  private final ResourceStack owned = new ResourceStack();
  private final int lanes;
  private final int firstWord;
  private final Consumer<InternodeTransport> transport;
  private final CudaStream stream;
  private final DeviceMemory missing;
  private final Kernel quiesce;
  private final Kernel clear;

  /** Number of the last completed round, which equals the adds to each peer so far. */
  private long completedRounds;

  /**
   * Loads the kernels.
   *
   * @param firstWord number of the counter for the final adds of rank 0
   * @param described writes the transport of the kernels
   */
  LibraryQuiesce(
      CudaDevice device,
      PutTransport library,
      int lanes,
      int firstWord,
      Consumer<InternodeTransport> described) {
    this.lanes = lanes;
    this.firstWord = firstWord;
    transport = described;
    boolean complete = false;
    try {
      stream = owned.own(CudaStream.create(device));
      missing = owned.own(DeviceMemory.allocate(device, BYTES));
      LibraryModule module =
          owned.own(LibraryModule.load(device, ENTRY, LibraryModule.DEFINES, library));
      quiesce = module.module().kernel("ep4j_library_quiesce");
      clear = module.module().kernel("ep4j_library_clear");
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Waits on all ranks at once. Returns empty, or why the library is not known to be idle.
   *
   * @param first first rank of this node
   * @param end end of the ranks of this node, exclusive
   * @param time number of the round: equal on all ranks, higher than any before
   */
  String await(int rank, int ranks, int first, int end, long time, Duration timeout) {
    missing.copyFrom(0, MemorySegment.ofArray(new long[1]));
    InternodeTransport carrier = new InternodeTransport();
    QuiesceParameters run = new QuiesceParameters();
    try (Launch launch =
        Launch.of(
            quiesce,
            LaunchConfig.of(1, Math.min(lanes * WARP, MAX_THREADS)),
            carrier.bytes(),
            run.bytes())) {
      carrier.placeIn(launch.parameter(0));
      transport.accept(carrier);
      run.placeIn(launch.parameter(1));
      run.rank.set(rank);
      run.ranks.set(ranks);
      run.nodeFirst.set(first);
      run.nodeEnd.set(end);
      run.firstWord.set(firstWord);
      run.increment.set(time - completedRounds);
      run.wanted.set(time * lanes);
      run.timeout.set(timeout.toNanos());
      run.missing.set(missing.address());
      launch.launch(stream);
      stream.synchronize();
    }
    completedRounds = time;
    long[] found = new long[1];
    missing.copyTo(0, MemorySegment.ofArray(found));
    return found[0] == 0
        ? ""
        : "final adds of rank "
            + (found[0] - 1)
            + " did not arrive within "
            + timeout.toMillis()
            + " ms";
  }

  /** Sets the first counters to 0. */
  void clear(int counters) {
    InternodeTransport carrier = new InternodeTransport();
    try (Launch launch =
        Launch.of(clear, LaunchConfig.of(1, CLEARING_THREADS), carrier.bytes(), Long.BYTES)) {
      carrier.placeIn(launch.parameter(0));
      transport.accept(carrier);
      launch.setLong(1, counters);
      launch.launch(stream);
      stream.synchronize();
    }
  }

  @Override
  public void close() {
    owned.close();
  }
}
