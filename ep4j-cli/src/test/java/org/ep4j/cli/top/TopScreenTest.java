package org.ep4j.cli.top;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.Style;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.rendezvous.JobObserver;
import org.ep4j.observe.ObservationLog;
import org.junit.jupiter.api.Test;

class TopScreenTest {
  private static final int LATE = 3;

  @Test
  void ofManyRanksTheLargestWaitsAreShown() {
    String screen = new TopScreen(answer(12, 1)).render(Style.PLAIN);
    assertThat(screen)
        .contains("12 ranks, 12 alive", "largest waits")
        .containsPattern("rank \\d+ waits for rank 3 +1000\\.0")
        .doesNotContain("rank waits for", "buffer 1 of");
  }

  @Test
  void ofFewRanksTheWholeMatrixIsShown() {
    assertThat(new TopScreen(answer(4, 1)).render(Style.PLAIN))
        .containsPattern("\n2 +0\\.0 +0\\.0 +- +1000\\.0\n")
        .contains("busiest: 0 (25.0 %)", "balancedness 1.00")
        .doesNotContain("no answer");
  }

  @Test
  void ranksThatDoNotAnswerAreNamed() {
    JobObserver.Answer answer = answer(4, 1);
    answer.ofRank().remove(1);
    answer.ofRank().remove(2);
    assertThat(new TopScreen(answer).render(Style.PLAIN)).contains("no answer from ranks 1, 2");
  }

  @Test
  void eachBufferHasItsPart() {
    assertThat(new TopScreen(answer(2, 2)).render(Style.PLAIN))
        .contains("buffer 1 of 2", "buffer 2 of 2");
  }

  @Test
  void aJobWithoutABufferSaysSo() {
    JobObserver.Answer answer = answer(2, 0);
    assertThat(new TopScreen(answer).render(Style.PLAIN)).contains("no buffer is open");
  }

  @Test
  void jsonHoldsTheMatrixByWaiterAndPeer() {
    String json = Json.text(new TopScreen(answer(4, 1)).tree());
    assertThat(json)
        .contains("\"version\" : 1", "\"operations\" : 60", "\"answered\" : [ 0, 1, 2, 3 ]")
        .contains("[ 0.0, 0.0, 0.0, 1000.0 ]", "[ 0.0, 0.0, 0.0, 0.0 ]")
        .contains("\"verdict\" : \"slow_rank\"", "\"verdict_rank\" : 3");
  }

  @Test
  void timeoutsOfARankAreShown() {
    ObservationLog log = new ObservationLog(1, 2, new int[] {0});
    PeerTimeoutException timeout =
        new PeerTimeoutException("combine", "rows", 7, 0, 8, 7, 100, "silent", false);
    log.timeouts().record(timeout);
    log.timeouts().record(timeout);
    TopScreen screen =
        new TopScreen(
            new JobObserver.Answer(
                "job", 2, 2, new TreeMap<>(Map.of(1, List.of(log.snapshot().encode())))));

    assertThat(screen.render(Style.PLAIN))
        .contains("timeouts rank 1: 2 since the buffer was opened; the last one named rank 0");
    assertThat(Json.text(screen.tree()))
        .contains("\"timeouts_of_ranks\" : {\n")
        .contains("\"1\" : 2");
  }

  /** All ranks waited a millisecond an operation for rank 3, which waited for none. */
  private static JobObserver.Answer answer(int ranks, int buffers) {
    TreeMap<Integer, List<byte[]>> ofRank = new TreeMap<>();
    for (int rank = 0; rank < ranks; rank++) {
      ObservationLog log = new ObservationLog(rank, ranks, new int[] {rank});
      for (int i = 0; i < 3 * ObservationLog.WINDOW; i++) {
        if (rank != LATE && LATE < ranks) {
          log.waited(LATE, 1_000_000);
        }
        log.expert(0, 1);
        log.operationEnded();
      }
      ofRank.put(rank, Collections.nCopies(buffers, log.snapshot().encode()));
    }
    return new JobObserver.Answer("job", ranks, ranks, ofRank);
  }
}
