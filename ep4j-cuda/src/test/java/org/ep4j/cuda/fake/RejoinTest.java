package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.Ep4jException;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A rank that returns. Ranks are separate processes to each other, with connections and handles of
 * memory, but threads of this JVM.
 */
@OnFakeDriver
@Timeout(120)
class RejoinTest {
  private static final int RANKS = 3;
  private static final int LOST = RANKS - 1;
  private static final int OUT_OF_MEMORY = 2;
  private static final DispatchOptions ASYNCHRONOUS =
      DispatchOptions.builder()
          .sizing(Sizing.atMost(RANKS * OneRank.TOKENS))
          .execution(Execution.ASYNCHRONOUS)
          .build();
  private static final Duration JOIN = Duration.ofSeconds(30);

  /** Longer than a test may take. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private BufferConfig config =
      Batch.config(OneRank.TOKENS).lowLatency(OneRank.TOKENS).timeout(LONG).build();

  private final Group[] groups = new Group[RANKS];
  private final ExpertBuffer[] buffers = new ExpertBuffer[RANKS];
  private final List<AutoCloseable> old = new ArrayList<>();
  private final Rendezvous rendezvous =
      Rendezvous.open(
          GroupConfig.builder()
              .size(RANKS)
              .rendezvous("127.0.0.1", 0)
              .secret(UUID.randomUUID().toString())
              .joinTimeout(JOIN)
              .livenessTimeout(Duration.ofSeconds(5))
              .build());

  private interface Step {
    void run(int rank) throws Exception;
  }

  /** On all ranks at once. */
  private static void onAll(Step step) throws Exception {
    List<FutureTask<Boolean>> tasks = new ArrayList<>();
    for (int r = 0; r < RANKS; r++) {
      int rank = r;
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

  private void loseARank() throws Exception {
    onAll(
        rank -> {
          groups[rank] = Group.join(rendezvous.configOf(rank));
          buffers[rank] = ExpertBuffer.open(groups[rank], config);
        });
    old.add(buffers[LOST]);
    old.add(groups[LOST]);
    groups[LOST].fail("over");
    while (groups[0].isAlive(LOST) || groups[1].isAlive(LOST)) {
      Thread.sleep(1);
    }
    onAll(
        rank -> {
          if (rank == LOST) {
            groups[rank] = Group.rejoin(rendezvous.configOf(rank));
          } else {
            assertThat(groups[rank].readmit(JOIN)).containsExactly(LOST);
          }
        });
  }

  @AfterEach
  void close() throws Exception {
    onAll(rank -> buffers[rank].close());
    for (AutoCloseable each : old) {
      each.close();
    }
    onAll(rank -> groups[rank].close());
    rendezvous.close();
  }

  private void takeIn(int rank) {
    if (rank == LOST) {
      buffers[rank] = ExpertBuffer.rejoin(groups[rank], config);
    } else {
      buffers[rank].readmit();
    }
  }

  /** What each rank reports when one of them cannot take part. */
  private String[] refusals() throws Exception {
    String[] refusals = new String[RANKS];
    onAll(
        rank -> {
          try {
            takeIn(rank);
            refusals[rank] = "no failure";
          } catch (Ep4jException e) {
            refusals[rank] = String.valueOf(e.getMessage());
          }
        });
    return refusals;
  }

  /** Kernels that wait for the new process must not find it gone. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aRankReturns(boolean lowLatency) throws Exception {
    config = lowLatency ? config : Batch.config(OneRank.TOKENS).timeout(LONG).build();
    loseARank();
    onAll(this::takeIn);
    try (CudaDevice device = CudaDevice.open(0);
        Batch batch = new Batch(device, OneRank.TOKENS)) {
      batch.fill(0, 1);
      buffers[0].dispatch(Tokens.of(batch.x), batch.routing, ASYNCHRONOUS);
      long gone = FakeKernels.launches().getLast().get("host_abort") + Long.BYTES;
      assertThat(NativeMemory.getLongAcquire(gone + (long) LOST * Long.BYTES)).isZero();
    }
  }

  /** Whatever fails, no rank waits for the timeout, and the buffers can take the rank in later. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "cuMemAlloc_v2",
        "cuMemHostAlloc",
        "cuModuleLoadDataEx",
        "cuDevicePrimaryCtxRetain",
        "cuIpcOpenMemHandle_v2"
      })
  void aRankThatCannotReturnTellsAllOthers(String failing) throws Exception {
    loseARank();
    for (int nth = 1; nth <= 3; nth++) {
      FakeDriver.failCall(failing, nth, OUT_OF_MEMORY);
      for (String refusal : refusals()) {
        assertThat(refusal).as("call %d", nth).contains(failing + " failed");
      }
    }
    onAll(this::takeIn);
  }
}
