package org.ep4j.engine.host.internode;

import static java.util.Objects.requireNonNull;

import java.time.Duration;
import org.ep4j.engine.host.layout.InternodeLowLatencyLayout;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;

/**
 * The low-latency part of a connection to ranks of other nodes; {@link InternodeLowLatencyLayout}
 * is the protocol. Used by one thread at a time.
 */
public final class InternodeLowLatency {
  private final ScaleOut connection;
  private final InternodeLanes lanes;
  private final InternodeLowLatencyLayout layout;
  private final LowLatencyLayout words;
  private final int rank;
  private final int ranks;
  private final RowLanes rowLanes;
  private final Region areas;
  private final Region answers;
  private final Region shadow;
  private final Region waiting;

  /** Values that the peers have been notified of. */
  private long started;

  private long received;
  private final long[][] numbers;

  /**
   * Collective.
   *
   * @param local registered memory for data in transfer
   */
  InternodeLowLatency(
      ScaleOut connection,
      Wire wire,
      InternodeLowLatencyLayout layout,
      LowLatencyLayout words,
      int rank,
      int ranks,
      ScaleOut.Local local,
      Duration timeout) {
    this.connection = connection;
    this.lanes = connection.lanes();
    this.layout = layout;
    this.words = words;
    this.rank = rank;
    this.ranks = ranks;
    rowLanes = new RowLanes(lanes, ranks);
    areas = wire.allocate(layout.areaBytes, timeout);
    answers = wire.allocate(2 * layout.answerBytes, timeout);
    shadow = requireNonNull(local.shadow(), "registered with this layout");
    waiting = requireNonNull(local.waiting(), "registered with this layout");
    numbers = new long[2][ranks];
  }

  /** Address of packets, lists and rows from other nodes, laid out like a low-latency part. */
  public long areas() {
    return areas.memory().address();
  }

  /**
   * Address at which this rank writes those for {@code peer}, at the offsets of data from {@code
   * peer}.
   */
  public long shadow() {
    return shadow.memory().address();
  }

  /** Bytes of memory that peers put into. */
  long bytes() {
    return areas.bytes() + answers.bytes();
  }

  /** Bytes of memory from which this rank puts. */
  long privateBytes() {
    return shadow.bytes() + waiting.bytes();
  }

  /** Offset of the answers of an operation, after {@code before} rows. */
  public long answers(long number, int before) {
    return answers.memory().address() + layout.answers(number, before);
  }

  /** Address of the word STARTED of {@code peer}. */
  public long started(int peer) {
    return connection.counter(layout.started(peer));
  }

  /** Address of the word RECEIVED of {@code peer}. */
  public long received(int peer) {
    return connection.counter(layout.received(peer));
  }

  /** Address of the word that counts how often {@code peer} has masked or admitted this rank. */
  public long mask(int peer) {
    return connection.counter(layout.mask(peer));
  }

  /**
   * Address of the number of the last operation with the parity of {@code number} from {@code
   * peer}.
   */
  public long number(int peer, long number) {
    return connection.counter(layout.number(peer, number));
  }

  /**
   * Notifies all peers that operation {@code number} has begun on this rank.
   *
   * @param masked ranks that need not take it
   */
  public void start(long number, boolean[] masked) {
    lanes.offerAll(layout.started(rank), number - started, masked);
    started = number;
  }

  /** Notifies all peers that this rank has received all operations up to {@code number}. */
  public void receive(long number, boolean[] masked) {
    lanes.offerAll(layout.received(rank), number - received, masked);
    received = number;
  }

  /** Notifies {@code peer} that this rank has masked or admitted it. */
  public void countMask(int peer, boolean masked) {
    if (masked) {
      lanes.offer(peer, layout.mask(rank), 1);
    } else {
      lanes.add(peer, ScaleOut.CONTROL, layout.mask(rank), 1);
    }
  }

  /** Sends the header of an operation from the shadow, after its list and rows. */
  public void send(int peer, long number, long listBytes, long rowBytes) {
    put(peer, number, shadow, words.list(number, peer), words.list(number, rank), listBytes);
    put(peer, number, shadow, words.row(number, peer), words.row(number, rank), rowBytes);
    put(
        peer,
        number,
        shadow,
        words.header(number, peer),
        words.header(number, rank),
        LowLatencyLayout.HEADER_BYTES);
    long[] infos = numbers[(int) (number & 1)];
    lanes.add(peer, rowLanes.of(peer, number), layout.number(rank, number), number - infos[peer]);
    infos[peer] = number;
    rowLanes.sent(peer, number);
  }

  /** Address at which to write the combine rows for {@code peer}. */
  public long answersTo(int peer, long number) {
    return waiting.memory().address() + layout.waiting(peer, ranks, number);
  }

  /**
   * Puts the first {@code bytes} bytes of those rows.
   *
   * @param before answers of {@code peer} that lie before those of this rank
   */
  public void answer(int peer, long number, int before, long bytes) {
    if (bytes != 0) {
      long place = layout.waiting(peer, ranks, number);
      long there = layout.answers(number, before);
      lanes.put(peer, rowLanes.of(peer, number), waiting, place, answers, there, bytes);
    }
  }

  private void put(int peer, long number, Region from, long place, long there, long bytes) {
    if (bytes != 0) {
      lanes.put(peer, rowLanes.of(peer, number), from, place, areas, there, bytes);
    }
  }
}
