package org.ep4j.engine.host.exec;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.engine.world.Nodes;
import org.jspecify.annotations.Nullable;

/**
 * The threads of one rank: the caller and, if more than one is configured, helpers that start on
 * first use. A task is split by worker number, so its result does not depend on timing.
 *
 * <p>Protocol. The caller writes the task, then raises {@link #round} (volatile); helpers wait for
 * that, do their part, and count {@link #busy} down; the caller waits for zero after its own part
 * or other work. Helpers spin briefly between rounds, then park; a helper announces that it parks
 * before it reads the round a last time, so it misses no round.
 */
public final class WorkerTeam implements AutoCloseable {
  /** A part of the work for each worker; the parts are disjoint. */
  public interface Task {
    /** Runs part {@code worker} of {@code workers}. */
    void run(int worker, int workers);
  }

  private static final int SPINS = 2_000;

  private final String name;
  private final Consumer<Thread> starter;
  private final AtomicInteger busy = new AtomicInteger();
  private final AtomicReference<@Nullable Throwable> failure = new AtomicReference<>();
  private Helper[] helpers = new Helper[0];
  private int size;

  private @Nullable Task task;
  private long started;
  private volatile long round;

  public WorkerTeam(String name, int size) {
    this(name, size, Thread::start);
  }

  /**
   * @param starter starts a helper, or throws the error of the system
   */
  public WorkerTeam(String name, int size, Consumer<Thread> starter) {
    this.name = name;
    this.size = size;
    this.starter = starter;
  }

  /** See {@link #size(int, Nodes, int, int)}. */
  public static int size(int wanted, Nodes nodes, int rank) {
    return size(wanted, nodes, rank, Runtime.getRuntime().availableProcessors());
  }

  /**
   * Number of workers of a rank: the configured number, or for 0 its share of the cores. All ranks
   * of a host share its cores, also as several nodes. With several nodes one core fewer if enough
   * remain: workers on all cores slow down the thread that drives the wire. At most as many as have
   * scratch memory.
   */
  static int size(int wanted, Nodes nodes, int rank, int cores) {
    if (wanted > 0) {
      return Math.min(wanted, ScratchLayout.BLOCKS);
    }
    int share = Math.max(1, cores / nodes.sharers(rank));
    return nodes.count() > 1 && share > WorkQueue.WITHOUT_CALLER ? share - 1 : share;
  }

  /** Number of workers, including the caller. */
  public int size() {
    return size;
  }

  /** Changes the number of workers; surplus helpers end. */
  public void resize(int workers) {
    size = workers;
    if (helpers.length > workers - 1) {
      endHelpers();
    }
  }

  /** Runs all parts and returns when they are done; throws the exception of a part. */
  public void run(Task work) {
    if (size == 1) {
      work.run(0, 1);
      return;
    }
    start(work);
    boolean done = false;
    try {
      work.run(0, size);
      done = true;
    } finally {
      if (!done) {
        abandon();
      }
    }
    finish();
  }

  /**
   * Starts the helpers on their parts, from 1 on; part 0 belongs to the caller, which then calls
   * {@link #finish}.
   */
  void start(Task work) {
    if (helpers.length < size - 1) {
      startHelpers(size - 1);
    }
    task = work;
    busy.set(helpers.length);
    started++;
    round = started;
    for (Helper helper : helpers) {
      if (helper.parked) {
        LockSupport.unpark(helper);
      }
    }
  }

  /** Waits for all started parts; throws the exception of a part. */
  void finish() {
    await();
    rethrow(failure.getAndSet(null));
  }

  /** Waits until no part runs, without exceptions. */
  void abandon() {
    await();
    failure.set(null);
  }

  /**
   * The parts use memory that the caller may free, so the caller never leaves before they are done.
   */
  private void await() {
    for (int spin = 0; busy.get() != 0; spin++) {
      if (spin < SPINS) {
        Thread.onSpinWait();
      } else {
        Thread.yield();
      }
    }
    task = null;
  }

  private static void rethrow(@Nullable Throwable thrown) {
    if (thrown instanceof Error error) {
      throw error;
    }
    if (thrown instanceof RuntimeException exception) {
      throw exception;
    }
  }

  private void startHelpers(int count) {
    endHelpers();
    Helper[] team = new Helper[count];
    int running = 0;
    try {
      for (int i = 0; i < count; i++) {
        team[i] = new Helper(i + 1, started);
        starter.accept(team[i]);
        running++;
      }
      helpers = team;
    } finally {
      // The system may have no thread left: a team is complete or empty.
      if (running < count) {
        end(Arrays.copyOf(team, running));
      }
    }
  }

  private void endHelpers() {
    end(helpers);
    helpers = new Helper[0];
  }

  private static void end(Helper[] team) {
    for (Helper helper : team) {
      helper.ended = true;
      LockSupport.unpark(helper);
    }
  }

  @Override
  public void close() {
    endHelpers();
  }

  private final class Helper extends Thread {
    private final int worker;
    private long seen;
    private volatile boolean parked;
    private volatile boolean ended;

    Helper(int worker, long seen) {
      super(name + "-worker-" + worker);
      this.worker = worker;
      this.seen = seen;
      setDaemon(true);
    }

    @Override
    public void run() {
      while (awaitRound()) {
        try {
          Task work = task;
          if (work != null) {
            work.run(worker, size);
          }
        } catch (RuntimeException | Error t) {
          failure.compareAndSet(null, t);
        } finally {
          busy.decrementAndGet();
        }
      }
    }

    /** Waits for the next round; false at the end. */
    private boolean awaitRound() {
      for (int spin = 0; round == seen && !ended; spin++) {
        if (spin < SPINS) {
          Thread.onSpinWait();
        } else {
          parked = true;
          if (round == seen && !ended) {
            LockSupport.park(this);
          }
          parked = false;
        }
      }
      // A helper that was stopped before this round has no part in it.
      if (ended) {
        return false;
      }
      seen++;
      return true;
    }
  }
}
