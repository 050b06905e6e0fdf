package org.ep4j.cuda.probe;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * All GPUs of this process push rows to each other at the same time, without a protocol: the upper
 * bound for a dispatch of the same rows. One kernel per GPU; a gate before each kernel makes them
 * start together; events around the kernel measure the time. Used by one thread.
 */
public final class LinkProbe implements AutoCloseable {
  private static final int WARMUP = 3;

  /** The host opens the gate within microseconds; if it has died, kernels must not wait forever. */
  private static final long LATCH_LIMIT_NANOS = 5_000_000_000L;

  private static final int SEEDS_OF_DEVICE = 1 << 16;

  private final ResourceStack owned = new ResourceStack();
  private final List<ProbedDevice> devices = new ArrayList<>();
  private final PinnedMemory latch;
  private long round;
  private @Nullable ProbeLoad prepared;

  private LinkProbe(int count) {
    boolean complete = false;
    try {
      for (int ordinal = 0; ordinal < count; ordinal++) {
        devices.add(owned.own(ProbedDevice.open(ordinal)));
      }
      connect();
      latch = owned.own(PinnedMemory.allocate(devices.getFirst().device, Long.BYTES));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  private void connect() {
    for (ProbedDevice from : devices) {
      for (ProbedDevice to : devices) {
        if (!from.device.canAccess(to.device)) {
          throw new EngineUnavailableException(
              ErrorCode.PEER_ACCESS_MISSING,
              from.device
                  + " cannot reach the memory of "
                  + to.device
                  + ": run nvidia-smi topo -p2p r to list the devices that can");
        }
        from.device.enablePeerAccess(to.device);
      }
    }
  }

  /**
   * A probe of the first {@code count} devices.
   *
   * @throws EngineUnavailableException if two of them cannot access each other's memory
   */
  public static LinkProbe open(int count) {
    int present = CudaDevice.count();
    if (count < 1 || count > present) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD,
          "devices",
          String.valueOf(count),
          "1.." + present,
          "this process sees " + present);
    }
    return new LinkProbe(count);
  }

  /** Number of GPUs. */
  public int devices() {
    return devices.size();
  }

  /**
   * Pushes a load repeatedly and verifies every received byte.
   *
   * @param sms blocks on each GPU
   * @param repetitions number of measurements
   */
  public ProbeSpeed measure(ProbeLoad load, int sms, int repetitions) {
    int max = devices.getFirst().device.properties().multiprocessors();
    if (sms < 1 || sms > max) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD, "sms", String.valueOf(sms), "1.." + max, "use fewer");
    }
    if (repetitions < 1) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD,
          "repetitions",
          String.valueOf(repetitions),
          ">= 1",
          "time it at least once");
    }
    if (!load.equals(prepared)) {
      prepare(load);
    }
    devices.forEach(ProbedDevice::poison);
    for (int i = 0; i < WARMUP; i++) {
      pushOnce(sms);
    }
    double[] micros = new double[repetitions];
    for (int i = 0; i < repetitions; i++) {
      micros[i] = pushOnce(sms);
    }
    check(load);
    return new ProbeSpeed(load, devices.size(), sms, micros);
  }

  /**
   * Destinations of a GPU in round-robin order from the next one; the GPU itself last if included.
   */
  private List<Integer> destinations(ProbeLoad load, int from) {
    List<Integer> destinations = new ArrayList<>();
    for (int i = 1; i <= devices.size(); i++) {
      int to = (from + i) % devices.size();
      if (to != from || load.local()) {
        destinations.add(to);
      }
    }
    return destinations;
  }

  private static long seed(int from, int to) {
    return (long) from * SEEDS_OF_DEVICE + to + 1;
  }

  private void prepare(ProbeLoad load) {
    if (destinations(load, 0).isEmpty()) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD,
          "load",
          load.toString(),
          "local on a single GPU",
          "there is no other GPU to push to");
    }
    prepared = null;
    for (int d = 0; d < devices.size(); d++) {
      devices.get(d).makeRoom(load, destinations(load, d).size(), devices.size());
    }
    for (int d = 0; d < devices.size(); d++) {
      List<Long> seeds = new ArrayList<>();
      List<Long> targets = new ArrayList<>();
      for (int to : destinations(load, d)) {
        seeds.add(seed(d, to));
        targets.add(devices.get(to).receivedFrom(load, d));
      }
      devices.get(d).fillSource(load, seeds, targets);
    }
    prepared = load;
  }

  /** The time of the slowest GPU in microseconds. */
  private double pushOnce(int sms) {
    round++;
    for (ProbedDevice each : devices) {
      each.enqueue(sms, latch.deviceAddress(), round, LATCH_LIMIT_NANOS);
    }
    NativeMemory.putLongRelease(latch.hostAddress(), round);
    double slowest = 0;
    for (ProbedDevice each : devices) {
      slowest = Math.max(slowest, each.micros());
    }
    return slowest;
  }

  private void check(ProbeLoad load) {
    for (int from = 0; from < devices.size(); from++) {
      for (int to : destinations(load, from)) {
        long wrong = devices.get(to).wrongWords(load, from, seed(from, to));
        if (wrong > 0) {
          throw new Ep4jException(
              ErrorCode.GPU_LINK_CORRUPT,
              "%d of %d words that GPU %d pushed to GPU %d are wrong there: the link, the memory or"
                      .formatted(wrong, load.bytesOfPair() / Integer.BYTES, from, to)
                  + " the driver loses data; check nvidia-smi nvlink -e");
        }
      }
    }
  }

  @Override
  public void close() {
    owned.close();
  }
}
