package org.ep4j.relocation;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.ep4j.engine.world.AgreedStep;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireTimeoutException;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;
import org.jspecify.annotations.Nullable;

/**
 * Moves the weights of experts between ranks over a wire of its own, while operations of a buffer
 * continue: the live half of {@link ExpertPlacement#balance(long[], int, int)}.
 *
 * <pre>{@code
 * long[] load = relocation.totalLoad(ownLoad, timeout);            // counted over some steps
 * ReplicatedPlacement next = ExpertPlacement.balance(load, ranks, replicas)
 *     .alignedTo(relocation.current(), ranks);
 * relocation.begin(next, timeout);
 * while (!relocation.advance()) {
 *   step(relocation.current());                                     // as before
 * }
 * relocation.commit(timeout);                                       // all ranks, between two steps
 * step(relocation.current());                                       // the new placement
 * }</pre>
 *
 * <p>New weights arrive beside the slots. {@link #commit} waits until all ranks have theirs, then
 * puts them into the slots and changes {@link #current()}; the buffer stays open. From {@link
 * #begin} to {@link #commit} the memory of the slots must not change, and each rank needs as much
 * memory of the host again as the slots that receive, and, on devices, as those that send.
 *
 * <p>A failure before {@code commit} returns leaves slots and placement as they were: close the
 * relocation on all ranks. If a rank is lost while others commit, some may have the new placement
 * and others not; as after any lost rank, the job restores its state.
 *
 * <p>Thread rule: one thread at a time. {@link #open}, {@link #totalLoad}, {@link #begin} and
 * {@link #commit} are collectives of the group; {@link #advance} and {@link #close} are not.
 */
public final class ExpertRelocation implements AutoCloseable {
  private final Group group;
  private final Wire wire;
  private final Slot[] slots;
  private final long expertBytes;
  private ReplicatedPlacement current;
  private ReplicatedPlacement next;
  private @Nullable Transfer transfer;
  private boolean usable = true;

  private ExpertRelocation(
      Group group, Wire wire, ReplicatedPlacement current, Slot[] slots, long expertBytes) {
    this.group = group;
    this.wire = wire;
    this.slots = slots;
    this.expertBytes = expertBytes;
    this.current = current;
    next = current;
  }

  /**
   * Opens a wire for relocations; collective.
   *
   * @param current the placement in use; the slots of this rank hold its experts
   * @param slots where the weights of this rank's experts lie
   * @param expertBytes bytes of the weights of an expert, the same on all ranks
   * @param config of the wire; its number of counters becomes the number of ranks
   * @throws InvalidArgumentException if the placement is for another number of ranks, or the memory
   *     of a slot does not fit; the other ranks get an {@link EngineUnavailableException} that
   *     names this rank and has its words
   * @throws ConfigurationMismatchException if ranks pass other placements or lengths
   */
  public static ExpertRelocation open(
      Group group,
      ReplicatedPlacement current,
      SlotMemory slots,
      long expertBytes,
      WireConfig.Builder config) {
    WireConfig settled = config.counters(group.size()).build();
    // A rank that is refused never opens its wire: without this step its peers would wait for it.
    Slot[] found =
        AgreedStep.run(
            group, settled.timeout(), () -> checked(group, current, slots, expertBytes), _ -> {});
    Wire wire = Wires.open(group, settled);
    try {
      agree(group, current, expertBytes, settled.timeout());
      return new ExpertRelocation(group, wire, current, found, expertBytes);
    } catch (RuntimeException | Error e) {
      wire.close();
      throw e;
    }
  }

