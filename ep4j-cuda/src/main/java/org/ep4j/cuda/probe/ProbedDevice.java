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
import org.ep4j.cuda.jit.KernelCompiler;
import org.jspecify.annotations.Nullable;

/** One GPU of a probe: its rows, what it receives, and the kernels that move them. */
final class ProbedDevice implements AutoCloseable {
  private static final byte POISON = (byte) 0xFD;
  private static final int CHECK_THREADS = 512;
  private static final int MOST_WARPS = 16;

  /** As in {@code rows.cuh}. */
  private static final int STAGES = 3;

  private static final int BARRIER_BYTES = 8;
  private static final int LONGEST_STAGE = 16384;
  private static final int FIRST_MAJOR_WITH_BULK_COPIES = 9;

  final CudaDevice device;
  private final CudaStream stream;
  private final CudaModule module;
  private final Kernel pushing;
  private final Launch gate;
  private final Launch fill;
  private final Launch check;
  private final CudaEvent start;
  private final CudaEvent end;

  private @Nullable DeviceMemory source;
  private @Nullable DeviceMemory received;
  private @Nullable DeviceMemory targets;
  private @Nullable Launch push;

  private ProbedDevice(CudaDevice device) {
    this.device = device;
    stream = CudaStream.create(device);
    module = KernelCompiler.standard().load(device, "probe.cu", Map.of());
    pushing = module.kernel("ep4j_probe_push");
    pushing.setMaxDynamicSharedBytes(sharedBytes());
    LaunchConfig all = LaunchConfig.of(device.properties().multiprocessors(), CHECK_THREADS);
    gate = Launch.of(module.kernel("ep4j_probe_gate"), LaunchConfig.of(1, 1), 8, 8, 8);
    fill = Launch.of(module.kernel("ep4j_probe_fill"), all, 8, 8, 8);
    check = Launch.of(module.kernel("ep4j_probe_check"), all, 8, 8, 8, 8);
    start = CudaEvent.createTimed(device);
    end = CudaEvent.createTimed(device);
  }

  static ProbedDevice open(int ordinal) {
    CudaDevice device = CudaDevice.open(ordinal);
    device.makeCurrent();
    boolean complete = false;
    try {
      ProbedDevice probed = new ProbedDevice(device);
      complete = true;
      return probed;
    } finally {
      if (!complete) {
        device.close();
      }
    }
  }

  private int sharedBytes() {
    return device.properties().sharedBytesPerBlock();
  }

  /** Makes room for a load: rows to {@code destinations} GPUs, and from {@code devices} GPUs. */
  void makeRoom(ProbeLoad load, int destinations, int devices) {
    release();
    source = DeviceMemory.allocate(device, destinations * load.bytesOfPair());
    received = DeviceMemory.allocate(device, devices * load.bytesOfPair());
    targets = DeviceMemory.allocate(device, (long) destinations * Long.BYTES);
    int pieces = Math.ceilDiv(load.rowBytes(), LONGEST_STAGE);
    int stage = Math.ceilDiv(Math.ceilDiv(load.rowBytes(), pieces), 16) * 16;
    boolean bulk = device.properties().major() >= FIRST_MAJOR_WITH_BULK_COPIES;
    int stagesOfWarp = STAGES * (stage + BARRIER_BYTES);
    int warps = bulk ? Math.min(MOST_WARPS, sharedBytes() / stagesOfWarp) : MOST_WARPS;
    push =
        Launch.of(
            pushing,
            // All of the shared memory, so that no SM holds two blocks.
            LaunchConfig.of(1, 32 * warps).withDynamicSharedBytes(bulk ? sharedBytes() : 0),
            8,
            8,
            8,
            8,
            8,
            8);
    push.setLong(0, source.address());
    push.setLong(1, targets.address());
    push.setLong(2, destinations);
    push.setLong(3, load.rows());
    push.setLong(4, load.rowBytes());
    push.setLong(5, stage);
  }

  /** Where the rows from a GPU go. */
  long receivedFrom(ProbeLoad load, int from) {
    return Objects.requireNonNull(received).address() + from * load.bytesOfPair();
  }

  /** Writes the rows to be pushed, those of destination i with the i-th seed. */
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

  /** Makes what an earlier push left unrecognisable. */
  void poison() {
    DeviceMemory rows = Objects.requireNonNull(received);
    device.makeCurrent();
    rows.fill8(0, rows.bytes(), POISON, stream);
    stream.synchronize();
  }

  /** Enqueues a push behind the gate. */
  void enqueue(int sms, long gateAddress, long round, long limitNanos) {
    Launch pushes = Objects.requireNonNull(push);
    device.makeCurrent();
    gate.setLong(0, gateAddress);
    gate.setLong(1, round);
    gate.setLong(2, limitNanos);
    gate.launch(stream);
    start.record(stream);
    pushes.setGrid(sms, 1, 1);
    pushes.launch(stream);
    end.record(stream);
  }

  /** Waits for the push; how long it took. */
  double micros() {
    stream.synchronize();
    return end.millisSince(start) * 1e3;
  }

  /** Words from a GPU that are not those it sent. */
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
    for (AutoCloseable held : new AutoCloseable[] {push, targets, received, source}) {
      if (held instanceof Launch launch) {
        launch.close();
      } else if (held instanceof DeviceMemory memory) {
        memory.close();
      }
    }
    push = null;
    targets = null;
    received = null;
    source = null;
  }

  @Override
  public void close() {
    stream.synchronize();
    release();
    end.close();
    start.close();
    check.close();
    fill.close();
    gate.close();
    module.close();
    stream.close();
    device.close();
  }
}
