package org.ep4j.relocation;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;

/**
 * The bytes of one relocation. New weights arrive in a region beside the slots, one place for each
 * receiving slot, so that slots keep their weights until all ranks have theirs.
 *
 * <p>Counters: the receiver's counter {@code s} grows by one for each put of rank {@code s}. It
 * never returns to 0, so {@code arrived} holds its value at the start of the transfer.
 */
final class Transfer implements AutoCloseable {
  /** Bytes of a put. */
  static final long CHUNK = 1 << 20;

  /** Puts of a call of {@link #advance}: the caller wants to return to its work. */
  private static final int PUTS_OF_CALL = 8;

  private final Wire wire;
  private final Slot[] slots;
  private final RelocationPlan plan;
  private final ExpertPlacement numbers;
  private final long expertBytes;
  private final Region staging;
  private final List<Region> sources = new ArrayList<>();

  /** Copies of leaving weights that lie on devices. */
  private final Arena copies = Arena.ofShared();

  private final Deque<RelocationPlan.Move> local;
  private final List<Outgoing> outgoing = new ArrayList<>();
  private final long[] wanted;
  private int seenFailures;

  /** A move to a peer, and its weights. */
  private record Sending(RelocationPlan.Move move, LeavingWeights source) {}

  /** The moves to a peer that are not yet accepted by a lane. */
  private static final class Outgoing {
    final int peer;
    final Deque<Sending> moves = new ArrayDeque<>();
    long sent;
    int lane;

    Outgoing(int peer) {
      this.peer = peer;
    }
  }

  /**
   * @param slots by local number
   * @param numbers local numbers of the slots
   * @param staging made together with all ranks; {@code plan.received(rank)} places on each
   * @param arrived the values that all counters have before this transfer
   */
  Transfer(
      Wire wire,
      Slot[] slots,
      ExpertPlacement numbers,
      RelocationPlan plan,
      long expertBytes,
      Region staging,
      long[] arrived) {
    this.wire = wire;
    this.slots = slots;
    this.numbers = numbers;
    this.plan = plan;
    this.expertBytes = expertBytes;
    this.staging = staging;
    local = new ArrayDeque<>(plan.local(wire.rank()));
    boolean complete = false;
    try {
      registerLeaving();
      complete = true;
    } finally {
      if (!complete) {
        copies.close();
      }
    }
    wanted = arrived.clone();
    for (RelocationPlan.Move move : plan.incoming(wire.rank())) {
      wanted[move.source()] += Math.ceilDiv(expertBytes, CHUNK);
    }
  }

  private void registerLeaving() {
    Map<Integer, LeavingWeights> registered = new HashMap<>();
    // Ranks begin with different peers.
    for (int i = 1; i < wire.size(); i++) {
      Outgoing peer = new Outgoing((wire.rank() + i) % wire.size());
      outgoing.add(peer);
      for (RelocationPlan.Move move : plan.outgoing(wire.rank())) {
        if (move.target() == peer.peer) {
          peer.moves.add(
              new Sending(move, registered.computeIfAbsent(move.from(), this::register)));
        }
      }
    }
    registered.values().forEach(weights -> sources.add(weights.region()));
  }

  private LeavingWeights register(int from) {
    return new LeavingWeights(wire, slot(from), copies);
  }

  private Slot slot(int physical) {
    return slots[numbers.localOf(physical)];
  }

  /**
   * Moves some bytes, and polls the wire; never blocks.
   *
   * @return whether all weights of this rank have left or arrived
   * @throws LaneFailedException if a peer of this transfer is lost
   */
  boolean advance() {
    RelocationPlan.Move own = local.poll();
    if (own != null) {
      stage(own);
    }
    boolean left = own == null;
    int puts = PUTS_OF_CALL;
    for (Outgoing peer : outgoing) {
      puts = send(peer, puts);
      left &= peer.moves.isEmpty();
    }
    for (int context = 0; context < wire.config().progressContexts(); context++) {
      wire.poll(context);
    }
    for (Outgoing peer : outgoing) {
      left &= flush(peer.peer);
    }
    return arrived() && left;
  }

  private void stage(RelocationPlan.Move move) {
    slot(move.from()).read(0, place(move));
  }

  private MemorySegment place(RelocationPlan.Move move) {
    return staging.segment().asSlice(move.place() * expertBytes, expertBytes);
  }

  /** Sends to a peer while its lanes accept; returns the puts that are left of {@code puts}. */
  private int send(Outgoing peer, int puts) {
    int left = puts;
    while (left > 0 && !peer.moves.isEmpty()) {
      Sending next = peer.moves.getFirst();
      long bytes = Math.min(CHUNK, expertBytes - peer.sent);
      Lane lane = wire.lane(peer.peer, peer.lane);
      long result =
          lane.put(
              next.source.upTo(peer.sent + bytes),
              peer.sent,
              staging,
              next.move.place() * expertBytes + peer.sent,
              bytes,
              wire.rank());
      if (result == Lane.FAILED) {
        throw lost(Objects.requireNonNull(lane.failure()), "weights of experts to leave");
      }
      if (result == Lane.BACK_PRESSURED) {
        return left;
      }
      left--;
      peer.lane = (peer.lane + 1) % wire.config().lanes();
      peer.sent += bytes;
      if (peer.sent == expertBytes) {
        peer.sent = 0;
        peer.moves.removeFirst();
      }
    }
    return left;
  }

  private boolean flush(int peer) {
    boolean flushed = true;
    for (int i = 0; i < wire.config().lanes(); i++) {
      flushed &= wire.lane(peer, i).flush();
    }
    return flushed;
  }

  private boolean arrived() {
    int failures = wire.failedLanes();
    boolean all = missing().isEmpty();
    if (!all && failures != seenFailures) {
      seenFailures = failures;
      for (int rank : missing()) {
        LaneFailure failure = LaneFailure.of(wire, rank);
        // The lane may have failed after its last put arrived: the counter is read again.
        if (failure != null && missing().contains(rank)) {
          throw lost(failure, "weights of experts to arrive");
        }
      }
    }
    return all;
  }

  private static LaneFailedException lost(LaneFailure failure, String what) {
    return new LaneFailedException(what, failure);
  }

  /** Ranks whose puts have not all arrived. */
  List<Integer> missing() {
    List<Integer> missing = new ArrayList<>();
    for (int rank = 0; rank < wanted.length; rank++) {
      if (wire.counters().get(rank) < wanted[rank]) {
        missing.add(rank);
      }
    }
    return missing;
  }

  /** Puts the new weights into their slots; after all ranks have theirs. */
  void install() {
    for (RelocationPlan.Move move : plan.moves()) {
      if (move.target() == wire.rank()) {
        slot(move.to()).write(place(move));
      }
    }
  }

  /** After all ranks have their weights: no put is in flight. */
  @Override
  public void close() {
    ClosingSteps.run(
        () -> ClosingSteps.each(sources, Region::close), staging::close, copies::close);
  }

  /** Frees what the wire does not own; after the wire is closed. */
  void abandon() {
    copies.close();
  }
}