  /** The slots of this rank, by local number. */
  private static Slot[] checked(
      Group group, ReplicatedPlacement current, SlotMemory slots, long expertBytes) {
    if (current.ranks() != group.size()) {
      throw new InvalidArgumentException(
          ErrorCode.REPLICA_TABLE,
          "current",
          current.toString(),
          "a placement on the " + group.size() + " ranks of the group",
          "balance for these ranks");
    }
    int local = current.placement().localExperts(group.rank());
    if (expertBytes < 1 || expertBytes > Long.MAX_VALUE / Math.max(1, local)) {
      throw new InvalidArgumentException(
          ErrorCode.SLOT_MEMORY,
          "expertBytes",
          String.valueOf(expertBytes),
          ">= 1, and all slots of a rank less than 2^63",
          "pass the bytes of one expert");
    }
    Slot[] found = new Slot[local];
    for (int i = 0; i < local; i++) {
      MemorySegment slot = slots.of(i);
      if (slot.byteSize() != expertBytes || !slot.isNative()) {
        throw new InvalidArgumentException(
            ErrorCode.SLOT_MEMORY,
            "slots.of(" + i + ")",
            slot.byteSize() + (slot.isNative() ? " native bytes" : " bytes on the heap"),
            expertBytes + " native bytes",
            "pass the memory of one expert");
      }
      found[i] = Slot.of(slot);
    }
    return found;
  }

  /** Compares placements and lengths; the same error on all ranks. */
  private static void agree(
      Group group, ReplicatedPlacement placement, long expertBytes, Duration timeout) {
    ExpertPlacement physical = placement.placement();
    ByteBuffer mine = ByteBuffer.allocate(Long.BYTES + 2 * Integer.BYTES * physical.experts());
    mine.putLong(expertBytes);
    for (int slot = 0; slot < physical.experts(); slot++) {
      mine.putInt(physical.rankOf(slot)).putInt(placement.logicalOf(slot));
    }
    byte[][] all = group.allGather(mine.array(), timeout);
    for (int rank = 1; rank < all.length; rank++) {
      if (!Arrays.equals(all[0], all[rank])) {
        boolean length = ByteBuffer.wrap(all[0]).getLong() != ByteBuffer.wrap(all[rank]).getLong();
        throw new ConfigurationMismatchException(
            ErrorCode.CONFIGURATION_MISMATCH,
            "rank %d relocates %s than rank 0: %s on all ranks"
                .formatted(
                    rank,
                    length ? "experts of another length" : "experts to other slots",
                    length ? "pass the same bytes" : "balance the same load"));
      }
    }
  }

  /** The placement that the slots hold. */
  public ReplicatedPlacement current() {
    return current;
  }

  /**
   * The sum of the loads of all ranks, the same on all; collective.
   *
   * @param own tokens of each logical expert that this rank has counted, none negative
   * @throws InvalidArgumentException if there are not as many loads as experts, one is negative, or
   *     a sum overflows
   */
  public long[] totalLoad(long[] own, Duration timeout) {
    if (own.length != current.experts()) {
      throw badLoad("load", own.length + " experts", current.experts() + " experts");
    }
    ByteBuffer mine = ByteBuffer.allocate(Long.BYTES * own.length);
    for (int e = 0; e < own.length; e++) {
      if (own[e] < 0) {
        throw badLoad("load[" + e + "]", String.valueOf(own[e]), ">= 0");
      }
      mine.putLong(own[e]);
    }
    long[] total = new long[own.length];
    for (byte[] ofRank : group.allGather(mine.array(), timeout)) {
      ByteBuffer theirs = ByteBuffer.wrap(ofRank);
      for (int e = 0; e < total.length; e++) {
        total[e] += theirs.getLong();
        if (total[e] < 0) {
          throw badLoad("load[" + e + "]", "a sum over 2^63", "less than 2^63 on all ranks");
        }
      }
    }
    return total;
  }

  private static InvalidArgumentException badLoad(String argument, String value, String limit) {
    return new InvalidArgumentException(
        ErrorCode.EXPERT_LOAD, argument, value, limit, "count the tokens of each expert");
  }

