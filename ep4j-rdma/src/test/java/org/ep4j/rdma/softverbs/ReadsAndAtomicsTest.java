package org.ep4j.rdma.softverbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.rdma.softverbs.DeviceEnd.*;
import static org.ep4j.rdma.softverbs.SoftVerbsTest.*;
import static org.ep4j.rdma.verbs.bindings.VerbsConstants.*;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Requests that the other end answers: reads and atomic operations. */
@EnabledIf(
    value = "org.ep4j.rdma.softverbs.SoftVerbs#isBuilt",
    disabledReason = "only the Surefire execution soft-verbs has emulated devices, built by g++")
class ReadsAndAtomicsTest {
  private static final int IBV_SEND_FENCE = 1;

  private static final int MANY = 32;
  private static final VarHandle NUMBER = ValueLayout.JAVA_LONG.varHandle();

  private static long number(DeviceEnd end, long at) {
    return end.memory.get(ValueLayout.JAVA_LONG, at);
  }

  @Test
  void readsBringTheBytesOfTheOtherEndInOrder() throws Exception {
    between(
        EVERYTHING,
        (a, b, there) -> {
          fill(b.memory);
          long bytes = 30_001;
          for (int i = 0; i < MANY; i++) {
            a.read(i, i * bytes, bytes, there.memory() + 7 + i * bytes, there.key());
          }
          List<Done> done = a.await(MANY);
          assertThat(done.stream().map(Done::id))
              .containsExactlyElementsOf(LongStream.range(0, MANY).boxed().toList());
          assertThat(done.getFirst()).isEqualTo(new Done(0, 0, IBV_WC_RDMA_READ, 0));
          MemorySegment read = a.memory.asSlice(0, MANY * bytes);
          assertThat(read.mismatch(b.memory.asSlice(7, MANY * bytes))).isEqualTo(-1);
        });
  }

  @Test
  void aReadFollowsTheWritesBeforeIt() throws Exception {
    between(
        EVERYTHING,
        (a, b, there) -> {
          fill(a.memory.asSlice(0, 100_000));
          a.write(1, 0, 100_000, there.memory(), there.key());
          a.read(2, 200_000, 100_000, there.memory(), there.key());
          a.await(2);
          assertThat(a.memory.asSlice(200_000, 100_000).mismatch(a.memory.asSlice(0, 100_000)))
              .isEqualTo(-1);
        });
  }

  @Test
  void atomicOperationsReturnWhatWasThereBefore() throws Exception {
    between(
        EVERYTHING,
        (a, b, there) -> {
          b.memory.set(ValueLayout.JAVA_LONG, 64, 5);
          a.add(1, 0, -7, there.memory() + 64, there.key());
          a.swap(2, 8, 5, 100, there.memory() + 64, there.key());
          a.swap(3, 16, -2, 1L << 40, there.memory() + 64, there.key());
          a.add(4, 24, 1, there.memory() + 64, there.key());
          assertThat(a.await(4))
              .containsExactly(
                  new Done(1, 0, IBV_WC_FETCH_ADD, 0),
                  new Done(2, 0, IBV_WC_COMP_SWAP, 0),
                  new Done(3, 0, IBV_WC_COMP_SWAP, 0),
                  new Done(4, 0, IBV_WC_FETCH_ADD, 0));
          assertThat(a.memory.asSlice(0, 32).toArray(ValueLayout.JAVA_LONG))
              .containsExactly(5, -2, -2, 1L << 40);
          assertThat(number(b, 64)).isEqualTo((1L << 40) + 1);
        });
  }

  @Test
  void anAdditionShowsTheWritesBeforeIt() throws Exception {
    between(
        EVERYTHING,
        (a, b, there) -> {
          for (byte round = 1; round <= MANY; round++) {
            a.memory.asSlice(64, 20_001).fill(round);
            a.write(1, 64, 20_001, there.memory() + 64, there.key());
            a.add(2, 0, 1, there.memory(), there.key());
            long end = System.nanoTime() + LIMIT;
            while ((long) NUMBER.getAcquire(b.memory, 0L) < round) {
              assertThat(System.nanoTime()).as("time of an addition").isLessThan(end);
            }
            assertThat(b.memory.asSlice(64, 20_001).toArray(ValueLayout.JAVA_BYTE))
                .containsOnly(round);
            a.await(2);
          }
        });
  }

