package org.ep4j.group;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.ep4j.group.Frames.Join;
import org.jspecify.annotations.Nullable;

/**
 * Restarted processes that wait at a rendezvous for the place of a rank that has departed, at most
 * one a seat. Touched by the reactor's thread only.
 */
final class Claims {
  /** Told when a process begins to wait, and when it goes away without having been admitted. */
  interface Listener {
    /** Whether a process waits for the seat. */
    void claimed(int seat, boolean waits);
  }

  /** A process that waits. */
  final class Claim implements Link.Listener {
    final Link link;
    final Join join;

    private Claim(Link link, Join join) {
      this.link = link;
      this.join = join;
    }

    @Override
    public void frame(Link link, byte type, ByteBuffer body) {
      if (type != Frames.PING) {
        link.lose("it sent a frame of type " + type + " while it waits to be admitted");
      }
    }

    @Override
    public void closed(Link link, String why) {
      drop(this);
    }

    @Override
    public void silent(Link link, Duration silence) {
      link.closeAfter(Frames.text(Frames.VERDICT, "it was silent for " + Deadline.text(silence)));
      drop(this);
    }
  }

  private final Listener listener;
  private final Duration liveness;
  private final TreeMap<Integer, Claim> claims = new TreeMap<>();

  /**
   * @param liveness how long a process that waits may be silent
   */
  Claims(Duration liveness, Listener listener) {
    this.liveness = liveness;
    this.listener = listener;
  }

  /** The process that waits for a seat. */
  @Nullable Claim of(int seat) {
    return claims.get(seat);
  }

  int count() {
    return claims.size();
  }

  /** Lets a process wait; nobody else waits for its seat. */
  void add(Link link, Join join) {
    Claim claim = new Claim(link, join);
    claims.put(join.id(), claim);
    link.listener(claim);
    link.trust();
    link.watch(liveness);
    listener.claimed(join.id(), true);
  }

  private void drop(Claim claim) {
    if (claims.remove(claim.join.id(), claim)) {
      listener.claimed(claim.join.id(), false);
    }
  }

  /** All that wait, in the order of their seats; they wait no more. */
  List<Claim> take() {
    List<Claim> all = new ArrayList<>(claims.values());
    claims.clear();
    return all;
  }

  /** Sends a frame to all. */
  void tell(ByteBuffer frame) {
    for (Claim claim : claims.values()) {
      claim.link.send(frame.duplicate());
    }
  }

  /** Parts from all. */
  void close(ByteBuffer lastWord) {
    for (Claim claim : take()) {
      claim.link.closeAfter(lastWord.duplicate());
    }
  }
}
