package org.ep4j.cuda.backend;

import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import org.ep4j.config.BackendName;

/**
 * The backend of a buffer and the origin of the choice: the program's setting takes precedence over
 * the system property, and the property over the variables.
 *
 * @param name name of the backend
 * @param source the field, property or variable of the choice
 */
public record BackendChoice(String name, String source) {
  /** Variable of ep4j. */
  public static final String VARIABLE = "EP4J_BACKEND";

  /** Environment variable of DeepEP, also accepted. */
  public static final String FOREIGN_VARIABLE = "DEEP_EP_BACKEND";

  /** System property. */
  public static final String PROPERTY = "ep4j.backend";

  private static final String FIELD = "BufferConfig.backend";
  private static final String DEFAULT = "default";

  /** Meaning of {@code auto}: needs only the driver, and no other backend is faster. */
  private static final String BEST = BackendName.DIRECT;

  /** Another name for nccl, in {@link #FOREIGN_VARIABLE}. */
  private static final String FOREIGN_NCCL = "nccl_gin";

  /** The choice for a buffer on this machine. */
  public static BackendChoice of(String field) {
    return of(field, System.getProperties(), System.getenv());
  }

  /**
   * Same as {@link #of(String)} with other properties and variables.
   *
   * @param field {@link org.ep4j.config.BufferConfig#backend()}
   */
  public static BackendChoice of(
      String field, Properties properties, Map<String, String> environment) {
    String foreign = environment.getOrDefault(FOREIGN_VARIABLE, "");
    String[][] said = {
      {field, FIELD},
      {properties.getProperty(PROPERTY, ""), PROPERTY},
      {environment.getOrDefault(VARIABLE, ""), VARIABLE},
      {
        foreign.strip().equalsIgnoreCase(FOREIGN_NCCL) ? BackendName.NCCL : foreign,
        FOREIGN_VARIABLE
      },
    };
    for (String[] each : said) {
      String name = each[0].strip().toLowerCase(Locale.ROOT);
      if (!name.isEmpty() && !name.equals(BackendName.AUTO)) {
        return new BackendChoice(name, each[1]);
      }
    }
    return new BackendChoice(BEST, DEFAULT);
  }
}
