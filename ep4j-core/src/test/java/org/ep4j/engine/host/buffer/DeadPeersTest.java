package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.HighThroughputTest.constant;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Ranks that die or become silent, and how the live ranks continue. */
@org.junit.jupiter.api.parallel.Execution(ExecutionMode.CONCURRENT) // waits for silent ranks
class DeadPeersTest {
  private static final int RANKS = 3;

  /**
   * Longer than a test may take: no rank may wait that long for a rank that is known to be dead.
   */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final BufferConfig CONFIG =
      config().placement(ExpertPlacement.blocks(6, RANKS)).topK(3).timeout(LONG).build();

  /** One token to the first expert of each of the three ranks. */
  private static final Routing EVERYWHERE = Routing.of(Tensor.of(new long[] {0, 2, 4}, 1, 3));

  private static void withoutLast(Consumer<Group> last, BiConsumer<Group, ExpertBuffer> others) {
    List<Group> groups = Group.inProcess(RANKS);
    List<Thread> threads = new ArrayList<>();
    List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
    for (Group group : groups) {
      threads.add(
          Thread.ofPlatform()
              .name("rank-" + group.rank())
              .start(
                  () -> {
                    try {
                      if (group.rank() == RANKS - 1) {
                        last.accept(group);
                      } else {
                        try (ExpertBuffer buffer = ExpertBuffer.open(group, CONFIG)) {
                          others.accept(group, buffer);
                        }
                        group.close();
                      }
                    } catch (Throwable t) {
                      failures.add(t);
                      group.fail(t.toString());
                    }
                  }));
    }
    for (Thread thread : threads) {
      try {
        assertThat(thread.join(Duration.ofSeconds(60))).as("%s ended", thread).isTrue();
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
    }
    assertThat(failures).isEmpty();
  }

  private static void nameTheDead(PeerTimeoutException timeout, String operation, String phase) {
    assertThat(timeout.peer()).isEqualTo(RANKS - 1);
    assertThat(timeout.peerDead()).isTrue();
    assertThat(timeout.operation()).isEqualTo(operation);
    assertThat(timeout.phase()).isEqualTo(phase);
    assertThat(timeout).hasMessageContaining("is dead").hasMessageContaining("call reset()");
  }

  private static PeerTimeoutException timeoutOf(ThrowingCallable call) {
    return catchThrowableOfType(PeerTimeoutException.class, call);
  }

  /** The two live ranks continue: rows for the dead rank's experts are not sent. */
  private static void continueWithTwo(Group group, ExpertBuffer buffer) {
    assertThatThrownBy(() -> buffer.dispatch(constant(1, 1), EVERYWHERE))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
    assertThatThrownBy(buffer::cleanMask)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
    buffer.reset();
    assertThat(buffer.isMasked(RANKS - 1)).isTrue();
    for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
      Dispatch d =
          buffer.dispatch(
              layout,
              Tokens.of(constant(5 + group.rank(), 1)),
              EVERYWHERE,
              DispatchOptions.DEFAULT);
      assertThat(heads(d.x())).containsExactly(5, 6);
      DispatchHandle handle = d.handle();
      assertThat(heads(buffer.combine(d.x(), handle).x())).containsExactly(2 * (5 + group.rank()));
      d = buffer.dispatch(layout, Tokens.of(constant(7, 1)), handle, Execution.SYNCHRONOUS);
      assertThat(heads(d.x())).containsExactly(7, 7);
    }
    buffer.barrier();
  }

  @Test
  void rankThatDiesBeforeItEntersIsNamedAndTheOthersContinue() {
    withoutLast(
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, CONFIG)) {
            buffer.barrier();
            group.fail("killed by the test");
          }
        },
        (group, buffer) -> {
          buffer.barrier();
          nameTheDead(
              timeoutOf(() -> buffer.dispatch(constant(1, 1), EVERYWHERE)), "dispatch", "entry");
          continueWithTwo(group, buffer);
        });
  }

  @Test
  void rankThatDiesWhileItSendsIsNamedAndTheOthersContinue() {
    withoutLast(
        group -> {
          try (ScriptedRank scripted = new ScriptedRank(group, CONFIG)) {
            scripted.enterDispatch();
            group.fail("killed by the test");
          }
        },
        (group, buffer) -> {
          nameTheDead(
              timeoutOf(() -> buffer.dispatch(constant(1, 1), EVERYWHERE)), "dispatch", "rows");
          continueWithTwo(group, buffer);
        });
  }

  @Test
  void rankThatDiesWhileItSumsIsNamedAndTheOthersContinue() {
    withoutLast(
        group -> {
          try (ScriptedRank scripted = new ScriptedRank(group, CONFIG)) {
            scripted.enterDispatch();
            scripted.enterCombine(scripted.finishDispatch());
            group.fail("killed by the test");
          }
        },
        (group, buffer) -> {
          Dispatch d = buffer.dispatch(constant(1, 1), EVERYWHERE);
          nameTheDead(timeoutOf(() -> buffer.combine(d.x(), d.handle())), "combine", "sums");
          assertThatThrownBy(() -> buffer.combine(d.x(), d.handle()))
              .isInstanceOf(IllegalStateException.class);
          continueWithTwo(group, buffer);
        });
  }

  @Test
  void rankThatDiesInABarrierIsNamed() {
    withoutLast(
        group -> {
          try (ScriptedRank scripted = new ScriptedRank(group, CONFIG)) {
            scripted.enterBarrier();
            group.fail("killed by the test");
          }
        },
        (group, buffer) -> {
          nameTheDead(timeoutOf(buffer::barrier), "barrier", "exit");
          continueWithTwo(group, buffer);
        });
  }

  @Test
  void silentRankIsNamedAfterTheTimeoutAndJoinsTheReset() {
    BufferConfig impatient = config().timeout(Duration.ofSeconds(3)).build();
    Routing routing = Routing.of(Tensor.of(new long[] {0, 2}, 1, 2));
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, impatient)) {
            if (group.rank() == 0) {
              PeerTimeoutException timeout =
                  timeoutOf(() -> buffer.dispatch(constant(1, 1), routing));
              assertThat(timeout.peer()).isEqualTo(1);
              assertThat(timeout.peerDead()).isFalse();
              assertThat(timeout).hasMessageContaining("rank 1 is silent in phase 'entry'");
              group.barrier(LONG);
            } else {
              group.barrier(LONG);
            }
            buffer.reset();
            assertThat(buffer.isMasked(1)).isFalse();
            assertThat(heads(buffer.dispatch(constant(3, 1), routing).x())).containsExactly(3, 3);
          }
        });
  }

  @Test
  void resetWithoutTroubleChangesNothing() {
    Routing routing = Routing.of(Tensor.of(new long[] {0, 2}, 1, 2));
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            for (int i = 0; i < 3; i++) {
              buffer.reset();
              Tensor x = constant(group.rank() + 1, 1);
              assertThat(heads(buffer.dispatch(x, routing).x())).containsExactly(1, 2);
            }
          }
        });
  }
}
