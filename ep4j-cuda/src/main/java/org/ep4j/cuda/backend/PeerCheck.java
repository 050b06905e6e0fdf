package org.ep4j.cuda.backend;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.IntStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.calls.CudaException;
import org.jspecify.annotations.Nullable;

/**
 * Verifies the addresses that a library returns for the regions of peers, before kernels rely on
 * them. Every rank writes a random word into its own region, reads those of the others through
 * their addresses, answers each with another word there, and checks the answers. Finally each rank
 * restores the previous content.
 */
public final class PeerCheck {
  private PeerCheck() {}

  /** Smallest size of a region of {@code ranks} ranks. */
  public static long bytes(int ranks) {
    return (1L + ranks) * Long.BYTES;
  }

  /**
   * Checks the addresses; collective.
   *
   * @param peers by rank; null for ranks that are not checked, symmetrically on both sides
   * @throws org.ep4j.error.EngineUnavailableException on all ranks if one cannot reach another;
   *     names both
   */
  public static void check(BackendWorld world, DeviceMemory region, @Nullable PeerRegion[] peers) {
    int rank = world.participants().rank();
    long[] before = new long[1 + peers.length];
    region.copyTo(0, MemorySegment.ofArray(before));
    long secret = ThreadLocalRandom.current().nextLong() | 1;
    region.copyFrom(0, MemorySegment.ofArray(new long[] {secret}));
    byte[][] all =
        world
            .participants()
            .group()
            .allGather(ByteBuffer.allocate(Long.BYTES).putLong(secret).array(), world.timeout());
    long[] secrets = new long[peers.length];
    for (int i = 0; i < all.length; i++) {
      secrets[world.participants().number(i)] = ByteBuffer.wrap(all[i]).getLong();
    }
    world.agree(call(world, secrets, peers, rank));
    long[] now = new long[before.length];
    region.copyTo(0, MemorySegment.ofArray(now));
    region.copyFrom(0, MemorySegment.ofArray(before));
    world.agree(answers(secret, now, peers));
  }

  /** Reads each peer's word and writes the answer; returns the problem. */
  private static String call(
      BackendWorld world, long[] secrets, @Nullable PeerRegion[] peers, int rank) {
    for (int r = 0; r < peers.length; r++) {
      PeerRegion peer = peers[r];
      if (peer == null) {
        continue;
      }
      MemorySegment word = MemorySegment.ofArray(new long[1]);
      try {
        DeviceCopies.toHost(world.device(), word, peer.address());
        if (word.getAtIndex(ValueLayout.JAVA_LONG, 0) != secrets[r]) {
          return wrong(peer, r);
        }
        long place = peer.address() + (1L + rank) * Long.BYTES;
        MemorySegment answer = MemorySegment.ofArray(new long[] {~secrets[r]});
        DeviceCopies.toDevice(world.device(), place, answer);
      } catch (CudaException e) {
        return wrong(peer, r) + ": " + e.getMessage();
      }
    }
    return "";
  }

  private static String wrong(PeerRegion peer, int rank) {
    return "the address 0x"
        + Long.toHexString(peer.address())
        + " is not the memory of rank "
        + rank;
  }

  private static String answers(long secret, long[] words, @Nullable PeerRegion[] peers) {
    int[] silent =
        IntStream.range(0, peers.length)
            .filter(r -> peers[r] != null && words[1 + r] != ~secret)
            .toArray();
    return silent.length == 0
        ? ""
        : "what ranks " + Arrays.toString(silent) + " wrote here has not arrived";
  }
}
