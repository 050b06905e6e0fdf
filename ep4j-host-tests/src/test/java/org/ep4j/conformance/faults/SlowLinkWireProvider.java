package org.ep4j.conformance.faults;

import static java.util.Objects.requireNonNull;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.Wires;
import org.jspecify.annotations.Nullable;

/**
 * The wire inside a JVM, with one slow link: what rank {@code from} sends to rank {@code to}
 * arrives a while later, in order; a courier thread carries it. The sender does not wait for it, as
 * with a NIC. The link can begin to be slow with the first rows after {@link #holdRows}: words
 * before it are on time.
 */
public final class SlowLinkWireProvider implements WireProvider {
  static final String NAME = "slowlink";

  /**
   * The slow link of the wires that open from now on.
   *
   * @param least 0: the link is always slow; otherwise it is fast until {@link #holdRows}, and slow
   *     from the next put of so many bytes on
   */
  record Link(int from, int to, long nanos, long least) {
    Link(int from, int to, long nanos) {
      this(from, to, nanos, 0);
    }
  }

  private static volatile boolean holding;

  private static volatile Link slow = new Link(-1, -1, 0);

  /** Used by the service loader. */
  public SlowLinkWireProvider() {}

  static void slow(Link link) {
    slow = link;
    holding = false;
  }

  /** From now on, a link with a least size is slow from its next large put on. */
  static void holdRows() {
    holding = true;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.inProcess() ? "" : "they are processes, not threads of one JVM";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    Wire inner =
        Wires.open(
            group,
            WireConfig.builder()
                .wire("inproc")
                .lanes(config.lanes())
                .counters(config.counters())
                .timeout(config.timeout())
                .build());
    Link link = slow;
    if (group.rank() != link.from) {
      return inner;
    }
    Lane[] lanes = new Lane[inner.config().lanes()];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new SlowLane(inner.lane(link.to, i), link);
    }
    return (Wire)
        Proxy.newProxyInstance(
            SlowLinkWireProvider.class.getClassLoader(),
            new Class<?>[] {Wire.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("lane") && (int) arguments[0] == link.to) {
                return lanes[(int) arguments[1]];
              }
              try {
                return method.invoke(inner, arguments);
              } catch (InvocationTargetException e) {
                throw requireNonNull(e.getCause());
              }
            });
  }

  /** Work on its way. */
  private record Parcel(long due, Runnable delivery) implements Delayed {
    @Override
    public long getDelay(TimeUnit unit) {
      return unit.convert(due - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    @Override
    public int compareTo(Delayed other) {
      return Long.compare(due, ((Parcel) other).due);
    }
  }

  /** A lane whose work the courier submits, one item after the other. */
  private static final class SlowLane implements Lane {
    private final Lane inner;
    private final Link link;
    private final DelayQueue<Parcel> road = new DelayQueue<>();
    private final AtomicLong delivered = new AtomicLong();
    private long accepted;
    private long lastDue;

    SlowLane(Lane inner, Link link) {
      this.inner = inner;
      this.link = link;
      Thread.ofVirtual().name("courier").start(this::deliver);
    }

    private void deliver() {
      try {
        for (Parcel next = road.poll(1, TimeUnit.MINUTES);
            next != null && inner.failure() == null;
            next = road.poll(1, TimeUnit.MINUTES)) {
          next.delivery.run();
          delivered.incrementAndGet();
        }
      } catch (InterruptedException | IllegalStateException e) {
        // The wire has been closed.
        road.clear();
      }
    }

    private long send(long bytes, Runnable delivery) {
      if (inner.failure() != null) {
        return FAILED;
      }
      boolean slows = link.least == 0 || (holding && bytes >= link.least);
      long delay = slows ? link.nanos : 0;
      lastDue = Math.max(lastDue + 1, System.nanoTime() + delay);
      road.add(new Parcel(lastDue, delivery));
      return ++accepted;
    }

    @Override
    public long put(
        Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
      return send(bytes, () -> inner.put(local, localOffset, remote, remoteOffset, bytes, counter));
    }

    @Override
    public long add(int counter, long value) {
      return send(0, () -> inner.add(counter, value));
    }

    @Override
    public int peer() {
      return inner.peer();
    }

    @Override
    public int index() {
      return inner.index();
    }

    @Override
    public boolean flush() {
      return true;
    }

    @Override
    public long accepted() {
      return accepted;
    }

    @Override
    public long delivered() {
      return delivered.get();
    }

    @Override
    public @Nullable LaneFailure failure() {
      return inner.failure();
    }
  }
}
