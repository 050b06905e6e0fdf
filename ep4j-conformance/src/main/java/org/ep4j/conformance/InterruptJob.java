package org.ep4j.conformance;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.round.VerifiedRound;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;

/**
 * In each round the thread of one rank is interrupted at a random moment, while another rank may be
 * late. If an operation fails, it does so at once and on all ranks for that reason; all ranks
 * reset, and a verified round in the same buffer follows. Arguments: engine, and a seed; then
 * {@link NodeArguments}.
 */
final class InterruptJob implements RankJob {
  /** Of {@link VerifiedRound#OPERATIONS} operations each. */
  private static final int ROUNDS = TestScale.part(50);

  /** Longer than all rounds may take: an operation that waits for it fails the test. */
  private static final Duration DEADLINE = Duration.ofMinutes(10);

  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  /** From the interrupt to the end, on a machine with other work. */
  private static final Duration LONGEST_END = Duration.ofSeconds(5);

  /** About two rounds. */
  private static final int LATEST_NANOS = 40_000_000;

  @Override
  public void run(Group group, List<String> arguments) {
    Random random = new Random(Long.parseLong(arguments.get(1)));
    BufferConfig config =
        VerifiedRound.shape(NodeArguments.of(arguments).apply(BufferConfig.builder()), true)
            .engine(arguments.getFirst())
            .timeout(DEADLINE)
            .build();
    int failures = 0;
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      VerifiedRound.operate(buffer, 0, -1);
      for (int round = 1; round <= ROUNDS; round++) {
        int victim = random.nextInt(group.size());
        int interruptNanos = random.nextInt(LATEST_NANOS);
        int lateNanos = random.nextInt(LATEST_NANOS);
        group.barrier(TIMEOUT);
        boolean failed;
        if (group.rank() == victim) {
          failed = isInterrupted(buffer, round, interruptNanos);
        } else {
          if (group.rank() == (victim + 1) % group.size()) {
            LockSupport.parkNanos(lateNanos);
          }
          failed = isNotified(buffer, round, victim);
        }
        if (anyFailed(group, failed)) {
          failures++;
          buffer.reset();
          VerifiedRound.operate(buffer, round + ROUNDS, -1);
        }
      }
    }
    if (failures == 0) {
      throw new AssertionError("no interrupt has ended an operation");
    }
  }

  /** Whether an operation has failed on any rank. */
  private static boolean anyFailed(Group group, boolean failed) {
    boolean any = false;
    for (byte[] part : group.allGather(new byte[] {(byte) (failed ? 1 : 0)}, TIMEOUT)) {
      any |= part[0] != 0;
    }
    return any;
  }

  private static boolean isInterrupted(ExpertBuffer buffer, int round, long nanos) {
    Interrupter interrupter = new Interrupter(Thread.currentThread(), nanos);
    try {
      VerifiedRound.operate(buffer, round, -1);
      return false;
    } catch (Ep4jException e) {
      if (e.errorCode() != ErrorCode.OPERATION_INTERRUPTED
          || !Thread.currentThread().isInterrupted()) {
        throw new AssertionError("not ended by its interrupt", e);
      }
      return true;
    } finally {
      interrupter.end();
    }
  }

  private static boolean isNotified(ExpertBuffer buffer, int round, int victim) {
    try {
      VerifiedRound.operate(buffer, round, -1);
      return false;
    } catch (PeerTimeoutException e) {
      if (e.peer() != victim || !String.valueOf(e.getMessage()).contains("interrupted")) {
        throw new AssertionError("ended for another reason than the interrupt", e);
      }
      return true;
    }
  }

  /** Interrupts a thread once, unless it has called {@link #end} before. */
  private static final class Interrupter {
    private long interruptedAt;
    private boolean ended;

    Interrupter(Thread thread, long nanos) {
      Thread.ofPlatform()
          .daemon()
          .start(
              () -> {
                LockSupport.parkNanos(nanos);
                interrupt(thread);
              });
    }

    private synchronized void interrupt(Thread thread) {
      if (!ended) {
        interruptedAt = System.nanoTime();
        thread.interrupt();
      }
    }

    /** Called by the thread, which is no longer interrupted afterwards. */
    synchronized void end() {
      ended = true;
      if (Thread.interrupted() && System.nanoTime() - interruptedAt > LONGEST_END.toNanos()) {
        throw new AssertionError("the interrupt has not ended the round at once");
      }
    }
  }
}
