package org.ep4j.nccl.gin;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.Participants;

/**
 * The communicators whose contexts are the lanes of kernels' puts: that of the backend, and as many
 * more as the lanes need. All ranks open them in the same steps. A step that fails on one rank
 * fails on all, with the reason of that rank, before any rank enters the next one; then all ranks
 * abort what they have opened, because orderly ends wait for other ranks.
 */
public final class GinCommunicators implements AutoCloseable {
  /** One communicator on this rank. Steps are collective; what opens is released once. */
  public interface Member {
    /** Registers the memory of this rank. */
    void register();

    /** Creates the device communicator. */
    void connect();

    /** Contexts of the device communicator. */
    long contexts();

    /** Frees the device communicator and the window. */
    void release();

    /** Does without the other ranks from now on. */
    void abandon();

    /** Starts to free the communicator; needs the other ranks unless it is abandoned. */
    void beginClose();

    /** Waits until it is freed, for a limited time. */
    void endClose();
  }

  /** Creates members. */
  public interface Factory {
    /** The member with the communicator of the backend, whose memory is registered. */
    Member first();

    /** The id of a new communicator. */
    byte[] newId();

    /** A member with a new communicator; collective. */
    Member create(byte[] id);
  }

  private final List<Member> members = new ArrayList<>();
  private final Participants participants;
  private final Duration timeout;

  private GinCommunicators(Participants participants, Duration timeout) {
    this.participants = participants;
    this.timeout = timeout;
  }

  /** Opens the communicators of a plan; collective. */
  public static GinCommunicators open(
      Participants participants, Duration timeout, GinPlan plan, Factory factory) {
    GinCommunicators made = new GinCommunicators(participants, timeout);
    boolean complete = false;
    try {
      made.open(plan, factory);
      complete = true;
      return made;
    } finally {
      if (!complete) {
        made.members.forEach(Member::abandon);
        made.close();
      }
    }
  }

  private void open(GinPlan plan, Factory factory) {
    Member first = factory.first();
    members.add(first);
    together("the device communicator of GIN", first::connect);
    int count = plan.communicators(requireSame(first.contexts()));
    if (count == 1) {
      return;
    }
    byte[][] ids = ids(count - 1, factory);
    for (int i = 1; i < count; i++) {
      byte[] id = ids[i - 1];
      String what = "of communicator " + (i + 1) + " of " + count + " for GIN";
      together("the connections " + what, () -> members.add(factory.create(id)));
      Member member = members.getLast();
      together("the window " + what, member::register);
      together("the device side " + what, member::connect);
    }
  }

  private void together(String what, Runnable step) {
    boolean ignored =
        BackendWorld.together(
            participants,
            timeout,
            what,
            () -> {
              step.run();
              return true;
            });
  }

  /** Ranks with different numbers of contexts would open different numbers of communicators. */
  private long requireSame(long contexts) {
    byte[] own = ByteBuffer.allocate(Long.BYTES).putLong(contexts).array();
    byte[][] all = participants.group().allGather(own, timeout);
    long first = ByteBuffer.wrap(all[0]).getLong();
    for (int r = 1; r < all.length; r++) {
      long other = ByteBuffer.wrap(all[r]).getLong();
      if (other != first) {
        throw new ConfigurationMismatchException(
            ErrorCode.NCCL_CONTEXTS_DIFFER,
            "GIN has %d contexts on rank 0 and %d on rank %d: set NCCL_GIN_NCONTEXTS to the same value on all ranks, or unset it"
                .formatted(first, other, r));
      }
    }
    return first;
  }

  /** New ids, made by the first rank. */
  private byte[][] ids(int count, Factory factory) {
    ByteArrayOutputStream made = new ByteArrayOutputStream();
    boolean makes = participants.group().rank() == 0;
    together(
        "the ids of the communicators for GIN",
        () -> {
          for (int i = 0; makes && i < count; i++) {
            made.writeBytes(factory.newId());
          }
        });
    byte[] all = participants.group().allGather(made.toByteArray(), timeout)[0];
    int bytes = all.length / count;
    byte[][] ids = new byte[count][bytes];
    for (int i = 0; i < count; i++) {
      System.arraycopy(all, i * bytes, ids[i], 0, bytes);
    }
    return ids;
  }

  /** The members in the order in which lanes use them. */
  public List<Member> members() {
    return List.copyOf(members);
  }

  /** Frees all at once: one that waits for a lost rank does not delay the others. */
  @Override
  public void close() {
    ResourceStack steps = new ResourceStack();
    // Closed in reverse: all are released, then all begin to close, then all are awaited.
    members.forEach(member -> steps.own(member::endClose));
    members.forEach(member -> steps.own(member::beginClose));
    members.forEach(member -> steps.own(member::release));
    members.clear();
    steps.close();
  }
}
