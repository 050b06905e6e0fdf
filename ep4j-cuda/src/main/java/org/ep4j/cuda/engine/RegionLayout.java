package org.ep4j.cuda.engine;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.ExpertPlacement;
import org.ep4j.engine.ReceiveCapacity;

/**
 * Where things lie in the region of each rank, which its peers write into; the same on all ranks.
 * Who writes which word and who waits for it is told in {@code kernels/protocol.cuh}.
 *
 * <p>Received rows of a FLAT dispatch, and those of an EXPERT_MAJOR dispatch after their expansion,
 * lie in the arrays {@link #received}. Before their expansion they arrive in {@link #landing}; the
 * same memory is the home region of a combine.
 */
final class RegionLayout {
  private static final long PAGE = 4096;

  /** Tokens of a rank whose rows come home in one group; see {@code homes.cuh}. */
  private static final int GROUP = 4;

  /** Rows of the receive arrays. */
  final int capacity;

  /** Bytes of the widest row. */
  final long maxRowBytes;

  /** Most bytes of scales a row. */
  final int maxScaleBytes;

  /** Rows that can land for an expansion. */
  final long landingRows;

  /** Words of groups a holder. */
  final long groupWords;

  final long ready;
  final long done;
  final long counts;
  final long groups;

  /** End of the words, which are cleared at open and reset. */
  final long words;

  final Arrays received;
  final Arrays landing;

  /** Weights on their way home, float [home rows, K]. */
  final long homeWeights;

  /** All of it. */
  final long bytes;

  /** Rows and what goes with them; offsets into the region. */
  static final class Arrays {
    final long rows;
    final long scales;
    final long factors;
    final long ids;
    final long weights;
    final long tokens;
    final long sources;
    final long end;

    private Arrays(long start, long rowBytes, long count, long otherRows, BufferConfig config) {
      rows = start;
      scales = page(rows + rowBytes);
      factors = page(scales + count * scaleBytes(config));
      ids = page(factors + count * Float.BYTES);
      weights = page(ids + otherRows * Long.BYTES * config.topK());
      tokens = page(weights + otherRows * Float.BYTES * config.topK());
      sources = page(tokens + count * Integer.BYTES);
      end = page(sources + count * Integer.BYTES);
    }
  }

  RegionLayout(BufferConfig config) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    int ranks = placement.ranks();
    long tokens = config.maxTokens();
    capacity = ReceiveCapacity.rows(config);
    maxRowBytes = config.rowDType().bytes(config.hidden());
    maxScaleBytes = scaleBytes(config);
    landingRows = Math.min(capacity, ranks * tokens);
    long homeRows = tokens * Math.min(config.topK(), ranks);
    groupWords = tokens / GROUP + 1;
    ready = PAGE;
    done = ready + (long) ranks * Long.BYTES;
    counts = done + (long) ranks * Long.BYTES;
    groups = counts + (long) ranks * (ranks + config.experts() + 1) * Long.BYTES;
    words = page(groups + ranks * groupWords * Long.BYTES);
    received = new Arrays(words, capacity * maxRowBytes, capacity, capacity, config);
    long landingBytes = Math.max(landingRows, homeRows) * maxRowBytes;
    landing = new Arrays(received.end, landingBytes, landingRows, landingRows, config);
    homeWeights = landing.end;
    bytes = page(homeWeights + homeRows * Float.BYTES * config.topK());
  }

  private static int scaleBytes(BufferConfig config) {
    return Math.max(16, config.hidden() / 4);
  }

  private static long page(long offset) {
    return (offset + PAGE - 1) / PAGE * PAGE;
  }
}
