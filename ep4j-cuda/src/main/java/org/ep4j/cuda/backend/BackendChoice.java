package org.ep4j.cuda.backend;

import java.util.Locale;
import java.util.Map;
import java.util.Properties;

/**
 * Which backend a buffer takes, and where that was said: what a program sets wins over the system
 * property, that over the variables.
 *
 * @param name of the backend
 * @param source the field, property or variable that it came from
 */
public record BackendChoice(String name, String source) {
  /** The choice of those who make none. */
  public static final String AUTO = "auto";

  /** Variable of ep4j. */
  public static final String VARIABLE = "EP4J_BACKEND";

  /** Variable of programs that were written for DeepEP. */
  public static final String FOREIGN_VARIABLE = "DEEP_EP_BACKEND";

  /** System property. */
  public static final String PROPERTY = "ep4j.backend";

  private static final String FIELD = "BufferConfig.backend";
  private static final String DEFAULT = "default";

  /** What {@code auto} means: it needs nothing beside the driver, and is as fast as any. */
  private static final String BEST = "direct";

  /** Another name for the same, in {@link #FOREIGN_VARIABLE}. */
  private static final String FOREIGN_NCCL = "nccl_gin";

  /** The choice of a buffer on this machine. */
  public static BackendChoice of(String field) {
    return of(field, System.getProperties(), System.getenv());
  }

  /**
   * The same with other properties and variables.
   *
   * @param field {@link org.ep4j.BufferConfig#backend()}
   */
  public static BackendChoice of(
      String field, Properties properties, Map<String, String> environment) {
    String foreign = environment.getOrDefault(FOREIGN_VARIABLE, "");
    String[][] said = {
      {field, FIELD},
      {properties.getProperty(PROPERTY, ""), PROPERTY},
      {environment.getOrDefault(VARIABLE, ""), VARIABLE},
      {foreign.strip().equalsIgnoreCase(FOREIGN_NCCL) ? "nccl" : foreign, FOREIGN_VARIABLE},
    };
    for (String[] each : said) {
      String name = each[0].strip().toLowerCase(Locale.ROOT);
      if (!name.isEmpty() && !name.equals(AUTO)) {
        return new BackendChoice(name, each[1]);
      }
    }
    return new BackendChoice(BEST, DEFAULT);
  }
}
