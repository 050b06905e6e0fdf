package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.junit.jupiter.api.Test;

/** Needs no GPU. */
class CallLogTest {
  private static final int RANKS = 3;
  private static final boolean[] NO_RANK = new boolean[RANKS];

  private final CyclicBarrier step = new CyclicBarrier(RANKS);

  private interface Script {
    void run(int rank, CallLog log) throws Exception;
  }

  private void onAllRanks(Script script) {
    ThreadRanks.run(
        RANKS,
        group -> {
          try (CallLog log = CallLog.open(group, Nodes.one(group.size()), Duration.ofSeconds(30))) {
            script.run(group.rank(), log);
            meet();
          }
        });
  }

  private void meet() throws Exception {
    step.await(1, TimeUnit.MINUTES);
  }

  private static Operation dispatch(int topK) {
    return new Operation()
        .begin(OperationLayout.DISPATCH)
        .set(OperationLayout.TOP_K, topK)
        .set(OperationLayout.EXPERT_ALIGNMENT, 1);
  }

  private static Operation combine() {
    return new Operation().begin(OperationLayout.COMBINE).set(OperationLayout.HANDLE, 1);
  }

  @Test
  void theSameCallsDoNotDiffer() {
    onAllRanks(
        (rank, log) -> {
          for (int n = 1; n <= 3 * CallLog.ENTRIES; n++) {
            assertThat(log.add(n % 2 == 0 ? combine() : dispatch(4))).isEqualTo(n);
          }
          meet();
          assertThat(log.difference(NO_RANK)).isNull();
        });
  }

  @Test
  void theEarliestDifferenceIsNamed() {
    onAllRanks(
        (rank, log) -> {
          for (int n = 0; n < CallLog.ENTRIES; n++) {
            log.add(dispatch(4));
          }
          log.add(rank == 2 ? combine() : dispatch(4));
          log.add(rank == 1 ? dispatch(5) : dispatch(4));
          meet();
          ConfigurationMismatchException difference = log.difference(NO_RANK);
          assertThat(difference).isNotNull();
          assertThat(difference.getMessage())
              .contains(
                  rank == 2
                      ? "rank 0 differs in the operation: dispatch there, combine on rank 2"
                      : "rank 2 differs in the operation: combine there, dispatch on rank " + rank)
              .contains("call reset() on all ranks");
        });
  }

  @Test
  void lowLatencyCallsAreCompared() {
    onAllRanks(
        (rank, log) -> {
          ScaleKind kind = rank == 1 ? ScaleKind.UE8M0 : ScaleKind.FLOAT32;
          log.add(
              new Operation()
                  .begin(OperationLayout.LOW_LATENCY_DISPATCH)
                  .set(OperationLayout.ROW_FORMAT, OperationLayout.rowFormat(RowFormat.FP8, kind)));
          meet();
          ConfigurationMismatchException difference = log.difference(NO_RANK);
          assertThat(difference).isNotNull();
          assertThat(difference.getMessage())
              .contains("differs in the format of the rows")
              .contains("FP8 with UE8M0 scales")
              .contains("FP8 with FLOAT32 scales")
              .contains("(in low-latency dispatch)");
        });
  }

  @Test
  void silentAndExcludedRanksDoNotDiffer() {
    onAllRanks(
        (rank, log) -> {
          log.add(dispatch(4));
          if (rank == 0) {
            log.add(dispatch(4));
          }
          if (rank == 2) {
            log.add(combine());
          }
          meet();
          if (rank == 1) {
            assertThat(log.difference(NO_RANK)).isNull();
          } else {
            assertThat(log.difference(NO_RANK)).isNotNull();
            assertThat(log.difference(new boolean[] {rank == 2, false, rank == 0})).isNull();
          }
        });
  }

  @Test
  void rankThatIsFurthestBehindIsFound() {
    onAllRanks(
        (rank, log) -> {
          assertThat(log.furthestBehind(NO_RANK)).isEqualTo(rank);
          meet();
          for (int n = 0; n < CallLog.ENTRIES + 3 - rank; n++) {
            log.add(dispatch(4));
          }
          meet();
          assertThat(log.furthestBehind(NO_RANK)).isEqualTo(2);
          assertThat(log.furthestBehind(new boolean[] {false, false, true}))
              .isEqualTo(rank == 2 ? 2 : 1);
        });
  }

  @Test
  void callsAreCountedFromOneAfterAReset() {
    onAllRanks(
        (rank, log) -> {
          for (int n = 0; n <= rank; n++) {
            log.add(rank == 0 ? combine() : dispatch(4));
          }
          meet();
          assertThat(log.difference(NO_RANK)).isNotNull();
          meet();
          log.clear();
          meet();
          assertThat(log.add(dispatch(4))).isEqualTo(1);
          meet();
          assertThat(log.difference(NO_RANK)).isNull();
        });
  }

  /** Ranks of a node on other hosts are not in the log: no memory of theirs is host memory here. */
  @Test
  void ranksOfOtherHostsAreNotInTheLog() {
    ThreadRanks.run(
        RANKS,
        group -> {
          Nodes nodes = HostNodes.one(group, "aab");
          assertThat(nodes.count()).isEqualTo(1);
          try (CallLog log = CallLog.open(group, nodes, Duration.ofSeconds(30))) {
            log.add(group.rank() == 0 ? combine() : dispatch(4));
            log.publishClosed();
            meet();
            assertThat(log.isClosed(0)).isEqualTo(group.rank() != 2);
            assertThat(log.isClosed(2)).isEqualTo(group.rank() == 2);
            assertThat(log.difference(NO_RANK) == null).isEqualTo(group.rank() == 2);
            meet();
          }
        });
  }
}
