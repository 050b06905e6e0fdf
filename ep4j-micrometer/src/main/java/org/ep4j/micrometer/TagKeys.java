package org.ep4j.micrometer;

import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Checks the keys of a user's tags. Prometheus knows letters, digits and underscores only. Keys
 * that are the same there, or reserved, would fail each scrape, with all other meters of the
 * program.
 */
final class TagKeys {
  /** Key of the rank, which all meters have. */
  static final String RANK = "rank";

  /** Labels that Prometheus adds to histograms and summaries. */
  private static final List<String> RESERVED = List.of("le", "quantile");

  private TagKeys() {}

  /** The tags; throws InvalidArgumentException if a key is not allowed. */
  static Tags checked(Iterable<? extends Tag> tags) {
    Set<String> taken = new TreeSet<>(RESERVED);
    taken.add(RANK);
    for (BufferMeter meter : BufferMeter.values()) {
      taken.addAll(meter.tags());
    }
    Tags all = Tags.empty();
    for (Tag tag : tags) {
      String key = tag.getKey();
      if (key.isEmpty() || !taken.add(inPrometheus(key))) {
        throw new InvalidArgumentException(
            ErrorCode.METRICS_SETTING,
            "tags",
            "'" + key + "'",
            "none of " + taken + ", written with letters, digits and underscores",
            "choose another key");
      }
      all = all.and(tag);
    }
    return all;
  }

  private static String inPrometheus(String key) {
    return key.replaceAll("[^a-zA-Z0-9]", "_").replaceFirst("^[0-9]", "_").replaceFirst("^_+", "_");
  }
}
