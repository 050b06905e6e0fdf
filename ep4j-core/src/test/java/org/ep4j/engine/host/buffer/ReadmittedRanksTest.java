package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Steps.await;
import static org.ep4j.engine.host.buffer.Steps.on;
import static org.ep4j.engine.host.buffer.Steps.start;
import static org.ep4j.engine.host.buffer.Tensors.bf16;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.FutureTask;
import java.util.stream.IntStream;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Ranks that rejoin, step by step. They are separate processes to each other, with shared files and
 * connections, but threads of this JVM, so that the test controls each step. Each rank has one
 * expert and one token; the token goes to all experts.
 */
@Timeout(120)
class ReadmittedRanksTest {
  private static final int RANKS = 3;
  private static final int HIDDEN = 128;
  private static final Duration LONG = Duration.ofSeconds(20);
  private static final BufferConfig CONFIG =
      BufferConfig.builder()
          .engine("host")
          .hidden(HIDDEN)
          .topK(RANKS)
          .experts(RANKS)
          .highThroughput(4)
          .lowLatency(LowLatencyConfig.builder().maxTokens(2).masking(true).build())
          .timeout(LONG)
          .build();

  private final Group[] groups = new Group[RANKS];
  private final ExpertBuffer[] buffers = new ExpertBuffer[RANKS];
  private final List<AutoCloseable> old = new ArrayList<>();
  private final Rendezvous rendezvous =
      Rendezvous.open(
          GroupConfig.builder()
              .size(RANKS)
              .rendezvous("127.0.0.1", 0)
              .secret(UUID.randomUUID().toString())
              .joinTimeout(LONG)
              .livenessTimeout(Duration.ofSeconds(5))
              .build());

  @BeforeEach
  void open() throws Exception {
    on(
        rank -> {
          groups[rank] = Group.join(rendezvous.configOf(rank));
          buffers[rank] = ExpertBuffer.open(groups[rank], CONFIG);
        },
        0,
        1,
        2);
  }

  @AfterEach
  void close() throws Exception {
    for (ExpertBuffer buffer : buffers) {
      buffer.close();
    }
    for (AutoCloseable each : old) {
      each.close();
    }
    on(rank -> groups[rank].close(), 0, 1, 2);
    rendezvous.close();
  }

  /** Makes the rank dead for the others; its memory stays mapped, like that of a stopped rank. */
  private void lose(int rank) throws Exception {
    old.add(buffers[rank]);
    groups[rank].fail("over");
    for (int other = 0; other < RANKS; other++) {
      while (groups[other].isAlive(other) && groups[other].isAlive(rank)) {
        Thread.sleep(1);
      }
    }
  }

  /** A new process joins the group without the buffer. */
  private void startAgain(int rank) throws Exception {
    startAgain(rank, without(rank));
  }

  private void startAgain(int rank, int... others) throws Exception {
    List<FutureTask<Boolean>> all = new ArrayList<>();
    all.add(start(rank, r -> groups[r] = Group.rejoin(rendezvous.configOf(r))));
    for (int other : others) {
      all.add(start(other, r -> assertThat(groups[r].readmit(LONG)).containsExactly(rank)));
    }
    for (FutureTask<Boolean> each : all) {
      await(each);
    }
  }

  private void takeIn(int rank) throws Exception {
    takeIn(rank, without(rank));
  }

  private void takeIn(int rank, int... others) throws Exception {
    FutureTask<Boolean> newcomer =
        start(rank, r -> buffers[r] = ExpertBuffer.rejoin(groups[r], CONFIG));
    on(r -> buffers[r].readmit(), others);
    await(newcomer);
  }

  private static int[] without(int rank) {
    return IntStream.range(0, RANKS).filter(r -> r != rank).toArray();
  }

  private static LowLatencyDispatch send(ExpertBuffer buffer, int value) {
    short[] row = new short[HIDDEN];
    Arrays.fill(row, bf16(value));
    return buffer.lowLatencyDispatch(
        Tensor.ofBf16(row, 1, HIDDEN),
        Routing.of(new long[] {0, 1, 2}, new float[] {1, 1, 1}, RANKS),
        LowLatencyDispatchOptions.builder().format(RowFormat.BF16).returnHook(true).build());
  }

