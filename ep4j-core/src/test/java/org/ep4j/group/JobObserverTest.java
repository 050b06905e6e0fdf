package org.ep4j.group;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.rendezvous.JobObserver;
import org.junit.jupiter.api.Test;

class JobObserverTest {
  private static final Duration LONG = TcpWorld.LONG;

  @Test
  void anObserverGetsWhatEachRankShowsAsOftenAsItAsks() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      Runnable ofZero = groups.get(0).observable(() -> bytes("first of 0"));
      groups.get(0).observable(() -> bytes("second of 0"));
      groups.get(2).observable(() -> bytes("of 2"));
      try (JobObserver observer = observer(world, TcpWorld.SECRET)) {
        JobObserver.Answer answer = observer.ask(LONG);
        assertThat(answer.jobId()).isEqualTo(groups.get(0).jobId());
        assertThat(answer.size()).isEqualTo(3);
        assertThat(answer.asked()).isEqualTo(3);
        assertThat(texts(answer, 0)).containsExactly("first of 0", "second of 0");
        assertThat(texts(answer, 1)).isEmpty();
        assertThat(texts(answer, 2)).containsExactly("of 2");

        ofZero.run();
        assertThat(texts(observer.ask(LONG), 0)).containsExactly("second of 0");
      }
    }
  }

  @Test
  void departedRanksAreNotAsked() throws Exception {
    try (TcpWorld world = new TcpWorld(3);
        JobObserver observer = observer(world, TcpWorld.SECRET)) {
      List<Group> groups = world.joinAll();
      groups.get(1).close();
      JobObserver.Answer answer = observer.ask(LONG);
      while (answer.asked() == 3) {
        answer = observer.ask(LONG);
      }
      assertThat(answer.size()).isEqualTo(3);
      assertThat(answer.ofRank().keySet()).containsExactly(0, 2);
    }
  }

  @Test
  void aRankThatDoesNotAnswerIsLeftOutAfterTheTimeout() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      CountDownLatch asked = new CountDownLatch(1);
      CountDownLatch end = new CountDownLatch(1);
      AtomicReference<String> late = new AtomicReference<>("late");
      groups.get(0).observable(() -> bytes("here"));
      groups
          .get(1)
          .observable(
              () -> {
                String shown = requireNonNull(late.get());
                asked.countDown();
                try {
                  end.await(LONG.toSeconds(), TimeUnit.SECONDS);
                } catch (InterruptedException e) {
                  Thread.currentThread().interrupt();
                }
                return bytes(shown);
              });
      try (JobObserver observer = observer(world, TcpWorld.SECRET)) {
        JobObserver.Answer answer = observer.ask(Duration.ofMillis(500));
        assertThat(asked.getCount()).isZero();
        assertThat(answer.ofRank().keySet()).containsExactly(0);

        // What the rank answers late belongs to no later question.
        end.countDown();
        late.set("not late");
        assertThat(texts(observer.ask(LONG), 1)).containsExactly("not late");
        assertThat(texts(observer.ask(LONG), 1)).containsExactly("not late");
      } finally {
        end.countDown();
      }
    }
  }

  @Test
  void aFailingAnswerCostsTheRankNothing() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      groups
          .get(1)
          .observable(
              () -> {
                throw new IllegalStateException("of this test");
              });
      try (JobObserver observer = observer(world, TcpWorld.SECRET)) {
        assertThat(texts(observer.ask(LONG), 1)).containsExactly("");
        assertThat(groups.get(0).isAlive(1)).isTrue();
      }
    }
  }

  @Test
  void anotherSecretIsRefused() {
    try (TcpWorld world = new TcpWorld(1)) {
      assertThatThrownBy(() -> observer(world, "another secret"))
          .isInstanceOf(JoinRefusedException.class);
    }
  }

  @Test
  void aJobThatHasNotFormedIsRefused() throws Exception {
    try (TcpWorld world = new TcpWorld(2);
        JobObserver observer = observer(world, TcpWorld.SECRET)) {
      assertThatThrownBy(() -> observer.ask(LONG))
          .isInstanceOf(JoinRefusedException.class)
          .hasMessageStartingWith(ErrorCode.GROUP_NOT_FORMED.id())
          .hasMessageContaining("once all ranks have joined");
    }
  }

  @Test
  void oneObserverTooManyIsRefusedAndDisturbsNoOther() throws Exception {
    List<JobObserver> observers = new ArrayList<>();
    try (TcpWorld world = new TcpWorld(1)) {
      world.joinAll();
      for (int i = 0; i < 16; i++) {
        observers.add(observer(world, TcpWorld.SECRET));
        observers.getLast().ask(LONG);
      }
      observers.add(observer(world, TcpWorld.SECRET));
      assertThatThrownBy(() -> observers.getLast().ask(LONG))
          .isInstanceOf(JoinRefusedException.class)
          .hasMessageStartingWith(ErrorCode.TOO_MANY_OBSERVERS.id())
          .hasMessageContaining("16 observers");
      assertThat(observers.getFirst().ask(LONG).asked()).isEqualTo(1);
    } finally {
      observers.forEach(JobObserver::close);
    }
  }

  @Test
  void theEndOfAJobIsSeen() throws Exception {
    TcpWorld world = new TcpWorld(1);
    world.joinAll();
    try (JobObserver observer = observer(world, TcpWorld.SECRET)) {
      observer.ask(LONG);
      world.close();
      assertThatThrownBy(() -> observer.ask(LONG)).isInstanceOf(IOException.class);
    }
  }

  private static JobObserver observer(TcpWorld world, String secret) throws IOException {
    return JobObserver.open(world.rendezvous.address(), secret, LONG);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(UTF_8);
  }

  private static List<String> texts(JobObserver.Answer answer, int rank) {
    return requireNonNull(answer.ofRank().get(rank)).stream()
        .map(each -> new String(each, UTF_8))
        .toList();
  }
}
