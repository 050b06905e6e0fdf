package org.ep4j.cuda.internode.proxy;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.struct.CommandRings;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.wire.LaneLosses;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.jspecify.annotations.Nullable;

/**
 * Rings that kernels of one device push commands into ({@code kernels/transport/command_ring.cuh}),
 * and the threads that post the commands to a wire. While the proxy is open, only its threads drive
 * the wire's progress contexts.
 *
 * <p>Errors are reported as values: kernels see them in the rings' words, the host calls {@link
 * #problem()}.
 */
public final class Proxy implements AutoCloseable {
  /** Largest number of ranks that a command can address. */
  public static final int MAX_RANKS = 1 << 12;

  /** Largest number of bytes of a put. */
  public static final long MAX_PUT = Command.MAX_PUT;

  /** Largest number of counters of a rank. */
  public static final int MAX_COUNTERS = Command.NO_COUNTER;

  /**
   * Additional wait for threads, which end within the timeout once notified; a busy machine delays
   * them.
   */
  private static final Duration GRACE = Duration.ofSeconds(10);

  private final RingMemory memory;
  private final Duration timeout;
  private final List<Poller> pollers;

  /** The started threads. */
  private final List<Thread> threads = new ArrayList<>();

  /** Memory of the threads and kernels; freed after the threads have ended. */
  private final ResourceStack owned;

  private final @Nullable PinnedMemory pinned;
  private final @Nullable DeviceMemory control;

  /** Held while reading the records of refused pushes, and while freeing them. */
  private final Object records = new Object();

  /** Written with the locks of both {@link #records} and this. */
  private boolean closed;

  private Proxy(
      RingMemory memory,
      ProxyConfig config,
      List<Poller> pollers,
      ResourceStack owned,
      @Nullable PinnedMemory pinned,
      @Nullable DeviceMemory control) {
    this.memory = memory;
    this.timeout = config.timeout();
    this.pollers = pollers;
    this.owned = owned;
    this.pinned = pinned;
    this.control = control;
  }

  /**
   * Starts the threads. If one cannot be started, the others end before this throws: then the wire
   * and the memory have no user.
   *
   * @param starter starts a thread, or throws the system's error
   */
  private Proxy started(Consumer<Thread> starter) {
    boolean complete = false;
    try {
      for (Poller poller : pollers) {
        String name = "ep4j-proxy-" + threads.size();
        Thread thread = Thread.ofPlatform().daemon().name(name).unstarted(poller);
        starter.accept(thread);
        threads.add(thread);
      }
      complete = true;
      return this;
    } finally {
      if (!complete) {
        close();
      }
    }
  }

  /**
   * Opens rings for kernels of a device.
   *
   * @param wire wire with {@code config.threads()} progress contexts
   * @param source region that puts read on this rank
   * @param target region that puts write on the other ranks
   * @param losses of the wire
   */
  public static Proxy open(
      CudaDevice device,
      Wire wire,
      Region source,
      Region target,
      LaneLosses losses,
      ProxyConfig config) {
    check(wire, config);
    ResourceStack owned = new ResourceStack();
    Proxy proxy = null;
    try {
      PinnedMemory pinned =
          owned.own(PinnedMemory.allocate(device, hostBytes(wire.size(), config)));
      DeviceMemory control = owned.own(DeviceMemory.allocate(device, deviceBytes(config)));
      try (CudaStream stream = CudaStream.create(device)) {
        device.makeCurrent();
        control.fill8(0, control.bytes(), (byte) 0, stream);
        stream.synchronize();
      }
      RingMemory memory = memory(pinned.hostAddress(), wire, config);
      List<Poller> pollers = pollers(memory, wire, source, target, losses, config);
      proxy = new Proxy(memory, config, pollers, owned, pinned, control);
    } finally {
      if (proxy == null) {
        owned.close();
      }
    }
    return proxy.started(Thread::start);
  }

  /** Same over zeroed memory of the caller, whose producers are threads of the host. */
  static Proxy over(
      MemorySegment words, Wire wire, Region source, Region target, ProxyConfig config) {
    return over(words, wire, source, target, config, Thread::start);
  }

  /**
   * @param starter as for {@link #started}
   */
  static Proxy over(
      MemorySegment words,
      Wire wire,
      Region source,
      Region target,
      ProxyConfig config,
      Consumer<Thread> starter) {
    check(wire, config);
    RingMemory memory = memory(words.address(), wire, config);
    List<Poller> pollers = pollers(memory, wire, source, target, LaneLosses.of(wire), config);
    return new Proxy(memory, config, pollers, new ResourceStack(), null, null).started(starter);
  }

  static RingMemory memory(long host, Wire wire, ProxyConfig config) {
    return memory(host, wire.size(), config);
  }

  private static RingMemory memory(long host, int ranks, ProxyConfig config) {
    return new RingMemory(host, config.rings(), config.capacity(), ranks, config.flushCounters());
  }

