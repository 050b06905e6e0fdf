package org.ep4j.group.protocol;

import java.io.IOException;
import java.lang.System.Logger;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.time.Duration;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.GroupException;
import org.jspecify.annotations.Nullable;

/**
 * One daemon thread that serves connections and their timers. Only this thread accesses the
 * handlers; other threads use {@link #post}.
 *
 * <p>The reactor also notices when the process itself was stopped: peers may have declared it dead
 * meanwhile, and their silence during the stop does not count.
 */
public final class Reactor implements AutoCloseable {
  private static final Logger LOG = System.getLogger("org.ep4j.group");
  private static final Duration LONGEST_CLOSE = Duration.ofSeconds(5);
  private static final long CLOSING_ROUND_NANOS = 5_000_000;

  /** The owner of a channel. */
  interface Handler {
    /** The channel is ready. */
    void ready(SelectionKey key);

    /** A tick interval has passed. */
    void tick(long now);

    /**
     * The process was stopped for a while: the silence of others during the stop does not count.
     */
    void forgive(long now);

    /** {@link #ready} or {@link #tick} threw. */
    void broken(RuntimeException e);
  }

  private final Selector selector;
  private final Thread thread;
  private final long tickNanos;
  private final long livenessNanos;
  private Runnable onTick = () -> {};
  private Consumer<String> onBreak = why -> {};
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  private final List<FrameConnection> unwritten = new ArrayList<>();
  // Null while running; then the latest time to stop. The reactor stops at once when no channel is
  // left.
  private volatile @Nullable Deadline closing;
  private long roundStart;
  private long stallEnd;
  private long stall;

  /**
   * @param name of the thread
   * @param interval of ticks
   * @param liveness after a stall of about this length the peers may have declared this process
   *     dead
   * @throws GroupException if no file descriptor is free
   */
  public Reactor(String name, Duration interval, Duration liveness) {
    try {
      selector = Selector.open();
    } catch (IOException e) {
      throw new GroupException(
          ErrorCode.GROUP_FAILED,
          "this process cannot open a selector (%s): raise its limit of open files (ulimit -n)"
              .formatted(e.getMessage()),
          e);
    }
    tickNanos = interval.toNanos();
    livenessNanos = liveness.toNanos();
    thread = Thread.ofPlatform().daemon().name(name).unstarted(this::run);
  }

  /**
   * Starts serving.
   *
   * @param onTick called after the ticks of all handlers
   * @param onBreak called if the thread ends without {@link #close}
   */
  public void start(Runnable onTick, Consumer<String> onBreak) {
    this.onTick = onTick;
    this.onBreak = onBreak;
    thread.start();
  }

  /** Runs a task on the reactor thread, soon. Dropped if the reactor is closed. */
  public void post(Runnable task) {
    tasks.add(task);
    selector.wakeup();
  }

  /** Registers a non-blocking channel; on the reactor thread, or before its start. */
  SelectionKey register(SelectableChannel channel, int operations, Handler handler)
      throws IOException {
    return channel.register(selector, operations, handler);
  }

  /**
   * Length of a stall of this process that ended within the last liveness interval, in nanoseconds;
   * 0 if there was none of at least half that interval. Reactor thread only.
   */
  public long recentStall() {
    long now = System.nanoTime();
    noteStall(now);
    return now - stallEnd < livenessNanos ? stall : 0;
  }

  private boolean noteStall(long now) {
    long round = now - roundStart;
    boolean stalled = round > tickNanos + livenessNanos / 2;
    if (stalled) {
      stall = round;
      stallEnd = now;
    }
    return stalled;
  }

  private void run() {
    loadLog();
    // The time before the start is not a stall.
    roundStart = System.nanoTime();
    long nextTick = roundStart + tickNanos;
    try {
      while (!done()) {
        long wait = closing == null ? nextTick - System.nanoTime() : CLOSING_ROUND_NANOS;
        if (wait > 0) {
          selector.select(wait / 1_000_000 + 1);
        } else {
          selector.selectNow();
        }
        long now = System.nanoTime();
        if (noteStall(now)) {
          forEach(handler -> handler.forgive(now));
        }
        roundStart = now;
        serveReady();
        runTasks();
        flush();
        if (now - nextTick >= 0) {
          nextTick = now + tickNanos;
          forEach(handler -> handler.tick(now));
          onTick.run();
          flush();
        }
      }
    } catch (Throwable t) {
      // First, since a log may fail, too.
      onBreak.accept("the thread that served it ended: " + t);
      LOG.log(Logger.Level.ERROR, "ep4j: thread " + thread.getName() + " ends", t);
    } finally {
      closeAll();
    }
  }

  /**
   * Loads what the first record of a log reads: configuration and time zones. The warning that no
   * descriptor is free would throw for want of one.
   */
  private static void loadLog() {
    try {
      LOG.isLoggable(Logger.Level.WARNING);
      var _ = ZonedDateTime.now(ZoneId.systemDefault());
    } catch (RuntimeException | Error e) {
      // A thread that logs nothing need not end for that.
    }
  }

  private boolean done() {
    Deadline deadline = closing;
    return deadline != null
        && (deadline.expired() || (tasks.isEmpty() && selector.keys().isEmpty()));
  }

  private void serveReady() {
    var ready = selector.selectedKeys();
    for (SelectionKey key : ready) {
      Handler handler = (Handler) key.attachment();
      try {
        handler.ready(key);
      } catch (CancelledKeyException e) {
        // Another handler of this round has closed the channel.
      } catch (RuntimeException e) {
        handler.broken(e);
      }
    }
    ready.clear();
  }

  /** Writes a connection after the other work of this round. */
  void flushSoon(FrameConnection connection) {
    unwritten.add(connection);
  }

  private void flush() {
    // By index: a connection that fails may queue writes of others.
    for (int i = 0; i < unwritten.size(); i++) {
      FrameConnection connection = unwritten.get(i);
      try {
        connection.flush();
      } catch (RuntimeException e) {
        connection.broken(e);
      }
    }
    unwritten.clear();
  }

  private void runTasks() {
    Runnable task;
    while ((task = tasks.poll()) != null) {
      task.run();
    }
  }

  private interface ConnectionTask {
    void to(Handler handler);
  }

  private void forEach(ConnectionTask visit) {
    // Copied: a tick may close channels and register others.
    for (SelectionKey key : new ArrayList<>(selector.keys())) {
      if (key.isValid() && key.attachment() instanceof Handler handler) {
        try {
          visit.to(handler);
        } catch (RuntimeException e) {
          handler.broken(e);
        }
      }
    }
  }

  private void closeAll() {
    try {
      for (SelectionKey key : new ArrayList<>(selector.keys())) {
        key.channel().close();
      }
      selector.close();
    } catch (IOException e) {
      LOG.log(Logger.Level.DEBUG, "ep4j: closing " + thread.getName(), e);
    }
  }

  /** Ends the thread and closes every channel. */
  @Override
  public void close() {
    close(Duration.ZERO);
  }

  /**
   * Ends the thread when its channels are closed, or after {@code timeout}. Waits for that, unless
   * called by the thread itself.
   */
  public void close(Duration timeout) {
    closing = Deadline.after(timeout);
    if (thread.getState() == Thread.State.NEW) {
      closeAll();
      return;
    }
    selector.wakeup();
    if (!thread.equals(Thread.currentThread())) {
      join(timeout.plus(LONGEST_CLOSE));
    }
  }

  private void join(Duration max) {
    boolean interrupted = false;
    Deadline deadline = Deadline.after(max);
    while (thread.isAlive() && !deadline.expired()) {
      try {
        thread.join(deadline.remainingMillis());
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
