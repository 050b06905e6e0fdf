package org.ep4j.engine.host;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.memory.StreamingStores;

/**
 * Whether the rows of an operation go around the cache ({@link StreamingStores}).
 *
 * <p>Rows that fit the last-level cache are better written into it: a line that is overwritten each
 * time stays there, and who reads the row next finds it. Rows that do not fit cost a third read
 * traffic more that way. All ranks of a host share that cache, so what counts are the bytes of all
 * of them. Its reported size is only an upper bound of our share: other programs use it too, and a
 * virtual machine is told the size of the whole socket's cache.
 */
final class CacheBypass {
  /** Measured where ten times this is reported: equal at 30 MB, 1.6 times as fast at 52 MB. */
  private static final long SHARE = 48L << 20;

  private static final long BYTES =
      Boolean.getBoolean(StreamingStores.PROPERTY) ? 0 : Math.min(SHARE, lastLevelCache());

  private CacheBypass() {}

  /** Whether it pays for rows of {@code bytes} bytes on all ranks of the host together. */
  static boolean pays(long bytes) {
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
        // Not every system tells, nor has every processor so many caches.
      }
    }
    return largest == 0 ? Long.MAX_VALUE : largest;
  }
}