  /** The value of the row from each source; 0 where there is none. */
  private static int[] receive(LowLatencyDispatch dispatch) {
    dispatch.hook().receive();
    int[] values = new int[RANKS];
    for (int s = 0; s < RANKS; s++) {
      long range = dispatch.handle().layoutRange().getLong(s);
      if ((int) range == 1) {
        values[s] = (int) dispatch.x().getFloat((range >>> 32) * HIDDEN);
      }
    }
    return values;
  }

  private void assertAllWork() throws Exception {
    for (int round = 0; round < 3; round++) {
      int base = 10 * round + 1;
      on(
          rank ->
              assertThat(receive(send(buffers[rank], base + rank)))
                  .containsExactly(base, base + 1, base + 2),
          0,
          1,
          2);
    }
    on(
        rank -> {
          buffers[rank].barrier();
          short[] row = new short[HIDDEN];
          Arrays.fill(row, bf16(rank + 1));
          var dispatch =
              buffers[rank].dispatch(
                  Tensor.ofBf16(row, 1, HIDDEN),
                  Routing.of(new long[] {0, 1, 2}, new float[] {1, 1, 1}, RANKS));
          assertThat(dispatch.rows()).isEqualTo(RANKS);
          try (var handle = dispatch.handle()) {
            Tensor sum = buffers[rank].combine(dispatch.x(), handle).x();
            assertThat(sum.getFloat(0)).isEqualTo(3f * (rank + 1));
          }
        },
        0,
        1,
        2);
  }

  @Test
  void whatTheOldProcessSentAheadIsNotTakenForTheNewOnesFirstOperation() throws Exception {
    // Rank 2 has sent operation 1; the other ranks have begun none.
    LowLatencyDispatch ahead = send(buffers[2], 99);
    assertThat(ahead).isNotNull();
    lose(2);
    startAgain(2);
    takeIn(2);
    FutureTask<Boolean> others =
        start(0, rank -> assertThat(receive(send(buffers[rank], 1))).containsExactly(1, 2, 3));
    FutureTask<Boolean> another =
        start(1, rank -> assertThat(receive(send(buffers[rank], 2))).containsExactly(1, 2, 3));
    // The live ranks wait for the rejoining rank, although its memory holds old words.
    Thread.sleep(300);
    on(rank -> assertThat(receive(send(buffers[rank], 3))).containsExactly(1, 2, 3), 2);
    await(others);
    await(another);
    assertAllWork();
  }

