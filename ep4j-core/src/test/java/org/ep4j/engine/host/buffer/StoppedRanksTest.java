package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.HighThroughputTest.constant;
import static org.ep4j.engine.host.buffer.Steps.await;
import static org.ep4j.engine.host.buffer.Steps.on;
import static org.ep4j.engine.host.buffer.Steps.start;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.FutureTask;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A rank stops in the middle of an operation until the other ranks have aborted, then continues: it
 * reads no wrong rows, and writes none into their memory.
 */
@Timeout(120)
class StoppedRanksTest {
  private static final int RANKS = 4;
  private static final int STOPPED = 2;
  private static final int STOPPED_RANK = 3;
  private static final Duration LONG = Duration.ofSeconds(20);

  private static final BufferConfig CONFIG =
      config().placement(ExpertPlacement.blocks(8, RANKS)).topK(RANKS).timeout(LONG).build();

  /** One token to the first expert of each rank. */
  private static final Routing EVERYWHERE = Routing.of(Tensor.of(new long[] {0, 2, 4, 6}, 1, 4));

  private final Group[] groups = new Group[RANKS];
  private final ExpertBuffer[] buffers = new ExpertBuffer[RANKS];
  private final ScriptedRank[] scripted = new ScriptedRank[RANKS];

  @Test
  void aRankWhoseCombineAnotherHasAbortedGetsNoSums() {
    Routing routing = Routing.of(Tensor.of(new long[] {0, 2}, 1, 2));
    BufferConfig config = config().placement(ExpertPlacement.blocks(4, 2)).timeout(LONG).build();
    ThreadRanks.run(
        2,
        group -> {
          if (group.rank() == 1) {
            try (ScriptedRank scripted = new ScriptedRank(group, config)) {
              scripted.enterDispatch();
              scripted.finishCombineAndAbort(scripted.finishDispatch());
              group.barrier(LONG);
              group.barrier(LONG);
            }
            return;
          }
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            Dispatch dispatch = buffer.dispatch(constant(1, 1), routing);
            group.barrier(LONG);
            assertThatThrownBy(() -> buffer.combine(dispatch.x(), dispatch.handle()))
                .isInstanceOf(PeerTimeoutException.class)
                .hasMessageContaining("rank 1 has aborted (tired of waiting)")
                .hasMessageContaining("phase 'sums'");
            group.barrier(LONG);
          }
        });
  }

  @Test
  void aRankThatContinuesSendingReachesNoRankAndIsNotified() throws Exception {
    inProcesses(
        2,
        _ -> {
          lose(STOPPED);
          lose(STOPPED_RANK);
          on(rank -> buffers[rank].reset(), 0, 1);
          othersAreUnreachable(0, 1);
          assertThat(scripted[STOPPED].abortReport(0))
              .isEqualTo("has continued without the lost ranks");
        });
  }

  @Test
  void soDoesARankStoppedInAnOperation() throws Exception {
    inProcesses(
        2,
        _ -> {
          FutureTask<Boolean> stoppedRank =
              start(STOPPED_RANK, rank -> scripted[rank].enterDispatch());
          FutureTask<Boolean> stopped =
              start(
                  STOPPED,
                  rank -> {
                    scripted[rank].enterDispatch();
                    await(stoppedRank);
                    lose(rank);
                    lose(STOPPED_RANK);
                  });
          on(
              rank ->
                  assertThatThrownBy(() -> buffers[rank].dispatch(constant(1, 1), EVERYWHERE))
                      .isInstanceOf(PeerTimeoutException.class)
                      .hasMessageContaining("silent for too long"),
              0,
              1);
          await(stopped);
          on(rank -> buffers[rank].reset(), 0, 1);
          othersAreUnreachable(0, 1);
          assertThat(scripted[STOPPED].abortReport(0))
              .contains("has aborted (its report: this rank");
        });
  }

  /**
   * One rank leaves a reset before all ranks have started again: the next reset replaces the memory
   * again.
   */
  @Test
  void memoryIsLeftAgainWhereItIsNotKnownWhetherAllHaveLeftIt() throws Exception {
    inProcesses(
        2,
        _ -> {
          lose(STOPPED);
          FutureTask<Boolean> early =
              start(STOPPED_RANK, rank -> scripted[rank].leaveInReset(false));
          resetFails();
          await(early);
          // No other rank has been lost. If the live ranks did not replace the memory, they would
          // not gather with this one.
          FutureTask<Boolean> again =
              start(STOPPED_RANK, rank -> scripted[rank].leaveInReset(true));
          on(rank -> buffers[rank].reset(), 0, 1);
          await(again);
          lose(STOPPED_RANK);
          on(rank -> buffers[rank].reset(), 0, 1);
          othersAreUnreachable(0, 1);
        });
  }

  @Test
  void memoryIsLeftInTheSecondAttemptIfNotInTheFirst() throws Exception {
    inProcesses(
        2,
        _ -> {
          lose(STOPPED);
          FutureTask<Boolean> early = start(STOPPED_RANK, rank -> scripted[rank].beginReset());
          resetFails();
          await(early);
          lose(STOPPED_RANK);
          on(rank -> buffers[rank].reset(), 0, 1);
          othersAreUnreachable(0, 1);
        });
  }

  private void resetFails() throws Exception {
    on(
        rank -> assertThatThrownBy(() -> buffers[rank].reset()).isInstanceOf(GroupException.class),
        0,
        1);
  }

  /** The rank's own number stays unchanged while those of the other ranks grow. */
  @Test
  void aRankExcludedForLongStillSeesThatOthersAborted() throws Exception {
    inProcesses(
        1,
        rendezvous -> {
          ScriptedRank old = scripted[STOPPED];
          lose(STOPPED);
          startAgain(STOPPED, rendezvous, 0, 1, STOPPED_RANK);
          assertThat(old.abortReport(0)).isNull();
          on(
              rank -> {
                if (rank == STOPPED_RANK) {
                  lose(rank);
                } else {
                  assertThatThrownBy(() -> buffers[rank].dispatch(constant(1, 1), EVERYWHERE))
                      .isInstanceOf(PeerTimeoutException.class);
                }
              },
              0,
              1,
              STOPPED,
              STOPPED_RANK);
          assertThat(old.abortReport(0)).contains("dead");
        });
  }

  @Test
  void aLostRankAbortsWhenAnotherRejoins() throws Exception {
    inProcesses(
        2,
        rendezvous -> {
          lose(STOPPED);
          lose(STOPPED_RANK);
          startAgain(STOPPED_RANK, rendezvous, 0, 1);
          othersAreUnreachable(0, 1, STOPPED_RANK);
        });
  }

  @Test
  void soDoesTheOldProcessOfAReplacedRankAfterTheNextReset() throws Exception {
    inProcesses(
        1,
        rendezvous -> {
          lose(STOPPED);
          startAgain(STOPPED, rendezvous, 0, 1, STOPPED_RANK);
          on(rank -> buffers[rank].reset(), 0, 1, STOPPED, STOPPED_RANK);
          othersAreUnreachable(0, 1, STOPPED, STOPPED_RANK);
        });
  }

  /** Body of a test. */
  private interface Scenario {
    void run(Rendezvous rendezvous) throws Exception;
  }

  /**
   * With ranks that are separate processes to each other, with shared files.
   *
   * @param many number of scripted ranks, from the stopped one on
   */
  private void inProcesses(int many, Scenario scenario) throws Exception {
    try (Rendezvous rendezvous = Rendezvous.open(group())) {
      on(
          rank -> {
            groups[rank] = Group.join(rendezvous.configOf(rank));
            if (rank < STOPPED || rank >= STOPPED + many) {
              buffers[rank] = ExpertBuffer.open(groups[rank], CONFIG);
            } else {
              scripted[rank] = new ScriptedRank(groups[rank], CONFIG);
            }
          },
          0,
          1,
          STOPPED,
          STOPPED_RANK);
      scenario.run(rendezvous);
      for (ExpertBuffer buffer : buffers) {
        if (buffer != null) {
          buffer.close();
        }
      }
      for (ScriptedRank each : scripted) {
        if (each != null) {
          each.close();
        }
      }
      on(rank -> groups[rank].close(), 0, 1, STOPPED, STOPPED_RANK);
    }
  }

  private static GroupConfig group() {
    return GroupConfig.builder()
        .size(RANKS)
        .rendezvous("127.0.0.1", 0)
        .secret(UUID.randomUUID().toString())
        .joinTimeout(LONG)
        .livenessTimeout(Duration.ofSeconds(5))
        .build();
  }

  /** A new process replaces the rank; the old one keeps its mappings. */
  private void startAgain(int back, Rendezvous rendezvous, int... others) throws Exception {
    FutureTask<Boolean> newcomer =
        start(
            back,
            rank -> {
              groups[rank].close();
              groups[rank] = Group.rejoin(rendezvous.configOf(rank));
              buffers[rank] = ExpertBuffer.rejoin(groups[rank], CONFIG);
            });
    on(
        rank -> {
          groups[rank].readmit(LONG);
          buffers[rank].readmit();
        },
        others);
    await(newcomer);
  }

  private void lose(int lost) throws Exception {
    groups[lost].fail("silent for too long");
    for (int rank = 0; rank < STOPPED; rank++) {
      while (groups[rank].isAlive(lost)) {
        Thread.sleep(1);
      }
    }
  }

  /** The live ranks dispatch, and later stores of the stopped rank do not change their rows. */
  private void othersAreUnreachable(int... live) throws Exception {
    float[] values = new float[live.length];
    for (int i = 0; i < live.length; i++) {
      values[i] = 1 + live[i];
    }
    Dispatch[] dispatches = new Dispatch[RANKS];
    on(rank -> dispatches[rank] = buffers[rank].dispatch(constant(1 + rank, 1), EVERYWHERE), live);
    scripted[STOPPED].scribble(0);
    scripted[STOPPED].scribble(1);
    on(
        rank -> {
          assertThat(heads(dispatches[rank].x())).containsExactly(values);
          Tensor sums = buffers[rank].combine(dispatches[rank].x(), dispatches[rank].handle()).x();
          assertThat(heads(sums)).containsExactly(live.length * (1 + rank));
        },
        live);
  }
}
