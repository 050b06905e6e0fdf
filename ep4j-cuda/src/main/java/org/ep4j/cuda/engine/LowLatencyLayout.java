package org.ep4j.cuda.engine;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.ExpertPlacement;
import org.ep4j.InvalidArgumentException;
import org.ep4j.engine.Nodes;

/**
 * Where things lie in the low-latency part of each rank, which its peers write into; the same on
 * all ranks. Who writes which word and who waits for it is told in {@code kernels/low_latency.cuh}.
 */
final class LowLatencyLayout {
  private static final long PAGE = 4096;

  /** What a wire carries is a multiple of this. */
  private static final long UNIT = 16;

  /** Values that one warp moves at a time. */
  private static final int PIECE = 1024;

  /** Tokens are counted in 16 bits. */
  private static final int MAX_TOKENS = 0xffff;

  /** Groups of tokens whose rows are awaited together between nodes. */
  static final int GROUPS = 4;

  /** Blocks that tell of a group each for itself; more of them share. */
  static final int UNITS = 32;

  /** Bits of a grant below the number. */
  private static final int GRANT_AREA_BITS = 4;

  /** Bytes of a piece of BF16 as lines; see {@code kernels/ll_packets.cuh}. */
  private static final long PACKET_PIECE = 2 * PIECE + 128;

  /** 1 if the rank that has the part sends rows as lines, or would; the host's alone. */
  static final long LL_PACKETS = PAGE - Long.BYTES;

  /** Number of the last operation sent; see {@code Words}. */
  static final long SENT = 0;

  /** Number of the last operation received. */
  static final long RECEIVED = 8;

  /** By rank: what it has received last, see {@code Grant}. */
  final long received;

  /** Offsets in the first area. */
  final long headers;

  final long counts;
  final long entries;
  final long weights;

  /** Several nodes: words that say which rows travel as LogFMT, among those of the first source. */
  final long packed;

  /** Several nodes: from the words of a source to those of the next; headers come first. */
  final long sourceBytes;

  final long flags;

  /** One node: rows as lines, one a rank and token. */
  final long packets;

  /** Rows that are not lines. */
  final long rows;

  /** Several nodes: half of what is prepared for one rank of another node, words and rows. */
  final long halfBytes;

  /** The same for all other ranks, both halves. */
  final long stagingBytes;

  /** Pieces of a row. */
  final long pieces;

  /** Counters a source: of the local experts, and of the rank. */
  final long countStride;

  /** Flags of a piece of a token that comes home. */
  final long flagStride;

  /** Areas that operations use in turn: two, and two more where ranks can be masked. */
  final int areas;

  /** Distance from one area to the next. */
  final long areaBytes;

  /** Bytes of an area's words and lines, which begin at {@link #headers}. */
  final long wordBytes;

  /** All of it. */
  final long bytes;

  LowLatencyLayout(BufferConfig config, Nodes nodes) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long ranks = placement.ranks();
    long tokens = config.lowLatencyMaxTokens();
    if (tokens > MAX_TOKENS) {
      throw new InvalidArgumentException(
          "lowLatencyMaxTokens",
          String.valueOf(tokens),
          "at most " + MAX_TOKENS,
          "dispatch large batches with the high-throughput operations");
    }
    long topK = config.topK();
    pieces = Math.ceilDiv(config.hidden(), PIECE);
    received = PAGE;
    headers = page(received + ranks * Long.BYTES);
    countStride = placement.maxLocalExperts() + 1L;
    if (nodes.count() == 1) {
      counts = headers + ranks * Long.BYTES;
      entries = counts + ranks * countStride * Long.BYTES;
      weights = entries + ranks * tokens * topK * Long.BYTES;
      packed = 0;
      sourceBytes = 0;
      halfBytes = 0;
      flags = weights + ranks * tokens * topK * Long.BYTES;
    } else {
      counts = headers + UNIT + GROUPS * Long.BYTES;
      entries = unit(counts + countStride * Long.BYTES);
      weights = unit(entries + tokens * topK * Long.BYTES);
      packed = unit(weights + tokens * topK * Long.BYTES);
      // Behind them it is told which groups of tokens have come.
      long unitWords = packed + tokens * Math.ceilDiv(pieces, 2) * UNIT;
      sourceBytes = unitWords + (long) GROUPS * UNITS * Long.BYTES - headers;
      flags = headers + ranks * sourceBytes;
      long rowsOfToken = Math.min(topK, placement.maxLocalExperts());
      halfBytes = sourceBytes + tokens * rowsOfToken * 2 * config.hidden();
    }
    stagingBytes = (ranks - 1) * 2 * halfBytes;
    flagStride = Math.max(topK, ranks);
    packets = page(flags + tokens * pieces * flagStride * Long.BYTES);
    long choices = Math.min(topK, config.experts());
    boolean llPackets = nodes.count() == 1;
    rows = llPackets ? page(packets + ranks * tokens * pieces * PACKET_PIECE) : packets;
    wordBytes = rows - headers;
    long maxRows = llPackets ? choices : Math.max(ranks, choices);
    areaBytes = page(rows + tokens * maxRows * 2 * config.hidden()) - headers;
    areas = config.masking() ? 4 : 2;
    bytes = headers + areas * areaBytes;
  }

  /** Where rows lie that are not lines: without lines they take the place of those, too. */
  long rows(boolean llPackets) {
    return llPackets ? rows : packets;
  }

  /** What a rank says that has received an operation and goes on with the first two areas. */
  static long grant(long number) {
    return number << GRANT_AREA_BITS;
  }

  private static long unit(long offset) {
    return Math.ceilDiv(offset, UNIT) * UNIT;
  }

  private static long page(long offset) {
    return (offset + PAGE - 1) / PAGE * PAGE;
  }
}
