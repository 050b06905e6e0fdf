package org.ep4j.conformance.wire;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/**
 * A lane that delays work and submits it in any order that the contract allows: a put at any time,
 * an add once all earlier work is submitted.
 */
final class FaultyLane implements Lane {
  /** Delayed work; an add if there is no local region. */
  private record Held(
      @Nullable Region local,
      long localOffset,
      @Nullable Region remote,
      long remoteOffset,
      long bytes,
      int counter,
      long value) {}

  private final FaultyWire wire;
  private final Lane inner;
  private final SplittableRandom random;
  private final List<Held> held = new ArrayList<>();
  private long accepted;
  private long delivered;
  private boolean lost;
  private volatile @Nullable LaneFailure dropped;

  FaultyLane(FaultyWire wire, Lane inner, SplittableRandom random) {
    this.wire = wire;
    this.inner = inner;
    this.random = random;
  }

  private int progressContext() {
    return inner.index() % wire.config().progressContexts();
  }

  @Override
  public int peer() {
    return inner.peer();
  }

  @Override
  public int index() {
    return inner.index();
  }

  @Override
  public long put(
      Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
    wire.step(progressContext());
    WireArguments.put(
        localOffset,
        local.bytes(),
        remoteOffset,
        remote.bytes(peer()),
        bytes,
        counter,
        wire.config());
    if (!wire.plan().steps()) {
      return dropped != null
          ? FAILED
          : count(inner.put(local, localOffset, remote, remoteOffset, bytes, counter));
    }
    if (refused() != 0) {
      return refusal;
    }
    switch (random.nextInt(4)) {
      case 0 -> hold(local, localOffset, remote, remoteOffset, bytes, counter);
      case 1 -> pieces(local, localOffset, remote, remoteOffset, bytes, counter);
      case 2 -> {
        hold(local, localOffset, remote, remoteOffset, bytes, NO_COUNTER);
        pieces(local, localOffset, remote, remoteOffset, bytes, counter);
      }
      default -> {
        hold(local, localOffset, remote, remoteOffset, bytes, NO_COUNTER);
        hold(counter);
      }
    }
    return ++accepted;
  }

  private long refusal;

  /** Whether new work is refused; returns the result code. */
  private long refused() {
    boolean full = held.size() > 64 || random.nextInt(8) == 0;
    refusal = failure() != null ? FAILED : full ? BACK_PRESSURED : 0;
    return refusal;
  }

  private void hold(
      Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
    held.add(new Held(local, localOffset, remote, remoteOffset, bytes, counter, 0));
  }

  /** An add of 1 instead of the count of a put. */
  private void hold(int counter) {
    if (counter != NO_COUNTER) {
      held.add(new Held(null, 0, null, 0, 0, counter, 1));
    }
  }

  private void pieces(
      Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
    long done = 0;
    while (done < bytes) {
      long piece = Math.min(bytes - done, 1 + random.nextLong(bytes));
      hold(local, localOffset + done, remote, remoteOffset + done, piece, NO_COUNTER);
      done += piece;
    }
    hold(counter);
  }

  @Override
  public long add(int counter, long value) {
    wire.step(progressContext());
    WireArguments.add(counter, wire.config());
    if (!wire.plan().steps()) {
      return dropped != null ? FAILED : count(inner.add(counter, value));
    }
    if (refused() != 0) {
      return refusal;
    }
    held.add(new Held(null, 0, null, 0, 0, counter, value));
    return ++accepted;
  }

  private long count(long result) {
    accepted += result > 0 ? 1 : 0;
    return result > 0 ? accepted : result;
  }

  /** Submits some of the work; returns how much. */
  int release() {
    int gone = 0;
    while (!held.isEmpty() && failure() == null && random.nextInt(3) != 0) {
      int which = random.nextInt(Math.min(held.size(), 8));
      Held work = held.get(which);
      Region local = work.local();
      Region remote = work.remote();
      long result;
      if (local == null || remote == null) {
        if (which != 0) {
          continue;
        }
        result = inner.add(work.counter(), work.value());
      } else {
        result =
            inner.put(
                local,
                work.localOffset(),
                remote,
                work.remoteOffset(),
                work.bytes(),
                work.counter());
      }
      if (result < 0) {
        break;
      }
      held.remove(which);
      gone++;
    }
    if (failure() != null && !held.isEmpty()) {
      lost = true;
      held.clear();
    }
    return gone;
  }

  /** Fails the lane if it works; returns whether it did. */
  boolean drop(long step) {
    if (failure() != null) {
      return false;
    }
    lost = true;
    held.clear();
    LaneFailure failure =
        new LaneFailure(
            peer(), index(), Cause.LOST, "dropped at step " + step, delivered(), accepted);
    dropped = failure;
    FaultyWire.report(wire, failure);
    return true;
  }

  @Override
  public boolean flush() {
    boolean left = inner.flush();
    return failure() != null || (held.isEmpty() && left);
  }

  @Override
  public long accepted() {
    return accepted;
  }

  @Override
  public long delivered() {
    if (held.isEmpty() && !lost && inner.delivered() == inner.accepted()) {
      delivered = accepted;
    }
    return delivered;
  }

  @Override
  public @Nullable LaneFailure failure() {
    LaneFailure own = dropped;
    if (own != null) {
      return own;
    }
    LaneFailure failure = inner.failure();
    return failure == null
        ? null
        : new LaneFailure(peer(), index(), failure.cause(), failure.text(), delivered, accepted);
  }
}
