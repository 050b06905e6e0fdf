package org.ep4j.cuda.engine.context;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.internode.InternodeChunks;
import org.ep4j.cuda.internode.RailRoom;
import org.ep4j.cuda.struct.Control;
import org.ep4j.engine.Limits;
import org.ep4j.engine.ReceiveCapacity;
import org.ep4j.engine.world.Nodes;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;

/**
 * Offsets in the region of each rank, which peers write into; the same on all ranks. {@code
 * kernels/common/protocol.cuh} documents the writer and the waiter of each word.
 *
 * <p>Received rows are in the arrays {@link #received}. An EXPERT_MAJOR dispatch sends row metadata
 * with each row, see {@code kernels/dispatch/row_metadata.cuh}; the metadata uses the memory of a
 * combine's return buffer.
 */
public final class RegionLayout {
  private static final long PAGE = 4096;

  /** Columns per vector of 16 bytes, even if 2-byte rows are sent as float32. */
  private static final int COLUMNS = 8;

  private static final int MIN_RETURN_ROW = COLUMNS * Float.BYTES;

  /**
   * Fixed bytes of a slot between nodes: its header and the metadata of a token without its
   * choices.
   */
  private static final long SLOT_HEADER = 512;

  /** Bytes of a slot per choice: route, id, weight. */
  private static final long SLOT_CHOICE = 24;

  /** Tokens of a rank whose rows return in one group; see {@code return_layout.cuh}. */
  private static final int GROUP = 4;

  /** Rows of the receive arrays. */
  public final int capacity;

  /** Bytes of the widest row. */
  final long maxRowBytes;

  /** Largest number of bytes of scales per row. */
  public final int maxScaleBytes;

  /** Slots of an EXPERT_MAJOR dispatch: rows that can arrive before they are copied. */
  public final long receiveSlots;

  /** Words that a rank sends to every other rank: its counts. */
  public final long countWords;

  /** Largest number of bytes of a token in a slot between nodes, including the slot's header. */
  public final long slotToken;

  /**
   * Ranks whose rows return here; none where combines read them in place. Else this rank, and those
   * of other nodes whose rail it may be, also after a loss. Each has {@link #rowsOfSource} rows and
   * {@code ranks * groupWords} words of groups.
   */
  final long returnSources;

  /** Largest number of rows of a source that return from one node. */
  final long rowsOfSource;

  /** Words of groups per holder. */
  public final long groupWords;

  public final long ready;
  public final long done;

  /** Where the rows of a FLAT combine lie; see {@code kernels/combine/row_places.cuh}. */
  public final long places;

  public final long counts;
  public final long groups;
  public final long arrivals;

  /** End of the words, which are cleared at open and reset. */
  public final long words;

  public final Arrays received;

  /**
   * Copies of the caller's row weights that peers read: FLAT float [receive slots, K], EXPERT_MAJOR
   * float [rows].
   */
  public final long combineWeights;

  /** Returning rows; before a combine, row metadata. */
  public final long returnBuffer;

  /**
   * Bytes of a returning row: at least the widest row, and at least the minimum that a combine
   * moves.
   */
  final long returnRowBytes;

  /** Weights of returning rows, float [return rows, K]. */
  public final long returnWeights;

  /** Total size. */
  public final long bytes;

  /** Rows and their metadata; offsets into the region. */
  public static final class Arrays {
    public final long rows;
    public final long scales;
    public final long factors;
    public final long ids;
    public final long weights;
    public final long tokens;
    public final long sources;
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

  public RegionLayout(BufferConfig config, Nodes nodes) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    int ranks = placement.ranks();
    long tokens = Limits.tokens(config);
    capacity = ReceiveCapacity.rows(config);
    maxRowBytes = Limits.rowDType(config).bytes(config.hidden());
    maxScaleBytes = scaleBytes(config);
    receiveSlots = Math.min(capacity, ranks * tokens);
    long metadataBytes = RowMetadataSize.bytes(scaleBytes(config), config.topK(), false);
    countWords = (long) ranks + config.experts() + 3;
    returnRowBytes = Math.max(maxRowBytes, MIN_RETURN_ROW);
    boolean grouped = Limits.layouts(config).contains(Layout.EXPERT_MAJOR);
    int max = Math.min(config.topK(), largest(nodes));
    slotToken =
        SLOT_HEADER
            + Math.max(
                InternodeChunks.alignToLine(maxScaleBytes + SLOT_CHOICE * config.topK())
                    + InternodeChunks.alignToLine(maxRowBytes),
                max * InternodeChunks.returnRecordBytes(returnRowBytes, config.topK(), true));
    int senders = RailRoom.bounds(config, nodes).maxSenders();
    boolean returns = nodes.count() > 1 || !Limits.combinesInPlaceOnly(config);
    returnSources = returns ? 1L + senders : 0;
    // Within one node, rows that a rank holds for its own tokens do not return; see
    // kernels/combine/token_sums.cuh.
    rowsOfSource = tokens * (nodes.count() == 1 ? Math.min(config.topK(), ranks - 1) : max);
    long returnRows = returnSources * rowsOfSource;
    groupWords = tokens / GROUP + 1;
    ready =
        page(
            Control.WORDS.bytes()
                + KernelObservations.countedBytes(ranks, placement.maxLocalExperts()));
    done = ready + (long) ranks * Long.BYTES;
    places = done + (long) ranks * Long.BYTES;
    counts = places + 2L * ranks * Long.BYTES;
    groups = counts + ranks * countWords * Long.BYTES;
    arrivals = groups + returnSources * ranks * groupWords * Long.BYTES;
    words = page(arrivals + (grouped ? receiveSlots * Long.BYTES : 0));
    received = new Arrays(words, maxRowBytes, capacity, config);
    combineWeights = received.end;
    returnBuffer = page(combineWeights + combineWeightsBytes(config.topK()));
    returnWeights =
        page(
            returnBuffer
                + Math.max(
                    returnRows * returnRowBytes, grouped ? receiveSlots * metadataBytes : 0));
    bytes = page(returnWeights + returnRows * Float.BYTES * config.topK());
  }

  /** Number of ranks of the largest node. */
  public static int largest(Nodes nodes) {
    int max = 0;
    for (int node = 0; node < nodes.count(); node++) {
      max = Math.max(max, nodes.end(node) - nodes.first(node));
    }
    return max;
  }

  /** Columns of returning rows per pass; wider rows need several passes. */
  public long columnsOfAPass(DType traveling) {
    return returnRowBytes * Byte.SIZE / traveling.bits() / COLUMNS * COLUMNS;
  }

  /** Size of {@link #combineWeights}. */
  public long combineWeightsBytes(int topK) {
    return Math.max(receiveSlots * topK, capacity) * Float.BYTES;
  }

  private static int scaleBytes(BufferConfig config) {
    return Math.max(16, config.hidden() / 4);
  }

  private static long page(long offset) {
    return (offset + PAGE - 1) / PAGE * PAGE;
  }
}
