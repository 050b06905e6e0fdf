package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.util.TreeMap;
import org.ep4j.error.ErrorCode;
import org.ep4j.rdma.ucx.bindings.UcpSetUp;
import org.ep4j.rdma.ucx.bindings.UcpStatus;
import org.ep4j.rdma.ucx.bindings.UcxEnvironment;
import org.ep4j.wire.WireException;

/**
 * Settings of UCX for the wires of this JVM: a system property {@code ep4j.ucx.NAME} overrides the
 * variable {@code UCX_NAME}, for settings of the whole library (not of one transport).
 */
final class UcxSettings {
  private static final String PROPERTY = "ep4j.ucx.";

  private UcxSettings() {}

  /** Prepares the environment before UCX reads the variables. */
  static void prepare() {
    UcxEnvironment.prepareFor(System.getProperty(PROPERTY + "TLS", System.getenv("UCX_TLS")));
  }

  /** Applies the properties to a configuration. */
  static void apply(long config) {
    TreeMap<String, String> settings = new TreeMap<>();
    System.getProperties()
        .forEach(
            (name, value) -> {
              if (name.toString().startsWith(PROPERTY)) {
                settings.put(name.toString().substring(PROPERTY.length()), value.toString());
              }
            });
    settings.forEach((name, value) -> set(config, name, value));
  }

  private static void set(long config, String name, String value) {
    try (Arena arena = Arena.ofConfined()) {
      byte status =
          UcpSetUp.modifyConfig(
              config, arena.allocateFrom(name).address(), arena.allocateFrom(value).address());
      if (status < 0) {
        throw new WireException(
            ErrorCode.UCX_SETTING_REFUSED,
            "UCX refuses %s = %s (%s): correct the system property"
                .formatted(name, value, UcpStatus.text(status)));
      }
    }
  }
}
