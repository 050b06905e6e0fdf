package org.ep4j.wire.support;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;

/** Checks of caller arguments; texts are made only for errors. */
public final class WireArguments {
  private WireArguments() {}

  /**
   * Checks the arguments of a put to {@code peer}, whose part of the remote region has {@code
   * target} bytes.
   */
  public static void put(
      long localOffset,
      long source,
      long remoteOffset,
      long target,
      long bytes,
      int counter,
      WireConfig config) {
    if ((localOffset | bytes) < 0 || localOffset > source - bytes) {
      throw range("localOffset", localOffset, bytes, source);
    }
    if (remoteOffset < 0 || remoteOffset > target - bytes) {
      throw range("remoteOffset", remoteOffset, bytes, target);
    }
    if (counter < Lane.NO_COUNTER || counter >= config.counters()) {
      throw counter(counter, config);
    }
  }

  /** Checks the counter of an add. */
  public static void add(int counter, WireConfig config) {
    if (counter < 0 || counter >= config.counters()) {
      throw counter(counter, config);
    }
  }

  /** Checks that a lane exists. */
  public static void lane(int peer, int index, int rank, int size, WireConfig config) {
    if (peer < 0 || peer >= size || peer == rank) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_LANE,
          "peer",
          String.valueOf(peer),
          "from 0 to " + (size - 1) + " and not this rank, " + rank,
          "copy data for this rank directly");
    }
    if (index < 0 || index >= config.lanes()) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_LANE,
          "index",
          String.valueOf(index),
          "from 0 to " + (config.lanes() - 1),
          "open the wire with more lanes");
    }
  }

  /** Checks that a progress context exists. */
  public static void progressContext(int progressContext, WireConfig config) {
    if (progressContext < 0 || progressContext >= config.progressContexts()) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_LANE,
          "progressContext",
          String.valueOf(progressContext),
          "from 0 to " + (config.progressContexts() - 1),
          "open the wire with more progress contexts");
    }
  }

  /** The error for a region that is closed or of another wire. */
  public static IllegalUseException foreign(Region region) {
    return new IllegalUseException(
        ErrorCode.REGION_UNUSABLE,
        "the region of "
            + region.memory().bytes()
            + " bytes is closed or of another wire: use an open region of this wire");
  }

  private static InvalidArgumentException range(
      String argument, long offset, long bytes, long available) {
    return new InvalidArgumentException(
        ErrorCode.WIRE_PUT_RANGE,
        argument,
        offset + " for " + bytes + " bytes",
        "a range inside the region (" + available + ")",
        "put fewer bytes");
  }

  private static InvalidArgumentException counter(int counter, WireConfig config) {
    return new InvalidArgumentException(
        ErrorCode.WIRE_COUNTER,
        "counter",
        String.valueOf(counter),
        "from 0 to " + (config.counters() - 1),
        "open the wire with more counters");
  }
}