  /**
   * Begins to move weights; collective.
   *
   * @param placement to come, with the slots of {@link #current()}
   * @param timeout maximum wait for the other ranks
   * @return number of slots that receive another expert, on all ranks
   * @throws InvalidArgumentException if the placement has other slots or experts
   * @throws ConfigurationMismatchException if ranks pass other placements; nothing has begun
   * @throws IllegalUseException if a relocation has begun, or has failed
   */
  public int begin(ReplicatedPlacement placement, Duration timeout) {
    requireUsable();
    if (transfer != null) {
      throw new IllegalUseException(
          ErrorCode.RELOCATION_STATE, "a relocation has begun: commit it first");
    }
    if (!placement.placement().equals(current.placement())
        || placement.experts() != current.experts()) {
      throw new InvalidArgumentException(
          ErrorCode.REPLICA_TABLE,
          "placement",
          placement.toString(),
          "one with the slots and experts of " + current,
          "balance for the same ranks, experts and replicas");
    }
    // Before the collectives: a rank that has left them may already send.
    long[] arrived = new long[wire.size()];
    Arrays.setAll(arrived, wire.counters()::get);
    agree(group, placement, expertBytes, timeout);
    usable = false;
    RelocationPlan plan = RelocationPlan.of(current, placement);
    Region staging = wire.allocate(plan.received(wire.rank()) * expertBytes, timeout);
    transfer =
        new Transfer(wire, slots, placement.placement(), plan, expertBytes, staging, arrived);
    next = placement;
    usable = true;
    return plan.moves().size();
  }

  /**
   * Moves some megabytes, and never blocks. To be called between steps, or as often as the thread
   * has nothing else to do: weights move only inside this call and {@link #commit}.
   *
   * @return whether this rank has sent and received all weights; true without a relocation
   * @throws LaneFailedException if a rank that takes part is lost
   * @throws IllegalUseException if the relocation has failed
   */
  public boolean advance() {
    requireUsable();
    if (transfer == null) {
      return true;
    }
    usable = false;
    boolean done = transfer.advance();
    usable = true;
    return done;
  }

  /**
   * Waits for the rest of the weights on all ranks, puts them into the slots, and changes {@link
   * #current()}; collective. Between two steps: no operation that uses the slots may run.
   *
   * @param timeout maximum wait for the weights, and then for the other ranks
   * @return the new placement
   * @throws WireTimeoutException if weights are missing; names the ranks. May be called again
   * @throws LaneFailedException if a rank that takes part is lost
   * @throws GroupException if a rank does not commit
   * @throws IllegalUseException if no relocation has begun, or it has failed
   */
  public ReplicatedPlacement commit(Duration timeout) {
    requireUsable();
    Transfer moving = transfer;
    if (moving == null) {
      throw new IllegalUseException(
          ErrorCode.RELOCATION_STATE, "no relocation has begun: call begin first");
    }
    try {
      new WireWait(wire, 0, timeout).until(this::advance, "weights of experts");
    } catch (WireTimeoutException e) {
      List<Integer> missing = moving.missing();
      throw missing.isEmpty()
          ? e
          : new WireTimeoutException(
              "rank %d waited %d ms for weights of experts of ranks %s"
                  .formatted(wire.rank(), timeout.toMillis(), missing));
    }
    usable = false;
    group.barrier(timeout);
    moving.install();
    current = next;
    transfer = null;
    moving.close();
    usable = true;
    return current;
  }

  private void requireUsable() {
    if (!usable) {
      throw new IllegalUseException(
          ErrorCode.RELOCATION_STATE,
          "the relocation is closed, or an earlier call has failed: close it and open another on all"
              + " ranks");
    }
  }

  /** Closes the wire of this rank; a second call has no effect. Slots and placement stay. */
  @Override
  public void close() {
    usable = false;
    Transfer begun = transfer;
    transfer = null;
    ClosingSteps.run(wire::close, begun == null ? null : begun::abandon);
  }
}
