package org.ep4j.wire.support;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * Notices between the ranks of one wire about lanes that have failed, over the group: the path of
 * the wire may be cut, and then only the rank that sends notices it. Any thread.
 *
 * <p>A notice is the index of the lane, and the text of its failure in UTF-8, shortened to what a
 * notice holds.
 */
public final class LaneNotices implements Group.NoticeListener, AutoCloseable {
  private final Group group;
  private final long topic;

  /** Texts by peer and lane; written before {@link #count} grows. */
  private final Map<Long, String> texts = new ConcurrentHashMap<>();

  private volatile int count;

  /**
   * Listens from now on.
   *
   * @param topic number of the wire, the same on all its ranks and different from that of any other
   *     wire of the group
   */
  public LaneNotices(Group group, long topic) {
    this.group = group;
    this.topic = topic;
    group.listen(topic, this);
  }

  /** Notifies a peer that a lane to it has failed here; not if the peer has reported the same. */
  void send(int peer, int lane, String text) {
    if (texts.containsKey(key(peer, lane))) {
      return;
    }
    ByteBuffer notice = ByteBuffer.allocate(Group.MAX_NOTICE).putInt(lane);
    // Ends at the last whole character that fits.
    CoderResult _ = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text), notice, true);
    group.notice(peer, topic, Arrays.copyOf(notice.array(), notice.position()));
  }

  @Override
  public synchronized void noticed(int from, byte[] notice) {
    if (notice.length >= Integer.BYTES) {
      int lane = ByteBuffer.wrap(notice).getInt();
      byte[] reason = Arrays.copyOfRange(notice, Integer.BYTES, notice.length);
      texts.put(key(from, lane), new String(reason, StandardCharsets.UTF_8));
      count++;
    }
  }

  /** Number of notices so far: a poll looks at the lanes only when it has grown. */
  int count() {
    return count;
  }

  /** Why a peer has failed its end of a lane; null if it has not reported any failure. */
  @Nullable String text(int peer, int lane) {
    return texts.get(key(peer, lane));
  }

  private static long key(int peer, int lane) {
    return (long) peer << Integer.SIZE | Integer.toUnsignedLong(lane);
  }

  @Override
  public void close() {
    group.listen(topic, null);
  }
}