  @Test
  void packetsThatAreLostAreAddedOnce() throws Exception {
    try (DeviceEnd a = new DeviceEnd("a0", EVERYTHING);
        DeviceEnd b = new DeviceEnd("b0", EVERYTHING)) {
      Address there = b.address();
      a.connect("b0", there.number(), 12, 6);
      b.connect("a0", a.address().number());
      SoftVerbs.link("loss", "10", "b0");
      List<Integer> statuses = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        for (int j = 0; j < MANY; j++) {
          a.add(j, 8L * (i * MANY + j), 1, there.memory(), there.key());
        }
        statuses.addAll(statuses(a.await(MANY)));
      }
      assertThat(statuses).containsOnly(IBV_WC_SUCCESS);
      assertThat(number(b, 0)).isEqualTo(8 * MANY);
      assertThat(a.memory.asSlice(0, 8L * 8 * MANY).toArray(ValueLayout.JAVA_LONG))
          .containsExactly(LongStream.range(0, 8 * MANY).toArray());
    } finally {
      SoftVerbs.link("clear", "b0");
    }
  }

  /**
   * It hears nothing until more packets than there are places for answers could have been answered.
   */
  @Test
  void answersStayForAnEndThatDoesNotHear() throws Exception {
    try (DeviceEnd a = new DeviceEnd("a0", EVERYTHING);
        DeviceEnd b = new DeviceEnd("b0", EVERYTHING)) {
      Address there = b.address();
      a.connect("b0", there.number(), HALF_A_SECOND, 6);
      b.connect("a0", a.address().number());
      fill(b.memory);
      SoftVerbs.link("delay", "100000", "b0");
      a.read(1, 0, 80_000, there.memory(), there.key());
      SoftVerbs.link("down", "a0");
      Thread.sleep(110);
      SoftVerbs.link("up", "a0");
      SoftVerbs.link("clear", "b0");
      assertThat(statuses(a.await(1))).containsExactly(IBV_WC_SUCCESS);
      assertThat(a.memory.asSlice(0, 80_000).mismatch(b.memory.asSlice(0, 80_000))).isEqualTo(-1);
    } finally {
      SoftVerbs.link("up", "a0");
      SoftVerbs.link("clear", "b0");
    }
  }

  /** Posts one request to {@code b}, whose memory has this access. */
  private static void refused(int access, int status, Pairwise request) throws Exception {
    between(
        access,
        (a, b, there) -> {
          request.run(a, b, there);
          assertThat(statuses(a.await(1))).containsExactly(status);
          assertThat(b.memory.asSlice(0, 64).toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
          assertThat(a.memory.asSlice(0, 64).toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
        });
  }

  @Test
  void memoryIsReadAndChangedOnlyWithTheAccessForIt() throws Exception {
    refused(
        EVERYTHING & ~IBV_ACCESS_REMOTE_READ,
        REMOTE_ACCESS,
        (a, b, there) -> a.read(1, 0, 8, there.memory(), there.key()));
    refused(
        EVERYTHING & ~IBV_ACCESS_REMOTE_ATOMIC,
        REMOTE_ACCESS,
        (a, b, there) -> a.add(1, 0, 1, there.memory(), there.key()));
    refused(
        EVERYTHING,
        REMOTE_ACCESS,
        (a, b, there) -> a.add(1, 0, 1, there.memory(), there.key() + 1));
  }

  @Test
  void nothingIsReadOrChangedOutsideTheMemory() throws Exception {
    refused(
        EVERYTHING,
        REMOTE_ACCESS,
        (a, b, there) -> {
          b.memory.fill((byte) 1);
          b.memory.asSlice(0, 64).fill((byte) 0);
          a.read(1, 0, 10_001, there.memory() + BYTES - 10_000, there.key());
        });
    refused(
        EVERYTHING,
        REMOTE_ACCESS,
        (a, b, there) -> a.swap(1, 0, 0, 1, there.memory() + BYTES, there.key()));
  }

  @Test
  void numbersThatAreNotAlignedAreNotChanged() throws Exception {
    refused(
        EVERYTHING,
        REMOTE_INVALID,
        (a, b, there) -> a.add(1, 0, 1, there.memory() + 4, there.key()));
  }

  @Test
  void answersNeedMemoryThatMayBeWritten() throws Exception {
    try (DeviceEnd a = new DeviceEnd("a0", 0);
        DeviceEnd b = new DeviceEnd("b0", EVERYTHING)) {
      Address there = b.address();
      a.connect("b0", there.number());
      b.connect("a0", a.address().number());
      a.add(1, 0, 1, there.memory(), there.key());
      assertThat(statuses(a.await(1))).containsExactly(LOCAL_PROTECTION);
      assertThat(number(b, 0)).isZero();
    }
  }

  @Test
  void fencedRequestsAreRefused() throws Exception {
    between(
        EVERYTHING,
        (a, b, there) -> {
          a.flags |= IBV_SEND_FENCE;
          assertThatThrownBy(() -> a.write(1, 0, 8, there.memory(), there.key()))
              .hasMessageContaining("ops.post_send returned 22");
        });
  }

  @Test
  void endsWithoutPlacesForAnswersNeitherAskNorAnswer() throws Exception {
    try (DeviceEnd a = new DeviceEnd("a0", EVERYTHING);
        DeviceEnd b = new DeviceEnd("b0", EVERYTHING)) {
      b.answers = 0;
      Address there = b.address();
      a.connect("b0", there.number());
      b.connect("a0", a.address().number());
      assertThatThrownBy(() -> b.read(1, 0, 8, a.address().memory(), a.address().key()))
          .hasMessageContaining("ops.post_send returned 22");
      a.read(2, 0, 8, there.memory(), there.key());
      assertThat(statuses(a.await(1))).containsExactly(REMOTE_INVALID);
    }
  }
}
