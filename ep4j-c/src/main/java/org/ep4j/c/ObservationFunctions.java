package org.ep4j.c;

import java.time.Duration;
import org.ep4j.c.struct.Constants;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Text;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.Verdict;
import org.ep4j.observe.WorldObservation;

/** Slow ranks and links: {@link RankObservation} and {@link Verdict}. */
final class ObservationFunctions {
  static final Struct OBSERVATION = Struct.named("ep4j_observation");
  private static final long OPERATIONS = OBSERVATION.int64("operations");
  private static final long NANOSECONDS = OBSERVATION.int64("nanoseconds");
  private static final long ROWS = OBSERVATION.int64("rows");
  private static final long TIMEOUTS = OBSERVATION.int64("timeouts");
  private static final long TIMEOUT_PEER = OBSERVATION.int32("timeout_peer");
  private static final long RESERVED = OBSERVATION.int32("reserved");

  static final Struct VERDICT = Struct.named("ep4j_verdict");
  private static final int TEXT_BYTES = 256;
  private static final long CAUSE = VERDICT.int32("cause");
  private static final long RANK = VERDICT.int32("rank");
  private static final long SENDER = VERDICT.int32("sender");
  private static final long PERCENT = VERDICT.int32("percent");
  private static final long SAVED_NANOSECONDS = VERDICT.int64("saved_nanoseconds");
  private static final long TEXT = VERDICT.bytes("text", TEXT_BYTES);

  private ObservationFunctions() {}

  static int bufferObserve(
      long buffer, long observation, long waited, int ranks, long tokens, int localExperts) {
    OBSERVATION.require("observation", observation);
    RankObservation seen = BufferObject.of(buffer).buffer().observe();
    requireCount("ranks", waited, ranks, seen.ranks());
    requireCount("local_experts", tokens, localExperts, seen.localExperts());
    var sums = new long[seen.ranks()];
    long nanos = 0;
    long rows = 0;
    for (RankObservation.Window window : seen.windows()) {
      nanos += window.nanos();
      rows += window.rows();
      for (int rank = 0; rank < sums.length; rank++) {
        sums[rank] += window.waitedFor(rank);
      }
    }
    long operations = (long) seen.windows().size() * ObservationLog.WINDOW;
    NativeMemory.putLong(observation + OPERATIONS, operations);
    NativeMemory.putLong(observation + NANOSECONDS, nanos);
    NativeMemory.putLong(observation + ROWS, rows);
    NativeMemory.putLong(observation + TIMEOUTS, seen.timeouts());
    NativeMemory.putInt(observation + TIMEOUT_PEER, seen.timeoutPeer());
    NativeMemory.putInt(observation + RESERVED, 0);
    for (int rank = 0; waited != 0 && rank < sums.length; rank++) {
      NativeMemory.putLong(waited + (long) rank * Long.BYTES, sums[rank]);
    }
    for (int local = 0; tokens != 0 && local < localExperts; local++) {
      NativeMemory.putLong(tokens + (long) local * Long.BYTES, seen.tokens(local));
    }
    return 0;
  }

  private static void requireCount(String name, long array, int given, int wanted) {
    if (array != 0 && given != wanted) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          name,
          Integer.toString(given),
          wanted + ", that of the buffer",
          "ask buffer_info for it");
    }
  }

  static int bufferVerdict(long buffer, long group, long timeout, long verdict) {
    VERDICT.require("verdict", verdict);
    Group ranks = GroupFunctions.group(group);
    RankObservation mine = BufferObject.of(buffer).buffer().observe();
    Verdict found = WorldObservation.gather(ranks, mine, Duration.ofMillis(timeout)).verdict();
    NativeMemory.putInt(verdict + CAUSE, Constants.number(found.cause()));
    NativeMemory.putInt(verdict + RANK, found.rank());
    NativeMemory.putInt(verdict + SENDER, found.sender());
    NativeMemory.putInt(verdict + PERCENT, (int) Math.round(100 * found.share()));
    NativeMemory.putLong(verdict + SAVED_NANOSECONDS, Math.round(found.waitedNanos()));
    Text.write(verdict + TEXT, TEXT_BYTES, found.toString());
    return 0;
  }
}
