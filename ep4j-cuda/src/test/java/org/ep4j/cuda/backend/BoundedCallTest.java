package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls that return, fail, or never return. */
@Timeout(60)
class BoundedCallTest {
  private static final Duration LONG = Duration.ofMinutes(10);
  private static final Duration SHORT = Duration.ofMillis(100);

  private final List<Group> groups = Group.inProcess(2);
  private final Participants participants = Participants.ofAll(groups.getFirst());
  private final CountDownLatch never = new CountDownLatch(1);

  private long hang() {
    try {
      never.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return 0;
  }

  @Test
  void resultOfACallIsReturned() {
    assertThat(BoundedCall.call(participants, "foo_init", LONG, () -> 42)).isEqualTo(42);
    assertThat(BoundedCall.lost(participants, "foo_init")).isEmpty();
  }

  @Test
  void errorOfACallIsThrown() {
    Ep4jException known =
        new Ep4jException(ErrorCode.LIBRARY_CALL_STUCK, "foo_init failed with status 7");
    assertThatThrownBy(
            () ->
                BoundedCall.call(
                    participants,
                    "foo_init",
                    LONG,
                    () -> {
                      throw known;
                    }))
        .isSameAs(known);
    AssertionError other = new AssertionError("of the binding");
    assertThatThrownBy(
            () ->
                BoundedCall.call(
                    participants,
                    "foo_init",
                    LONG,
                    () -> {
                      throw other;
                    }))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("foo_init cannot be called")
        .hasCause(other);
  }

  @Test
  void aCallWithoutEndIsAbandonedAfterItsLimit() {
    int before = BoundedCall.abandoned();
    assertThatThrownBy(() -> BoundedCall.call(participants, "foo_init", SHORT, this::hang))
        .isInstanceOf(Ep4jException.class)
        .hasMessageStartingWith(ErrorCode.LIBRARY_CALL_STUCK.id());
    assertThat(BoundedCall.abandoned()).isEqualTo(before + 1);
    never.countDown();
    while (BoundedCall.abandoned() > before) {
      Thread.onSpinWait();
    }
    assertThat(BoundedCall.abandoned()).as("it has returned after all").isEqualTo(before);
  }

  @Test
  void aRankThatDiesMeanwhileEndsTheWaitAndIsNamed() {
    CountDownLatch begun = new CountDownLatch(1);
    Thread.ofPlatform()
        .daemon()
        .start(
            () -> {
              try {
                if (begun.await(1, TimeUnit.MINUTES)) {
                  groups.get(1).fail("out of luck");
                }
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            });
    assertThatThrownBy(
            () ->
                BoundedCall.call(
                    participants,
                    "foo_init",
                    LONG,
                    () -> {
                      begun.countDown();
                      return hang();
                    }))
        .isInstanceOf(Ep4jException.class)
        .hasMessageStartingWith(ErrorCode.LIBRARY_CALL_RANK_LOST.id())
        .hasMessageContaining("rank 1 is gone while foo_init waits for it")
        .hasMessageContaining("out of luck");
  }
}
