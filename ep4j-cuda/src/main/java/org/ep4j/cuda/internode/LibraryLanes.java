package org.ep4j.cuda.internode;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.OptionalInt;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.wire.WireEnvironment;

/**
 * Number of lanes of wire {@code backend}: streams of puts to each peer, which kernels use in turn.
 * Lanes of a rank meet lanes of its peers with the same number, so all ranks need the same.
 *
 * @param count number of lanes
 * @param given whether the program or the environment sets the number
 */
record LibraryLanes(int count, boolean given) {
  /** The number with which the wire was measured. */
  static final int DEFAULT = 8;

  /** The number that the options or else the variables set. */
  static LibraryLanes of(WireOptions options, Map<String, String> variables) {
    OptionalInt lanes = options.lanes();
    if (lanes.isEmpty()) {
      lanes = WireEnvironment.of(variables).lanes();
    }
    return new LibraryLanes(lanes.orElse(DEFAULT), lanes.isPresent());
  }

  /**
   * The number of all ranks, given if it is on any of them; collective.
   *
   * @throws ConfigurationMismatchException on all ranks if the ranks have different numbers
   */
  static LibraryLanes agreed(Group group, LibraryLanes own, Duration timeout) {
    int[] mine = {own.count, own.given ? 1 : 0};
    byte[] sent = new byte[mine.length * Integer.BYTES];
    ByteBuffer.wrap(sent).asIntBuffer().put(mine);
    byte[][] all = group.allGather(sent, timeout);
    int first = ByteBuffer.wrap(all[0]).getInt();
    boolean given = false;
    for (int r = 0; r < all.length; r++) {
      ByteBuffer other = ByteBuffer.wrap(all[r]);
      int count = other.getInt();
      if (count != first) {
        throw new ConfigurationMismatchException(
            ErrorCode.CONFIGURATION_MISMATCH,
            "wire '"
                + WireName.BACKEND
                + "' has "
                + first
                + " lanes on rank 0 and "
                + count
                + " on rank "
                + r
                + ": set "
                + WireEnvironment.LANES
                + " to the same value on all ranks, or unset it");
      }
      given |= other.getInt() != 0;
    }
    return new LibraryLanes(first, given);
  }

  /**
   * Refuses a number that was set and that the transport cannot serve. The default is no demand:
   * lanes of a small transport share what it has.
   */
  void requireEnough(PutTransport transport) {
    if (given && count > transport.maxLanes()) {
      throw new InvalidArgumentException(
          ErrorCode.LIBRARY_LANES,
          "lanes (" + WireEnvironment.LANES + ")",
          String.valueOf(count),
          "at most " + transport.maxLanes() + " for wire '" + WireName.BACKEND + "'",
          transport.moreLanes());
    }
  }
}
