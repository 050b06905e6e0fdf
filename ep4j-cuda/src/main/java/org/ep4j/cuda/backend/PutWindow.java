package org.ep4j.cuda.backend;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * Zeroed memory of equal size on all ranks, and the backend's transport for puts of kernels into
 * it. Used by one thread.
 */
public final class PutWindow implements AutoCloseable {
  private static final String NO_MEMORY = "memory for puts of kernels";
  private static final String NO_PEERS = "the memory of other ranks for puts of kernels";

  private final ResourceStack owned = new ResourceStack();
  private final Group group;
  private final Backend backend;
  private final SymmetricRegion region;
  private final @Nullable PeerRegion[] peers;
  private final @Nullable PutTransport transport;
  private final String obstacle;

  private PutWindow(
      Group group, Backend backend, boolean[] intranode, PutShape shape, Duration timeout) {
    this.group = group;
    this.backend = backend;
    boolean complete = false;
    try {
      region = backend.world().together(NO_MEMORY, () -> allocate(shape.regionBytes()));
      peers = backend.world().together(NO_PEERS, () -> reach(intranode, timeout));
      PutOffer offer = backend.offerPuts(region, shape, intranode);
      PutTransport offered = offer.transport();
      if (offered != null) {
        owned.own(offered);
      }
      // A rank may have to compile first.
      Duration withCompiler = backend.world().setUpTimeout().plus(timeout);
      obstacle = obstacle(group, withCompiler, offer.reason());
      transport = obstacle.isEmpty() ? offered : null;
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Opens the window; collective. When this returns, all ranks have cleared their memory.
   *
   * @param intranode by rank, whether stores reach it, including this rank
   */
  public static PutWindow open(
      Group group, Backend backend, boolean[] intranode, PutShape shape, Duration timeout) {
    return new PutWindow(group, backend, intranode, shape, timeout);
  }

  private SymmetricRegion allocate(long bytes) {
    SymmetricRegion made = owned.own(backend.allocate(bytes));
    made.memory().zero(0, made.memory().bytes());
    return made;
  }

  private @Nullable PeerRegion[] reach(boolean[] intranode, Duration timeout) {
    boolean[] others = intranode.clone();
    others[group.rank()] = false;
    @Nullable PeerRegion[] reached = region.reach(Participants.ofAll(group), others, timeout);
    for (PeerRegion peer : reached) {
      if (peer != null) {
        owned.own(peer);
      }
    }
    return reached;
  }

  /** The first rank without the transport, and the reason; the same result on all ranks. */
  static String obstacle(Group group, Duration timeout, String reason) {
    byte[][] all = group.allGather(reason.getBytes(StandardCharsets.UTF_8), timeout);
    for (int r = 0; r < all.length; r++) {
      if (all[r].length > 0) {
        return "Rank " + r + ": " + new String(all[r], StandardCharsets.UTF_8);
      }
    }
    return "";
  }

  /** The memory of this rank, with the words of signals after the requested bytes. */
  public DeviceMemory memory() {
    return region.memory();
  }

  /** By rank, the mapped memory of this rank and of intranode ranks; else 0. */
  public long[] addresses() {
    long[] addresses = new long[peers.length];
    for (int r = 0; r < peers.length; r++) {
      PeerRegion peer = peers[r];
      addresses[r] = peer == null ? 0 : peer.address();
    }
    addresses[group.rank()] = region.memory().address();
    return addresses;
  }

  /** The transport of puts; null if the backend has none here, the same on all ranks. */
  public @Nullable PutTransport transport() {
    return transport;
  }

  /** Why an expected transport is unavailable, with the remedy; otherwise empty. */
  public String obstacle() {
    return obstacle;
  }

  /**
   * Closes the window after the last kernel that uses it on any rank; collective if the backend
   * requires it.
   */
  @Override
  public void close() {
    owned.close();
  }
}
