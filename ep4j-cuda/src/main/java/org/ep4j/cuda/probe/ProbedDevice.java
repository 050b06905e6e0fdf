package org.ep4j.cuda.probe;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Kernel;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.jit.KernelCompiler;
import org.jspecify.annotations.Nullable;

/** One GPU of a probe: its rows, its receive memory, and the kernels that move rows. */
final class ProbedDevice implements AutoCloseable {
  private static final byte POISON = (byte) 0xFD;
  private static final int CHECK_THREADS = 512;
  private static final int MAX_WARPS = 16;

  /** As in {@code rows.cuh}. */
  private static final int STAGES = 3;

  private static final int BARRIER_BYTES = 8;
  private static final int LONGEST_STAGE = 16384;
  private static final int FIRST_MAJOR_WITH_BULK_COPIES = 9;

  final CudaDevice device;
  private final ResourceStack owned = new ResourceStack();

  /** Memory for the current load; emptied for the next one. */
  private final ResourceStack room = new ResourceStack();

  private final CudaStream stream;
  private final Kernel pushing;
  private final Launch latch;
  private final Launch fill;
  private final Launch check;
  private final CudaEvent start;
  private final CudaEvent end;

  private @Nullable DeviceMemory source;
  private @Nullable DeviceMemory received;
  private @Nullable DeviceMemory targets;
  private @Nullable Launch push;

  private ProbedDevice(int ordinal) {
    boolean complete = false;
    try {
      device = owned.own(CudaDevice.open(ordinal));
      device.makeCurrent();
      stream = owned.own(CudaStream.create(device));
      CudaModule module =
          owned.own(KernelCompiler.standard().load(device, "probe/probe.cu", Map.of()));
      pushing = module.kernel("ep4j_probe_push");
      pushing.setMaxDynamicSharedBytes(sharedBytes());
      LaunchConfig all = LaunchConfig.of(device.properties().multiprocessors(), CHECK_THREADS);
      latch = launch(module, "ep4j_probe_latch", LaunchConfig.of(1, 1), 8, 8, 8);
      fill = launch(module, "ep4j_probe_fill", all, 8, 8, 8);
      check = launch(module, "ep4j_probe_check", all, 8, 8, 8, 8);
      start = owned.own(CudaEvent.createTimed(device));
      end = owned.own(CudaEvent.createTimed(device));
      owned.own(this::release);
      // Running work ends before memory is freed.
      owned.own(stream::synchronize);
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  static ProbedDevice open(int ordinal) {
    return new ProbedDevice(ordinal);
  }

  private Launch launch(CudaModule module, String kernel, LaunchConfig config, int... parameters) {
    return owned.own(Launch.of(module.kernel(kernel), config, parameters));
  }

  private int sharedBytes() {
    return device.properties().sharedBytesPerBlock();
  }

  /**
   * Allocates memory for a load: rows to {@code destinations} GPUs, and from {@code devices} GPUs.
   */
  void makeRoom(ProbeLoad load, int destinations, int devices) {
    release();
    DeviceMemory rows = memory(destinations * load.bytesOfPair());
    DeviceMemory incoming = memory(devices * load.bytesOfPair());
    DeviceMemory table = memory((long) destinations * Long.BYTES);
    int pieces = Math.ceilDiv(load.rowBytes(), LONGEST_STAGE);
    int stage = Math.ceilDiv(Math.ceilDiv(load.rowBytes(), pieces), 16) * 16;
    boolean bulk = device.properties().major() >= FIRST_MAJOR_WITH_BULK_COPIES;
    int stagesOfWarp = STAGES * (stage + BARRIER_BYTES);
    int warps = bulk ? Math.min(MAX_WARPS, sharedBytes() / stagesOfWarp) : MAX_WARPS;
    Launch launch =
        room.own(
            Launch.of(
                pushing,
                // All of the shared memory, so that no SM holds two blocks.
                LaunchConfig.of(1, 32 * warps).withDynamicSharedBytes(bulk ? sharedBytes() : 0),
                8,
                8,
                8,
                8,
                8,
                8));
    launch.setLong(0, rows.address());
    launch.setLong(1, table.address());
    launch.setLong(2, destinations);
    launch.setLong(3, load.rows());
    launch.setLong(4, load.rowBytes());
    launch.setLong(5, stage);
    source = rows;
    received = incoming;
    targets = table;
    push = launch;
  }

  private DeviceMemory memory(long bytes) {
    return room.own(DeviceMemory.allocate(device, bytes));
  }

  /** Address of the rows from a GPU. */
  long receivedFrom(ProbeLoad load, int from) {
    return Objects.requireNonNull(received).address() + from * load.bytesOfPair();
  }

  /** Writes the rows to push; rows for destination i use the i-th seed. */
  void fillSource(ProbeLoad load, List<Long> seeds, List<Long> targetAddresses) {
    DeviceMemory rows = Objects.requireNonNull(source);
    device.makeCurrent();
    for (int i = 0; i < seeds.size(); i++) {
      fill.setLong(0, rows.address() + i * load.bytesOfPair());
      fill.setLong(1, load.bytesOfPair() / Integer.BYTES);
      fill.setLong(2, seeds.get(i));
      fill.launch(stream);
    }
    long[] table = targetAddresses.stream().mapToLong(Long::longValue).toArray();
    Objects.requireNonNull(targets).copyFrom(0, MemorySegment.ofArray(table));
    stream.synchronize();
  }

  /** Overwrites the rows of an earlier push. */
  void poison() {
    DeviceMemory rows = Objects.requireNonNull(received);
    device.makeCurrent();
    rows.fill8(0, rows.bytes(), POISON, stream);
    stream.synchronize();
  }

  /** Enqueues a push behind the gate. */
  void enqueue(int sms, long latchAddress, long round, long limitNanos) {
    Launch pushes = Objects.requireNonNull(push);
    device.makeCurrent();
    latch.setLong(0, latchAddress);
    latch.setLong(1, round);
    latch.setLong(2, limitNanos);
    latch.launch(stream);
    start.record(stream);
    pushes.setGrid(sms, 1, 1);
    pushes.launch(stream);
    end.record(stream);
  }

  /** Waits for the push and returns its duration. */
  double micros() {
    stream.synchronize();
    return end.millisSince(start) * 1e3;
  }

  /** Number of words from a GPU that differ from those it sent. */
  long wrongWords(ProbeLoad load, int from, long seed) {
    try (DeviceMemory wrong = DeviceMemory.allocate(device, Long.BYTES)) {
      device.makeCurrent();
      wrong.fill8(0, Long.BYTES, (byte) 0, stream);
      check.setLong(0, receivedFrom(load, from));
      check.setLong(1, load.bytesOfPair() / Integer.BYTES);
      check.setLong(2, seed);
      check.setLong(3, wrong.address());
      check.launch(stream);
      stream.synchronize();
      long[] count = new long[1];
      wrong.copyTo(0, MemorySegment.ofArray(count));
      return count[0];
    }
  }

  private void release() {
    push = null;
    targets = null;
    received = null;
    source = null;
    room.close();
  }

  @Override
  public void close() {
    owned.close();
  }
}
