package org.ep4j.engine.world;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** Steps of an opening that one rank cannot do. */
class AgreedStepTest {
  /** Longer than the test may take: no rank may wait for a rank that failed. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private final List<Integer> undone = new CopyOnWriteArrayList<>();

  @Test
  void theFailureOfOneRankEndsTheStepOnAll() {
    ThreadRanks.run(
        3,
        group -> {
          assertThatThrownBy(() -> AgreedStep.run(group, LONG, () -> memoryOf(group), undone::add))
              .isInstanceOf(
                  group.rank() == 1 ? OutOfMemoryError.class : EngineUnavailableException.class)
              .hasMessageContaining("no memory here");
        });
    assertThat(undone).containsExactlyInAnyOrder(0, 2);
  }

  @Test
  void othersLearnTheRankThatFailed() {
    ThreadRanks.run(
        2,
        group -> {
          if (group.rank() == 0) {
            assertThatThrownBy(
                    () -> AgreedStep.run(group, LONG, () -> memoryOf(group), undone::add))
                .hasMessage(ErrorCode.RANK_OPEN_FAILED.message("rank 1: no memory here"));
          } else {
            assertThatThrownBy(
                    () -> AgreedStep.run(group, LONG, () -> memoryOf(group), undone::add))
                .isInstanceOf(OutOfMemoryError.class);
          }
        });
  }

  /** An empty text would mean success. */
  @Test
  void aFailureWithoutTextEndsTheStepOnAll() {
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(
                    () ->
                        AgreedStep.run(
                            group,
                            LONG,
                            () -> {
                              if (group.rank() == 1) {
                                throw new IllegalStateException("");
                              }
                              return group.rank();
                            },
                            undone::add))
                .isInstanceOf(
                    group.rank() == 1
                        ? IllegalStateException.class
                        : EngineUnavailableException.class));
    assertThat(undone).containsExactly(0);
  }

  @Test
  void aFailureToUndoDoesNotHideTheRankThatFailed() {
    ThreadRanks.run(
        2,
        group -> {
          if (group.rank() == 0) {
            IllegalStateException stuck = new IllegalStateException("cannot undo");
            assertThatThrownBy(
                    () ->
                        AgreedStep.run(
                            group,
                            LONG,
                            () -> memoryOf(group),
                            _ -> {
                              throw stuck;
                            }))
                .hasMessage(ErrorCode.RANK_OPEN_FAILED.message("rank 1: no memory here"))
                .hasSuppressedException(stuck);
          } else {
            assertThatThrownBy(
                    () -> AgreedStep.run(group, LONG, () -> memoryOf(group), undone::add))
                .isInstanceOf(OutOfMemoryError.class);
          }
        });
  }

  /** Survivors that have nothing to do in the step wait in agree(). */
  @Test
  void survivorsLearnThatANewcomerFailed() {
    ThreadRanks.run(
        3,
        group -> {
          try (SurvivorAgreement agreement =
              SurvivorAgreement.ofSurvivors(group, new Members(group), LONG, 0L)) {
            if (group.rank() == 1) {
              assertThatThrownBy(() -> agreement.step(() -> memoryOf(group), undone::add))
                  .isInstanceOf(OutOfMemoryError.class);
            } else {
              assertThatThrownBy(() -> agreement.agree("", LONG))
                  .isInstanceOf(Ep4jException.class)
                  .hasMessageContaining("rank 1: no memory here");
            }
          }
        });
    assertThat(undone).isEmpty();
  }

  private static int memoryOf(Group group) {
    if (group.rank() == 1) {
      throw new OutOfMemoryError("no memory here");
    }
    return group.rank();
  }
}
