package org.ep4j.wire.support;

import org.ep4j.InvalidArgumentException;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;

/** Checks of what callers pass; texts are made only for mistakes. */
public final class WireArguments {
  private WireArguments() {}

  /** Checks the arguments of a put to {@code peer}, whose part of the target has {@code target}. */
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
          "peer",
          String.valueOf(peer),
          "from 0 to " + (size - 1) + " and not this rank, " + rank,
          "a put to one's own memory is a copy");
    }
    if (index < 0 || index >= config.lanes()) {
      throw new InvalidArgumentException(
          "index",
          String.valueOf(index),
          "from 0 to " + (config.lanes() - 1),
          "open the wire with more lanes");
    }
  }

  /** Checks that a strand exists. */
  public static void progressContext(int progressContext, WireConfig config) {
    if (progressContext < 0 || progressContext >= config.progressContexts()) {
      throw new InvalidArgumentException(
          "progressContext",
          String.valueOf(progressContext),
          "from 0 to " + (config.progressContexts() - 1),
          "open the wire with more progress contexts");
    }
  }

  /** What to say of a region that is not one of the wire's, or no longer. */
  public static IllegalStateException foreign(Region region) {
    return new IllegalStateException(
        "the region of " + region.memory().bytes() + " bytes is closed or of another wire");
  }

  private static InvalidArgumentException range(
      String argument, long offset, long bytes, long available) {
    return new InvalidArgumentException(
        argument,
        offset + " for " + bytes + " bytes",
        "a range inside the region, which has " + available,
        "put what fits");
  }

  private static InvalidArgumentException counter(int counter, WireConfig config) {
    return new InvalidArgumentException(
        "counter",
        String.valueOf(counter),
        "from 0 to " + (config.counters() - 1),
        "open the wire with more counters");
  }
}