  /** Page-locked memory that {@link #open} allocates for kernels and threads. */
  public static long hostBytes(int ranks, ProxyConfig config) {
    return memory(0, ranks, config).bytes();
  }

  /** Device memory that {@link #open} allocates. */
  public static long deviceBytes(ProxyConfig config) {
    return (long) config.rings() * RingMemory.CONTROL_BYTES;
  }

  private static void check(Wire wire, ProxyConfig config) {
    if (wire.config().progressContexts() != config.threads()) {
      throw new InvalidArgumentException(
          ErrorCode.PROXY_CONFIG,
          "threads",
          String.valueOf(config.threads()),
          "the number of progress contexts of the wire, " + wire.config().progressContexts(),
          "open the wire with as many progress contexts as the proxy has threads");
    }
    if (wire.size() > MAX_RANKS) {
      throw new InvalidArgumentException(
          ErrorCode.PROXY_CONFIG,
          "ranks",
          String.valueOf(wire.size()),
          "at most " + MAX_RANKS,
          "use another backend");
    }
  }

  private static List<Poller> pollers(
      RingMemory memory,
      Wire wire,
      Region source,
      Region target,
      LaneLosses losses,
      ProxyConfig config) {
    List<Poller> pollers = new ArrayList<>();
    for (int thread = 0; thread < config.threads(); thread++) {
      List<CommandRing> rings = new ArrayList<>();
      for (int ring = thread; ring < config.rings(); ring += config.threads()) {
        rings.add(new CommandRing(memory, ring));
      }
      int core = config.cores().isEmpty() ? -1 : config.cores().get(thread);
      pollers.add(
          new Poller(
              wire,
              thread,
              source,
              target,
              memory,
              rings,
              losses,
              core,
              config.queue(),
              config.timeout().toNanos()));
    }
    return pollers;
  }

  /** Writes the rings that kernels submit to. */
  public void describe(CommandRings rings) {
    if (closed || pinned == null || control == null) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the proxy is closed or has no device: create a new one");
    }
    memory.describe(rings, pinned.deviceAddress(), control.address());
  }

  /**
   * Adds 1 to a counter of every other rank on each lane, behind all that kernels have pushed. Does
   * not wait. No kernel that pushes runs any more.
   */
  public void publishClosed(int counter) {
    pollers.forEach(poller -> poller.publishClosed(counter));
  }

  /** Number of commands posted to lanes. */
  public long posted() {
    return sum(Poller::posted);
  }

  /** Number of commands that failed lanes have discarded. */
  public long lost() {
    return sum(Poller::lost);
  }

  private long sum(ToLongFunction<Poller> count) {
    long sum = 0;
    for (Poller poller : pollers) {
      sum += count.applyAsLong(poller);
    }
    return sum;
  }

  /**
   * Why rings have stopped: a push without room until its deadline, an invalid command, or a wire
   * error; null if none has. Failed lanes stop no ring. Any thread.
   */
  public @Nullable String problem() {
    for (int thread = 0; thread < pollers.size(); thread++) {
      Throwable problem = pollers.get(thread).problem();
      if (problem != null) {
        return "thread " + thread + " of the proxy has stopped: " + problem;
      }
    }
    synchronized (records) {
      return closed ? null : refusedPush();
    }
  }

  /** The record of a failed push; null if none. The memory stays allocated meanwhile. */
  private @Nullable String refusedPush() {
    for (int ring = 0; ring < memory.rings(); ring++) {
      long record = memory.record(ring);
      if (NativeMemory.getLongAcquire(record + RingMemory.STATE) != 0) {
        return "a push into ring "
            + ring
            + " found no room in time: ticket "
            + NativeMemory.getLong(record + RingMemory.TICKET)
            + ", "
            + (NativeMemory.getLong(record + RingMemory.TAIL_SEEN) & ~RingMemory.STOPPED)
            + " commands read, "
            + NativeMemory.getLong(record + RingMemory.LEFT)
            + " ns left";
      }
    }
    return null;
  }

  /**
   * Posts and flushes pending commands and ends the threads. No kernel that pushes runs any more.
   * The wire stays open.
   *
   * @throws Ep4jException if a thread does not end or this thread is interrupted; the rings' memory
   *     then stays allocated, and the call may be repeated
   */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    pollers.forEach(Poller::close);
    threads.forEach(this::awaitEnd);
    synchronized (records) {
      closed = true;
      owned.close();
    }
  }

  private void awaitEnd(Thread thread) {
    Duration max = timeout.plus(GRACE);
    String when = "within " + max;
    try {
      boolean ignored = thread.join(max);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      when = "before the wait for it was interrupted";
    }
    if (thread.isAlive()) {
      throw new Ep4jException(
          ErrorCode.PROXY_STUCK, thread.getName() + " has not ended " + when + ": " + problem());
    }
  }
}
