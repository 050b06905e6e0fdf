package org.ep4j.cuda.put;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.struct.PutRun;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;

/**
 * Two ranks put to each other from kernels, see {@code kernels/probe/put_probe.cu}. All methods are
 * collective: both ranks make the same calls in the same order, on one thread each.
 */
public final class PutProbe implements AutoCloseable {
  private static final String EXCHANGE = "ep4j_put_exchange";
  private static final String ROUNDS = "ep4j_put_rounds";
  private static final String STREAM = "ep4j_put_stream";

  private static final int WARPS_OF_BLOCK = 8;
  private static final int UNIT = 16;
  private static final int ROUNDING = 256;

  /**
   * Kernels must be resident at once, so that both ranks progress: one block per SM always fits.
   */
  private static final int MAX_WARPS = 64 * WARPS_OF_BLOCK;

  private final ResourceStack owned = new ResourceStack();
  private final DevicePut puts;
  private final PutModule module;
  private final CudaStream stream;
  private final DeviceMemory results;

  /** Accumulated signal values, which kernels update. */
  private final DeviceMemory past;

  private final int rank;
  private final int warps;
  private final long bytes;
  private final Duration timeout;

  private PutProbe(Group group, PutConfig config, int warps, long bytes) {
    this.rank = group.rank();
    this.warps = warps;
    this.bytes = bytes;
    this.timeout = config.timeout();
    boolean complete = false;
    try {
      puts = owned.own(DevicePut.open(group, config));
      module =
          owned.own(puts.load("probe/put_probe.cu", Map.of(), List.of(EXCHANGE, ROUNDS, STREAM)));
      stream = owned.own(CudaStream.create(puts.device()));
      results = owned.own(DeviceMemory.allocate(puts.device(), warps * (long) Long.BYTES));
      past = owned.own(DeviceMemory.allocate(puts.device(), signals(warps) * (long) Long.BYTES));
      past.copyFrom(0, MemorySegment.ofArray(new long[signals(warps)]));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Memory for {@code warps} warps, each with a lane and a block of {@code bytes} in each
   * direction.
   *
   * @param like backend, nodes, wire and timeout; its shape is ignored
   * @param warps a multiple of 8, at most 512
   * @param bytes a multiple of 16
   */
  public static PutProbe open(Group group, PutConfig like, int warps, long bytes) {
    if (group.size() != 2
        || warps < WARPS_OF_BLOCK
        || warps > MAX_WARPS
        || warps % WARPS_OF_BLOCK != 0
        || bytes < UNIT
        || bytes > PutShape.MAX_BYTES
        || bytes % UNIT != 0) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD,
          "ranks, warps, bytes",
          "%d, %d, %d".formatted(group.size(), warps, bytes),
          "2 ranks, a multiple of 8 warps, at most %d, and a multiple of 16 bytes"
              .formatted(MAX_WARPS),
          "use such a shape");
    }
    long memory = Math.ceilDiv(2L * warps * bytes, ROUNDING) * ROUNDING;
    PutShape shape = new PutShape(memory, warps, signals(warps));
    PutConfig config =
        new PutConfig(like.backend(), shape, like.ranksPerNode(), like.wire(), like.timeout());
    return new PutProbe(group, config, warps, bytes);
  }

  private static int signals(int warps) {
    return 4 * warps + 1;
  }

  /** Description of the transport to the other rank. */
  public String text() {
    return puts.text();
  }

  /**
   * All warps exchange blocks that differ in each round, and overwrite their source blocks as soon
   * as they are flushed.
   *
   * @param block bytes of each block, at most those of the probe
   * @return number of wrong 16-byte vectors received here
   */
  public long exchange(long block, int count) {
    long wrong = 0;
    for (long each : run(EXCHANGE, warps, block, count)) {
      if (each < 0) {
        throw timedOut("exchange", block, "in round " + (each & Long.MAX_VALUE));
      }
      wrong += each;
    }
    return wrong;
  }

  /** Half of a round trip of a put with a signal, on rank 0; one warp. In nanoseconds. */
  public double latency(long block, int count) {
    long nanos = run(ROUNDS, 1, block, count)[0];
    if (nanos == 0) {
      throw timedOut("rounds", block, "");
    }
    return nanos / (2.0 * count);
  }

  /**
   * Rank 0 puts {@code count} blocks from each of some warps, each followed by a signal.
   *
   * @param senders fewer than 8 warps, or a multiple of 8
   * @return on rank 0 the bytes per nanosecond until rank 1 has answered
   */
  public double stream(int senders, long block, int count) {
    long[] nanos = run(STREAM, senders, block, count);
    long slowest = 0;
    for (int warp = 0; warp < senders; warp++) {
      if (nanos[warp] == 0) {
        throw timedOut("stream", block, "in warp " + warp);
      }
      slowest = Math.max(slowest, nanos[warp]);
    }
    return (double) senders * block * count / slowest;
  }

  private Ep4jException timedOut(String what, long block, String where) {
    String problem = puts.problem();
    return new Ep4jException(
        ErrorCode.PUT_TIMEOUT,
        "rank %d did not receive puts of %d bytes in time (%s) %s%s"
            .formatted(rank, block, what, where, problem == null ? "" : ": " + problem));
  }

  private long[] run(String entry, int warpsNow, long block, int count) {
    // Kernels have whole blocks of warps and rely on these numbers.
    boolean wholeBlocks = warpsNow < WARPS_OF_BLOCK || warpsNow % WARPS_OF_BLOCK == 0;
    if (block < UNIT
        || block > bytes
        || block % UNIT != 0
        || warpsNow < 1
        || warpsNow > warps
        || !wholeBlocks
        || count < 1) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD,
          "count, block, warps",
          "%d, %d, %d".formatted(count, block, warpsNow),
          "within %d warps and %d bytes of the probe".formatted(warps, bytes),
          "use fewer, or open a larger probe");
    }
    int blocks = Math.ceilDiv(warpsNow, WARPS_OF_BLOCK);
    int threads = Math.min(warpsNow, WARPS_OF_BLOCK) * 32;
    long[] result = new long[warps];
    results.copyFrom(0, MemorySegment.ofArray(result));
    puts.barrier();
    PutRun run = new PutRun();
    try (Launch launch =
        Launch.of(
            module.kernel(entry),
            LaunchConfig.of(blocks, threads),
            DevicePut.PARAMETER_BYTES,
            run.bytes())) {
      puts.describe(launch.parameter(0));
      run.placeIn(launch.parameter(1));
      run.partner.set(1L - rank);
      run.bytes.set(block);
      run.rounds.set(count);
      run.timeout.set(timeout.toNanos());
      run.results.set(results.address());
      run.past.set(past.address());
      launch.launch(stream);
      stream.synchronize();
    }
    // A later free on this rank may wait for all work on a GPU that both ranks share.
    puts.barrier();
    results.copyTo(0, MemorySegment.ofArray(result));
    return result;
  }

  /** Closes all resources; collective. */
  @Override
  public void close() {
    owned.close();
  }
}
