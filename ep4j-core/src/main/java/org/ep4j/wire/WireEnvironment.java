package org.ep4j.wire;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Wire settings of the environment, for programs that leave them open. A value that the program
 * sets in {@link WireConfig.Builder} wins. The ranks must agree, see {@link Wires#open}.
 *
 * <p>The numbers of progress contexts and counters are not among the variables: the program
 * determines them.
 */
public final class WireEnvironment {
  /** Kind of wire. */
  public static final String WIRE = "EP4J_WIRE";

  /** Lanes to each peer; 0 = the wire chooses. */
  public static final String LANES = "EP4J_WIRE_LANES";

  /** Connections to each peer. */
  public static final String CONNECTIONS = "EP4J_WIRE_CONNECTIONS";

  /** Bytes that may be in flight from a progress context to one peer. */
  public static final String BYTES_IN_FLIGHT = "EP4J_WIRE_BYTES_IN_FLIGHT";

  /** Pieces of work that may be in flight from a progress context to one peer. */
  public static final String OPERATIONS_IN_FLIGHT = "EP4J_WIRE_OPERATIONS_IN_FLIGHT";

  /** Whether a wire that leaves the host encrypts. */
  public static final String ENCRYPTED = "EP4J_WIRE_ENCRYPTED";

  /** Maximum time for opening, in milliseconds. */
  public static final String TIMEOUT = "EP4J_WIRE_TIMEOUT_MS";

  /**
   * An effective setting.
   *
   * @param variable name of the variable
   * @param value the effective value
   * @param given whether the variable is set
   */
  public record Setting(String variable, String value, boolean given) {}

  private final Map<String, String> variables;
  private final List<Setting> settings = new ArrayList<>();
  private final String wire;
  private final int lanes;
  private final int connections;
  private final long bytesInFlight;
  private final int operationsInFlight;
  private final boolean encrypted;
  private final Duration timeout;

  private WireEnvironment(Map<String, String> variables) {
    this.variables = variables;
    wire = text(WIRE, WireName.AUTO);
    lanes = (int) number(LANES, 0, 0, WireOptions.MAX_LANES);
    connections = (int) number(CONNECTIONS, 0, 0, WireConfig.MAX_CONNECTIONS);
    bytesInFlight = number(BYTES_IN_FLIGHT, 64L << 20, 1, Long.MAX_VALUE);
    operationsInFlight = (int) number(OPERATIONS_IN_FLIGHT, 1024, 1, WireConfig.MAX_OPERATIONS);
    encrypted = flag(ENCRYPTED);
    timeout = Duration.ofMillis(number(TIMEOUT, 60_000, 1, Integer.MAX_VALUE));
  }

  /**
   * Reads variables.
   *
   * @throws InvalidArgumentException if a variable has an invalid value; names the variable and the
   *     remedy
   */
  public static WireEnvironment of(Map<String, String> variables) {
    return new WireEnvironment(variables);
  }

  /** Every setting, with its value. */
  public List<Setting> settings() {
    return List.copyOf(settings);
  }

  String wire() {
    return wire;
  }

  /** Lanes to each peer; empty if the wire chooses. */
  public OptionalInt lanes() {
    return lanes == 0 ? OptionalInt.empty() : OptionalInt.of(lanes);
  }

  /**
   * Options with the lanes of the environment, for a program with this number of progress contexts,
   * each of which needs a lane.
   */
  WireOptions options(WireOptions given, int progressContexts) {
    if (lanes == 0) {
      return given;
    }
    if (lanes < progressContexts) {
      throw refused(
          LANES,
          String.valueOf(lanes),
          "at least the program's progress contexts (" + progressContexts + ")");
    }
    return given.toBuilder().lanes(lanes).build();
  }

  /** Connections for a program with this number of progress contexts. */
  int connections(int progressContexts) {
    // WireConfig refuses a number of contexts that is out of range.
    if (progressContexts > 0 && connections % progressContexts != 0) {
      throw refused(
          CONNECTIONS,
          String.valueOf(connections),
          "a multiple of the program's progress contexts (" + progressContexts + ")");
    }
    return connections;
  }

  long bytesInFlight() {
    return bytesInFlight;
  }

  int operationsInFlight() {
    return operationsInFlight;
  }

  boolean encrypted() {
    return encrypted;
  }

  Duration timeout() {
    return timeout;
  }

  private @Nullable String lookup(String variable) {
    String value = variables.get(variable);
    return value == null || value.isBlank() ? null : value.strip();
  }

  private String text(String variable, String otherwise) {
    String given = lookup(variable);
    String value = given == null ? otherwise : given;
    settings.add(new Setting(variable, value, given != null));
    return value;
  }

  private long number(String variable, long otherwise, long least, long max) {
    String value = text(variable, String.valueOf(otherwise));
    try {
      long number = Long.parseLong(value);
      if (number >= least && number <= max) {
        return number;
      }
    } catch (NumberFormatException e) {
      // Reported below.
    }
    throw refused(variable, value, "an integer from " + least + " to " + max);
  }

  private boolean flag(String variable) {
    String value = text(variable, "false");
    return switch (value) {
      case "true", "1" -> true;
      case "false", "0" -> false;
      default -> throw refused(variable, value, "true or false");
    };
  }

  private static InvalidArgumentException refused(String variable, String value, String wanted) {
    return new InvalidArgumentException(
        ErrorCode.WIRE_VARIABLE, variable, value, wanted, "correct the variable or unset it");
  }
}
