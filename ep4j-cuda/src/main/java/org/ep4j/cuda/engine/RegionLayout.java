package org.ep4j.cuda.engine;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ExpertPlacement;
import org.ep4j.engine.ReceiveCapacity;

/**
 * Where things lie in the region of each rank, which its peers write into; the same on all ranks.
 * Who writes which word and who waits for it is told in {@code kernels/protocol.cuh}.
 *
 * <p>Received rows lie in the arrays {@link #received}. An EXPERT_MAJOR dispatch sends a companion
 * with each row, see {@code kernels/companion.cuh}; they lie in the memory that is the home region
 * of a combine.
 */
final class RegionLayout {
  private static final long PAGE = 4096;

  /** Columns come in vectors of 16 bytes, also where 2-byte rows travel as float32. */
  private static final int COLUMNS = 8;

  private static final int LEAST_HOME_ROW = COLUMNS * Float.BYTES;

  /** Tokens of a rank whose rows come home in one group; see {@code homes.cuh}. */
  private static final int GROUP = 4;

  /** Rows of the receive arrays. */
  final int capacity;

  /** Bytes of the widest row. */
  final long maxRowBytes;

  /** Most bytes of scales a row. */
  final int maxScaleBytes;

  /** Slots of an EXPERT_MAJOR dispatch: rows that can arrive before they are copied. */
  final long landingRows;

  /** Words of groups a holder. */
  final long groupWords;

  final long ready;
  final long done;
  final long counts;
  final long groups;
  final long arrivals;

  /** End of the words, which are cleared at open and reset. */
  final long words;

  final Arrays received;

  /** Rows on their way home; before that, companions. */
  final long home;

  /** Bytes of such a row: of the widest row, and of what a combine moves at least. */
  final long homeRowBytes;

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

    private Arrays(long start, long rowBytes, long count, BufferConfig config) {
      rows = start;
      scales = page(rows + count * rowBytes);
      factors = page(scales + count * scaleBytes(config));
      ids = page(factors + count * Float.BYTES);
      weights = page(ids + count * Long.BYTES * config.topK());
      tokens = page(weights + count * Float.BYTES * config.topK());
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
    long companionBytes = Companions.bytes(scaleBytes(config), config.topK(), false);
    long homeRows = tokens * Math.min(config.topK(), ranks);
    groupWords = tokens / GROUP + 1;
    ready = PAGE;
    done = ready + (long) ranks * Long.BYTES;
    counts = done + (long) ranks * Long.BYTES;
    groups = counts + (long) ranks * (ranks + config.experts() + 2) * Long.BYTES;
    arrivals = groups + ranks * groupWords * Long.BYTES;
    words = page(arrivals + landingRows * Long.BYTES);
    received = new Arrays(words, maxRowBytes, capacity, config);
    home = received.end;
    homeRowBytes = Math.max(maxRowBytes, LEAST_HOME_ROW);
    homeWeights = page(home + Math.max(homeRows * homeRowBytes, landingRows * companionBytes));
    bytes = page(homeWeights + homeRows * Float.BYTES * config.topK());
  }

  /** Columns of rows that go home at a time; wider rows do so in several passes. */
  long columnsOfAPass(DType traveling) {
    return homeRowBytes * Byte.SIZE / traveling.bits() / COLUMNS * COLUMNS;
  }

  private static int scaleBytes(BufferConfig config) {
    return Math.max(16, config.hidden() / 4);
  }

  private static long page(long offset) {
    return (offset + PAGE - 1) / PAGE * PAGE;
  }
}
