package org.ep4j.cuda.engine.failure;

import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.engine.launch.LowLatencyKind;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.engine.world.Members;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;

/** Converts reports of kernels in {@link HostWords} to exceptions. */
final class KernelReport {
  private final HostWords words;
  private final Members members;
  private final BufferConfig config;

  KernelReport(HostWords words, Members members, BufferConfig config) {
    this.words = words;
    this.members = members;
    this.config = config;
  }

  /** A rejected choice of experts. */
  InvalidArgumentException badChoice(long state) {
    int token = words.token();
    int choice = words.choice();
    long id = words.seen();
    if (state == HostWords.STATE_NOT_AS_DISPATCHED) {
      return Arguments.notAsDispatched(token, choice, id, words.expected());
    }
    return state == HostWords.STATE_DUPLICATE
        ? Arguments.duplicateExpert(token, choice, id)
        : Arguments.noSuchExpert(token, choice, id, (int) words.expected());
  }

  ConfigurationMismatchException otherKind() {
    return new ConfigurationMismatchException(
        ErrorCode.LOW_LATENCY_KIND_MISMATCH,
        "rank "
            + words.peer()
            + " dispatches "
            + LowLatencyKind.text(words.seen())
            + " in low-latency operation "
            + words.epoch()
            + " where this rank dispatches "
            + LowLatencyKind.text(words.expected())
            + ": call the same operations in the same order on all ranks, after reset() on all of"
            + " them");
  }

  /**
   * The error for a call of a fenced rank.
   *
   * @param by the rank that fenced this rank; {@link StaleRankFence#NO_RANK} if none yet
   */
  PeerTimeoutException outside(String call, int by) {
    boolean fenced = by != StaleRankFence.NO_RANK;
    int peer = fenced ? by : members.rank();
    String state = fenced ? members.goneOnWithoutThis() : members.silenceOf(peer);
    return new PeerTimeoutException(call, "entry", 0, peer, 1, 0, 0, state, false);
  }

  /** The error for a wait that was aborted because {@code peer} has fenced this rank. */
  PeerTimeoutException fenced(String operation, int peer) {
    return new PeerTimeoutException(
        operation,
        words.phase().text,
        words.epoch(),
        peer,
        words.expected(),
        words.seen(),
        waitedMillis(),
        members.goneOnWithoutThis(),
        false);
  }

  /**
   * The error for a failed wait for {@code peer}.
   *
   * @param departed whether it is no longer alive
   */
  PeerTimeoutException timeout(String operation, int peer, boolean departed) {
    return departed
        ? timeout(operation, peer, members.departureOf(peer), !members.hasLeft(peer))
        : timeout(operation, peer, members.silenceOf(peer), false);
  }

  /**
   * The error for a failed wait for {@code peer}.
   *
   * @param state of the peer, as {@link PeerTimeoutException#peerState}
   */
  PeerTimeoutException timeout(String operation, int peer, String state, boolean dead) {
    return new PeerTimeoutException(
        operation,
        words.phase().text,
        words.epoch(),
        peer,
        words.expected(),
        words.seen(),
        waitedMillis(),
        state,
        dead);
  }

  /** Whether what another rank told is why the wait has failed. */
  boolean isExplainedBy(AbortReport told) {
    // Blocks of one rank wait for each other too: then the peer of the reported wait is this rank.
    return words.peer() == members.rank()
        || told.explains(words.peer(), waited(), config.timeout().toNanos());
  }

  private long waited() {
    return config.timeout().toNanos() - words.left();
  }

  private long waitedMillis() {
    return waited() / 1_000_000;
  }
}
