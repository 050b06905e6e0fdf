package org.ep4j.conformance.round;

import static org.ep4j.conformance.round.VerifiedRound.HIDDEN;
import static org.ep4j.conformance.round.VerifiedRound.TOKENS;
import static org.ep4j.conformance.round.VerifiedRound.TOP_K;

import java.util.List;
import java.util.Objects;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/**
 * Dispatches of exact size whose rows do not fit into the region of rank 0, and what works after
 * them.
 */
public final class Overflow {
  /** Tokens of a rank that fit, wherever their choices lead. */
  private static final int FITTING = 8;

  /** Most ranks of which rank 0 has two experts. */
  public static final int MAX_RANKS = 4;

  private Overflow() {}

  /** Configuration of buffers, too small by a row for all tokens of all ranks. */
  public static BufferConfig.Builder shape(BufferConfig.Builder config, int ranks) {
    return VerifiedRound.shape(config, false)
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(TOKENS)
                .maxReceiveRows(room(ranks))
                .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                .build());
  }

  private static int room(int ranks) {
    return ranks * TOKENS - 1;
  }

  /** Refused dispatches of both layouts, awaited in every way, each before one that fits. */
  public static void run(ExpertBuffer buffer, long seed) {
    for (Layout layout : List.of(Layout.FLAT, Layout.EXPERT_MAJOR)) {
      long needed = (long) buffer.worldSize() * TOKENS * (layout == Layout.FLAT ? 1 : 2);
      require(buffer, needed, () -> dispatch(buffer, layout, Execution.SYNCHRONOUS));
      VerifiedRound.few(buffer, layout, seed, FITTING);
      Execution later = Execution.SYNCHRONOUS.async();
      Dispatch byEvent = dispatch(buffer, layout, later);
      require(buffer, needed, () -> byEvent.event().await());
      require(buffer, needed, byEvent::x);
      VerifiedRound.few(buffer, layout, seed + 1, FITTING);
      Dispatch byHandle = dispatch(buffer, layout, later);
      require(buffer, needed, byHandle::handle);
      require(buffer, needed, byHandle::rows);
      VerifiedRound.few(buffer, layout, seed + 2, FITTING);
    }
  }

  /** All tokens choose two experts of rank 0. */
  private static Dispatch dispatch(ExpertBuffer buffer, Layout layout, Execution execution) {
    long[] ids = new long[TOKENS * TOP_K];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = i % TOP_K < 2 ? i % TOP_K : -1;
    }
    Tensor x = Tensor.ofBf16(new short[TOKENS * HIDDEN], TOKENS, HIDDEN);
    DispatchOptions options = DispatchOptions.builder().execution(execution).build();
    Routing routing = Routing.of(Tensor.of(ids, TOKENS, TOP_K));
    return buffer.dispatch(layout, Tokens.of(x), routing, options);
  }

  private static void require(ExpertBuffer buffer, long needed, Runnable use) {
    ReceiveOverflowException refusal = null;
    try {
      use.run();
    } catch (ReceiveOverflowException e) {
      refusal = e;
    }
    String found = Objects.toString(refusal, "nothing");
    int room = room(buffer.worldSize());
    if (refusal == null
        || refusal.rank() != 0
        || refusal.needed() != needed
        || refusal.available() != room) {
      throw new AssertionError(
          "expected that rank 0 needs %d rows and has room for %d, was: %s"
              .formatted(needed, room, found));
    }
  }
}
