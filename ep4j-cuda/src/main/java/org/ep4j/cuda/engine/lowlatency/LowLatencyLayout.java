package org.ep4j.cuda.engine.lowlatency;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;

/**
 * Offsets in the low-latency part of each rank, which peers write into; the same on all ranks.
 * {@code kernels/lowlatency/low_latency.cuh} documents the writer and the waiter of each word.
 */
public final class LowLatencyLayout {
  private static final long PAGE = 4096;

  /** Transfers of a wire are multiples of this. */
  private static final long UNIT = 16;

  /** Values that one warp moves at a time. */
  private static final int PIECE = 1024;

  /** Tokens are counted in 16 bits. */
  private static final int MAX_TOKENS = 0xffff;

  /** Groups of tokens whose rows are awaited together between nodes. */
  static final int GROUPS = 4;

  /** Blocks that publish one group each; more blocks share groups. */
  static final int UNITS = 32;

  /** Commands of an operation for one rank besides those of rows: words, their marks, a grant. */
  private static final int WORD_COMMANDS = 5;

  /** Bits of a grant below the number. */
  private static final int GRANT_AREA_BITS = 4;

  /** Bytes of a piece of BF16 as packed flags; see {@code kernels/lowlatency/ll_packets.cuh}. */
  private static final long PACKET_PIECE = 2 * PIECE + 128;

  /** 1 if the rank of this part can send rows as packed flags; only the host uses this word. */
  static final long LL_PACKETS = PAGE - Long.BYTES;

  /** Number of the last operation sent; see {@code Words}. */
  static final long SENT = 0;

  /** Number of the last operation received. */
  static final long RECEIVED = 8;

  /** By rank: the last operation that it has received, see {@code Grant}. */
  final long received;

  /** Offsets in the first area. */
  final long headers;

  final long counts;
  final long entries;
  final long weights;

  /** Several nodes: words that mark rows sent as LogFMT, among those of the first source. */
  final long packed;

  /**
   * Several nodes: words of groups of tokens, behind those of rows of any length: no word of one
   * kind is ever taken for one of the other.
   */
  final long units;

  /** Several nodes: distance between the words of two sources; headers are first. */
  final long sourceBytes;

  final long flags;

  /** One node: rows as packed flags, one per rank and token. */
  final long packets;

  /** Rows without packed flags. */
  final long rows;

  /** Several nodes: half of what is prepared for one rank of another node, words and rows. */
  final long halfBytes;

  /** The same for all other ranks, both halves. */
  public final long stagingBytes;

  /** Several nodes: largest number of bytes of a put: the words up to the entries, or a row. */
  public final long putBytes;

  /** Pieces of a row of the largest length. */
  final long pieces;

  /** Counters per source: of the local experts, and of the rank. */
  final long countStride;

  /** Flags of a piece of a token that returns. */
  final long flagStride;

  /** Areas that operations use in rotation: two, and two more if ranks can be masked. */
  final int areas;

  /** Distance from one area to the next. */
  final long areaBytes;

  /** Several nodes: the same in internode parts, which have two areas. */
  final long internodeAreaBytes;

  /**
   * Several nodes, if ranks can be masked: distance between the rows of two writers in an area of
   * an internode part. A masked rank of another node cannot be fenced, so no other rank uses the
   * rows that it may still write.
   */
  final long shareBytes;

  /**
   * Several nodes, if ranks can be masked: commands for one rank until it is masked. A rank that
   * grants nothing gets two operations; each row is a command, and so are the marks of a token and
   * the words of an operation.
   */
  public final int pendingCommands;

  /** Several nodes: total size of an internode part. */
  public final long internodeBytes;

  /** Bytes of an area's words and packed flags, which begin at {@link #headers}. */
  final long wordBytes;

  /** Total size. */
  public final long bytes;

  public LowLatencyLayout(BufferConfig config, Nodes nodes) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long ranks = placement.ranks();
    long tokens = Limits.lowLatencyTokens(config);
    if (tokens > MAX_TOKENS) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_LOW_LATENCY_TOKENS,
          "lowLatency.maxTokens",
          String.valueOf(tokens),
          "at most " + MAX_TOKENS,
          "dispatch large batches with the high-throughput operations");
    }
    long topK = config.topK();
    long rowsOfToken = Math.min(topK, placement.maxLocalExperts());
    pieces = Math.ceilDiv(config.hidden(), PIECE);
    received = PAGE;
    headers = page(received + ranks * Long.BYTES);
    countStride = placement.maxLocalExperts() + 1L;
    if (nodes.count() == 1) {
      counts = headers + ranks * Long.BYTES;
      entries = counts + ranks * countStride * Long.BYTES;
      weights = entries + ranks * tokens * topK * Long.BYTES;
      packed = 0;
      units = 0;
      sourceBytes = 0;
      putBytes = 0;
      halfBytes = 0;
      flags = weights + ranks * tokens * topK * Long.BYTES;
    } else {
      counts = headers + UNIT + GROUPS * Long.BYTES;
      entries = unit(counts + countStride * Long.BYTES);
      weights = unit(entries + tokens * topK * Long.BYTES);
      packed = unit(weights + tokens * topK * Long.BYTES);
      units = packed + tokens * Math.ceilDiv(pieces, 2) * UNIT;
      sourceBytes = units + (long) GROUPS * UNITS * Long.BYTES - headers;
      putBytes = Math.max(weights - headers, 2L * config.hidden());
      flags = headers + ranks * sourceBytes;
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
    boolean masking = Limits.masking(config);
    areas = masking ? 4 : 2;
    bytes = headers + areas * areaBytes;
    boolean shares = masking && nodes.count() > 1;
    shareBytes = shares ? tokens * topK * 2 * config.hidden() : 0;
    internodeAreaBytes = shares ? page(rows + ranks * shareBytes) - headers : areaBytes;
    pendingCommands =
        shares ? Math.toIntExact(2 * (tokens * (rowsOfToken + 1) + WORD_COMMANDS)) : 0;
    internodeBytes = nodes.count() == 1 ? 0 : headers + 2 * internodeAreaBytes;
  }

  /** Offset of rows without packed flags: if packed flags are off, rows use that space too. */
  long rows(boolean llPackets) {
    return llPackets ? rows : packets;
  }

  /** The grant of a rank that has received an operation and continues with the first two areas. */
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
