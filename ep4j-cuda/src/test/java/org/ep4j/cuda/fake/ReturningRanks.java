package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.engine.HostedBuffer;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.rendezvous.Rendezvous;

/**
 * Ranks of which some are lost and return. They are separate processes to each other, with
 * connections and handles of memory, but threads of this JVM.
 */
final class ReturningRanks implements AutoCloseable {
  /** Longer than a test may take. */
  static final Duration LONG = Duration.ofMinutes(10);

  private static final Duration JOIN = Duration.ofSeconds(30);

  private final BufferConfig config;
  private final Group[] groups;
  private final ExpertBuffer[] buffers;
  private final boolean[] lost;
  private final boolean[] newcomers;
  private final List<AutoCloseable> old = new ArrayList<>();
  private final Rendezvous rendezvous;

  /** What a rank does. */
  interface Step {
    void run(int rank) throws Exception;
  }

  /** How a rank opens its buffer. */
  private interface Opening {
    ExpertBuffer open(Group group);
  }

  /** Opens a buffer on all ranks. */
  ReturningRanks(int ranks, BufferConfig config) throws Exception {
    this(ranks, config, group -> ExpertBuffer.open(group, config));
  }

  /**
   * The same on several hosts.
   *
   * @param hosts a letter for each rank
   */
  ReturningRanks(String hosts, BufferConfig config) throws Exception {
    this(
        hosts.length(),
        config,
        group -> HostedBuffer.open(group, config, hosts.substring(group.rank(), group.rank() + 1)));
  }

  private ReturningRanks(int ranks, BufferConfig config, Opening opening) throws Exception {
    this.config = config;
    groups = new Group[ranks];
    buffers = new ExpertBuffer[ranks];
    lost = new boolean[ranks];
    newcomers = new boolean[ranks];
    rendezvous =
        Rendezvous.open(
            GroupConfig.builder()
                .size(ranks)
                .rendezvous("127.0.0.1", 0)
                .secret(UUID.randomUUID().toString())
                .joinTimeout(JOIN)
                .livenessTimeout(Duration.ofSeconds(5))
                .build());
    onLive(
        rank -> {
          groups[rank] = Group.join(rendezvous.configOf(rank));
          buffers[rank] = opening.open(groups[rank]);
        });
  }

  ExpertBuffer buffer(int rank) {
    return buffers[rank];
  }

  /** On all live ranks at once. */
  void onLive(Step step) throws Exception {
    on(rank -> !lost[rank], step);
  }

  private void on(IntPredicate chosen, Step step) throws Exception {
    List<FutureTask<Boolean>> tasks = new ArrayList<>();
    for (int rank : IntStream.range(0, groups.length).filter(chosen).toArray()) {
      FutureTask<Boolean> task =
          new FutureTask<>(
              () -> {
                step.run(rank);
                return true;
              });
      tasks.add(task);
      Thread.ofPlatform().daemon().start(task);
    }
    for (FutureTask<Boolean> task : tasks) {
      try {
        assertThat(task.get()).isTrue();
      } catch (ExecutionException e) {
        throw new AssertionError(e.getCause());
      }
    }
  }

  /** Ranks are lost; the others have noticed it. */
  void lose(int... ranks) throws Exception {
    for (int rank : ranks) {
      lost[rank] = true;
      if (!newcomers[rank]) {
        old.add(buffers[rank]);
      }
      newcomers[rank] = false;
      old.add(groups[rank]);
      groups[rank].fail("over");
    }
    onLive(
        rank -> {
          for (int gone : ranks) {
            while (groups[rank].isAlive(gone)) {
              Thread.sleep(1);
            }
          }
        });
  }

  /** New processes of lost ranks join the group; {@link #takeIn} follows. */
  void start(int... ranks) throws Exception {
    boolean[] back = new boolean[groups.length];
    for (int rank : ranks) {
      back[rank] = true;
    }
    on(
        rank -> !lost[rank] || back[rank],
        rank -> {
          if (back[rank]) {
            groups[rank] = Group.rejoin(rendezvous.configOf(rank));
            return;
          }
          while (!Arrays.stream(ranks).allMatch(groups[rank]::hasReplacement)) {
            Thread.sleep(1);
          }
          assertThat(groups[rank].readmit(JOIN)).containsExactly(ranks);
        });
    for (int rank : ranks) {
      lost[rank] = false;
      newcomers[rank] = true;
    }
  }

  /** Collective among the live ranks. */
  void takeIn(int rank) {
    if (newcomers[rank]) {
      buffers[rank] = ExpertBuffer.rejoin(groups[rank], config);
      newcomers[rank] = false;
    } else {
      buffers[rank].readmit();
    }
  }

  /** What each live rank reports when one of them cannot take part; by rank. */
  List<Throwable> refusals() throws Exception {
    Throwable[] refusals = new Throwable[groups.length];
    onLive(
        rank -> {
          try {
            takeIn(rank);
          } catch (RuntimeException e) {
            refusals[rank] = e;
          }
        });
    return Arrays.stream(refusals).filter(each -> each != null).toList();
  }

  @Override
  public void close() {
    try {
      closeAll();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  private void closeAll() throws Exception {
    onLive(
        rank -> {
          if (!newcomers[rank]) {
            buffers[rank].close();
          }
        });
    for (AutoCloseable each : old) {
      each.close();
    }
    onLive(rank -> groups[rank].close());
    rendezvous.close();
  }
}