  @Test
  void inBetweenTheRankIsStillExcluded() throws Exception {
    lose(1);
    on(rank -> assertThat(receive(send(buffers[rank], rank + 1))).containsExactly(1, 0, 3), 0, 2);
    startAgain(1);
    // The group counts the new process; the buffer does not know its memory.
    on(
        rank -> {
          buffers[rank].cleanMask();
          assertThat(buffers[rank].isMasked(1)).isTrue();
          assertThat(receive(send(buffers[rank], rank + 1))).containsExactly(1, 0, 3);
          assertThatThrownBy(() -> buffers[rank].reset())
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.READMIT_NEEDED.id());
        },
        0,
        2);
    takeIn(1);
    assertAllWork();
    on(rank -> buffers[rank].reset(), 0, 1, 2);
    assertAllWork();
  }

  @Test
  void aLostRendezvousIsReplacedAndBuffersDoNotNotice() throws Exception {
    lose(1);
    rendezvous.close();
    on(rank -> assertThat(receive(send(buffers[rank], rank + 1))).containsExactly(1, 0, 3), 0, 2);
    startAgain(1);
    takeIn(1);
    assertAllWork();
    // Rank 0 is now the rendezvous host, and the next rank finds it.
    lose(2);
    startAgain(2);
    takeIn(2);
    assertAllWork();
  }

  @Test
  void aRankThatCameBackWhileAnotherWasLostAdmitsThatOneToo() throws Exception {
    lose(1);
    lose(2);
    startAgain(2, 0);
    takeIn(2, 0);
    on(
        rank -> {
          assertThat(buffers[rank].isMasked(1)).isTrue();
          assertThat(receive(send(buffers[rank], rank + 1))).containsExactly(1, 0, 3);
          buffers[rank].barrier();
        },
        0,
        2);
    startAgain(1, 0, 2);
    takeIn(1, 0, 2);
    assertAllWork();
  }

  @Test
  void withoutAReplacementThereIsNothingToDo() throws Exception {
    assertThatThrownBy(() -> buffers[0].readmit())
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.NOTHING_TO_READMIT.id());
    assertAllWork();
  }

  @Test
  void anotherConfigurationIsRefusedOnAllRanksAndTheNextProcessRejoins() throws Exception {
    lose(0);
    startAgain(0);
    BufferConfig other = CONFIG.toBuilder().highThroughput(5).build();
    String difference =
        ErrorCode.CONFIGURATIONS_DIFFER.message(
            "a rank cannot rejoin the buffer: rank 0 differs in highThroughput.maxTokens: 5 there,"
                + " 4 on rank 1");
    FutureTask<Boolean> newcomer =
        start(
            0,
            rank ->
                assertThatThrownBy(() -> ExpertBuffer.rejoin(groups[rank], other))
                    .isInstanceOf(ConfigurationMismatchException.class)
                    .hasMessage(difference));
    on(
        rank ->
            assertThatThrownBy(() -> buffers[rank].readmit())
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessage(difference),
        1,
        2);
    await(newcomer);
    // The same process may also retry with the right configuration.
    takeIn(0);
    assertAllWork();
  }

  @Test
  void aRankLostAgainWhileRejoiningIsNamedAndTheOthersContinue() throws Exception {
    on(
        rank -> assertThat(receive(send(buffers[rank], rank + 1))).containsExactly(1, 2, 3),
        0,
        1,
        2);
    lose(2);
    startAgain(2);
    // Joins the group of the live ranks, and sends nothing there.
    FutureTask<Boolean> newcomer =
        start(
            2,
            rank -> {
              try (Group live = groups[rank].survivors(LONG)) {
                assertThat(live.size()).isEqualTo(RANKS);
              }
              groups[rank].fail("over again");
            });
    on(
        rank ->
            assertThatThrownBy(() -> buffers[rank].readmit())
                .isInstanceOf(PeerLostException.class)
                .hasMessageContaining("rank 2 is gone"),
        0,
        1);
    await(newcomer);
    on(rank -> assertThat(receive(send(buffers[rank], rank + 1))).containsExactly(1, 2, 0), 0, 1);
    // Lost before it joins the group of the live ranks.
    startAgain(2);
    groups[2].fail("and again");
    on(
        rank ->
            assertThatThrownBy(() -> buffers[rank].readmit())
                .isInstanceOf(GroupException.class)
                .hasMessageStartingWith(ErrorCode.REJOINING_RANK_LOST.id()),
        0,
        1);
    on(rank -> assertThat(receive(send(buffers[rank], rank + 1))).containsExactly(1, 2, 0), 0, 1);
    startAgain(2);
    takeIn(2);
    assertAllWork();
  }

  @Test
  void aRankWithoutTheEngineTellsTheOthersAndMayTryAgain() throws Exception {
    BufferConfig missing = CONFIG.toBuilder().engine("cuda").build();
    lose(2);
    startAgain(2);
    FutureTask<Boolean> newcomer =
        start(
            2,
            rank ->
                assertThatThrownBy(() -> ExpertBuffer.rejoin(groups[rank], missing))
                    .isInstanceOf(EngineUnavailableException.class)
                    .hasNoSuppressedExceptions());
    on(
        rank ->
            assertThatThrownBy(() -> buffers[rank].readmit())
                .isInstanceOf(Ep4jException.class)
                .hasMessageStartingWith(ErrorCode.PEER_FAILED.id())
                .hasMessageContaining("rank 2 cannot rejoin")
                .hasMessageContaining("engine 'cuda' is not on the module path"),
        0,
        1);
    await(newcomer);
    takeIn(2);
    assertAllWork();
  }

  @Test
  void threadsCannotRejoin() {
    try (Group group = Group.inProcess(1).getFirst()) {
      assertThatThrownBy(() -> ExpertBuffer.rejoin(group, CONFIG))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageStartingWith(ErrorCode.REJOIN_OF_THREADS.id());
    }
  }
}
