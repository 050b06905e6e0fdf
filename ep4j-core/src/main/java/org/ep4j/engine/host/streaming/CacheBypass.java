package org.ep4j.engine.host.streaming;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.memory.StreamingStores;

/**
 * Whether an operation writes its rows with non-temporal stores ({@link StreamingStores}).
 *
 * <p>Rows that fit into the last-level cache are better written into it: a line that is overwritten
 * in each operation stays there, and its next reader finds it. Larger rows cost a third more read
 * traffic that way. All ranks of a host share that cache, so the sum over all ranks counts. The
 * reported size is only an upper bound of the share of ep4j: other programs use the cache too, and
 * a virtual machine reports the size of the cache of the whole socket.
 */
public final class CacheBypass {
  /**
   * Measured on a machine that reports ten times this size: equal at 30 MB, 1.6 times as fast at 52
   * MB.
   */
  private static final long SHARE = 48L << 20;

  private static final long BYTES =
      Boolean.getBoolean(StreamingStores.PROPERTY) ? 0 : Math.min(SHARE, lastLevelCache());

  private CacheBypass() {}

  /**
   * Whether non-temporal stores are faster for {@code bytes} bytes of rows on all ranks of the host
   * together.
   */
  public static boolean pays(long bytes) {
    return StreamingStores.available() && bytes >= BYTES;
  }

  /** Bytes of the largest cache of the first processor, {@link Long#MAX_VALUE} if unknown. */
  private static long lastLevelCache() {
    long largest = 0;
    for (int index = 0; index < 5; index++) {
      Path file = Path.of("/sys/devices/system/cpu/cpu0/cache/index" + index + "/size");
      try {
        String size = Files.readString(file).strip();
        if (size.matches("[0-9]{1,12}K")) {
          largest = Math.max(largest, Long.parseLong(size.substring(0, size.length() - 1)) << 10);
        }
      } catch (IOException e) {
        // Some systems do not report this cache, and some processors do not have it.
      }
    }
    return largest == 0 ? Long.MAX_VALUE : largest;
  }
}
