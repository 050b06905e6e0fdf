package org.ep4j.group;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadLocalRandom;
import org.ep4j.group.rendezvous.Rendezvous;

/** Ranks that join over TCP, all in this JVM; the rendezvous is hosted as by a launcher. */
public final class TcpWorld implements AutoCloseable {
  public static final Duration LONG = Duration.ofSeconds(20);
  public static final String SECRET = "5b3f0d6c8e1a4927b06d83f1c2e59a74";

  /** A liveness timeout that a busy machine does not exceed. */
  static final Duration LIVENESS = Duration.ofSeconds(3);

  /** Below the range from which Linux assigns ports, so that no other socket gets it by chance. */
  private static final int FIRST_PORT = 20_000;

  private static final int LAST_PORT = 32_000;

  /** Code of a rank in an existing group. */
  @FunctionalInterface
  public interface Body {
    void run(Group group) throws Exception;
  }

  public final Rendezvous rendezvous;
  private final ConcurrentLinkedQueue<Group> groups = new ConcurrentLinkedQueue<>();

  public TcpWorld(int size) {
    this(config(size));
  }

  public TcpWorld(GroupConfig config) {
    rendezvous = Rendezvous.open(config);
  }

  public static GroupConfig config(int size) {
    return GroupConfig.builder()
        .size(size)
        .rendezvous("127.0.0.1", 0)
        .secret(SECRET)
        .joinTimeout(LONG)
        .livenessTimeout(LIVENESS)
        .build();
  }

  /** A port without a listener. */
  public static int freePort() {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(FIRST_PORT, LAST_PORT);
      try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
        return socket.getLocalPort();
      } catch (BindException e) {
        // Taken; try the next one.
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }
  }

  /** The configuration of rank 1 of a world at some port, hosted by another process. */
  public static GroupConfig.Builder rankOneAt(int size, int port) {
    return config(size).toBuilder().rank(1).rendezvous("127.0.0.1", port).hostsRendezvous(false);
  }

  /** The configuration of a rank that joins here. */
  public GroupConfig.Builder rank(int rank) {
    return rendezvous.configOf(rank).toBuilder();
  }

  /** Joins as one rank; the group is closed with the world. */
  public Group join(GroupConfig config) {
    return keep(Group.join(config));
  }

  /** Closes this group with the world. */
  public Group keep(Group group) {
    groups.add(group);
    return group;
  }

  /** Joins as every rank; the groups in rank order. */
  public List<Group> joinAll() {
    int size = rank(0).build().size();
    List<Group> joined = ThreadRanks.call(size, LONG, me -> join(rank(me.rank()).build()));
    return new ArrayList<>(joined);
  }

  /** Runs the body for each group on its own thread; throws the first exception. */
  public static void inEach(List<Group> groups, Body body) throws Exception {
    List<FutureTask<Void>> tasks = new ArrayList<>();
    for (Group group : groups) {
      FutureTask<Void> task =
          new FutureTask<>(
              () -> {
                body.run(group);
                return null;
              });
      tasks.add(task);
      Thread.ofVirtual().start(task);
    }
    for (FutureTask<Void> task : tasks) {
      try {
        task.get();
      } catch (ExecutionException e) {
        throw new AssertionError("a rank failed: " + e.getCause(), e.getCause());
      }
    }
  }

  static void inEach(Body body, Group... groups) throws Exception {
    inEach(Arrays.asList(groups), body);
  }

  @Override
  public void close() {
    List<Thread> closers = new ArrayList<>();
    for (Group group : groups) {
      closers.add(Thread.startVirtualThread(group::close));
    }
    for (Thread closer : closers) {
      try {
        closer.join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
    rendezvous.close();
  }
}
