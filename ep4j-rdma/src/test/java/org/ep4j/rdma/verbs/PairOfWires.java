package org.ep4j.rdma.verbs;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.ep4j.group.Group;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.LaneNotices;

/** Two ranks of this JVM on hosts a and b of the simulated fabric, driven by the test. */
final class PairOfWires implements AutoCloseable {
  static final Duration TIMEOUT = Duration.ofSeconds(30);

  private static final long TOPIC = 1;

  private final List<Group> groups = Group.inProcess(2);
  private final ExecutorService threads = Executors.newFixedThreadPool(2);
  final VerbsWire a;
  final VerbsWire b;

  /** Two wires with {@code ports} ports each. */
  PairOfWires(int ports, int queuePairs, WireConfig.Builder config) throws Exception {
    this(ports, queuePairs, "0", "0", config);
  }

  /** Two wires with the given values of {@link RdmaSettings#GPUDIRECT}. */
  PairOfWires(
      int ports, int queuePairs, String directOfA, String directOfB, WireConfig.Builder config)
      throws Exception {
    WireConfig built = config.wire("verbs").timeout(TIMEOUT).build();
    RdmaSettings settingsOfA = settings(ports, queuePairs, directOfA);
    RdmaSettings settingsOfB = settings(ports, queuePairs, directOfB);
    boolean complete = false;
    try {
      Future<VerbsWire> first = threads.submit(() -> open(0, built, settingsOfA));
      Future<VerbsWire> second = threads.submit(() -> open(1, built, settingsOfB));
      a = first.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
      b = second.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
      // As Wires does for wires that are opened by name.
      a.exchange(new LaneNotices(groups.get(0), TOPIC));
      b.exchange(new LaneNotices(groups.get(1), TOPIC));
      complete = true;
    } finally {
      if (!complete) {
        leave();
      }
    }
  }

  private static RdmaSettings settings(int ports, int queuePairs, String gpuDirect) {
    return RdmaSettings.of(
        Map.of(
            RdmaSettings.GPUDIRECT,
            gpuDirect,
            RdmaSettings.HCA,
            Fabric.hosts(ports),
            RdmaSettings.QPS_PER_PORT,
            String.valueOf(queuePairs),
            // 67 ms, three times, to detect faults quickly.
            RdmaSettings.TIMEOUT,
            "14",
            RdmaSettings.RETRY_COUNT,
            "3"));
  }

  private VerbsWire open(int rank, WireConfig config, RdmaSettings settings) {
    return (VerbsWire) new VerbsConnectionSetup(groups.get(rank), config, settings, rank).open();
  }

  /** Allocates a region: the part of a, and the part of b. */
  List<Region> allocate(long bytes) throws Exception {
    return both(() -> a.allocate(bytes, TIMEOUT), () -> b.allocate(bytes, TIMEOUT));
  }

  /** Exposes memory of the test as a region. */
  List<Region> expose(WireMemory ofA, WireMemory ofB) throws Exception {
    return both(() -> a.expose(ofA, TIMEOUT), () -> b.expose(ofB, TIMEOUT));
  }

  private List<Region> both(Callable<Region> byA, Callable<Region> byB) throws Exception {
    Future<Region> first = threads.submit(byA);
    Future<Region> second = threads.submit(byB);
    return List.of(
        first.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS),
        second.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS));
  }

  /** Polls both wires until a condition holds. */
  void until(BooleanSupplier condition, String what) {
    long end = System.nanoTime() + TIMEOUT.toNanos();
    while (!condition.getAsBoolean()) {
      a.poll(0);
      b.poll(0);
      if (System.nanoTime() > end) {
        throw new AssertionError("waited too long for " + what);
      }
    }
  }

  /**
   * Changes a cable: {@code down a0} disconnects it, {@code loss 100 a0} loses every packet. Where
   * devices are emulated, {@code pair 1 a0} breaks a queue pair.
   */
  static void link(String... operation) throws Exception {
    if (SoftVerbs.isSelected()) {
      SoftVerbs.link(operation);
      return;
    }
    List<String> command = new ArrayList<>(List.of("rxe-link"));
    command.addAll(List.of(operation));
    Process process = new ProcessBuilder(command).inheritIO().start();
    if (!process.waitFor(20, TimeUnit.SECONDS) || process.exitValue() != 0) {
      throw new IllegalStateException(String.join(" ", command) + " failed");
    }
  }

  @Override
  public void close() {
    a.close();
    b.close();
    leave();
  }

  private void leave() {
    groups.forEach(Group::close);
    threads.shutdownNow();
  }
}
