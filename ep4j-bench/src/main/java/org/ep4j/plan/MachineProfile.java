package org.ep4j.plan;

import java.util.Collections;
import java.util.EnumMap;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * What a planner knows about a machine: one value for each {@link ProfileConstant}, each with its
 * source. Immutable.
 */
public final class MachineProfile {
  /**
   * A constant with its origin.
   *
   * @param value in the unit of the constant
   * @param source a data sheet, a published row that calibrates it, or a measurement
   */
  public record Sourced(double value, String source) {}

  private final String name;
  private final Map<ProfileConstant, Sourced> constants;

  /**
   * Checks all constants.
   *
   * @param name of the machine
   * @param origin of the constants, for messages: a file
   * @throws InvalidArgumentException if a constant is missing, is out of range or has no source
   */
  public MachineProfile(String name, String origin, Map<ProfileConstant, Sourced> constants) {
    this.name = name;
    Map<ProfileConstant, Sourced> checked = new EnumMap<>(ProfileConstant.class);
    for (ProfileConstant constant : ProfileConstant.values()) {
      Sourced given = constants.get(constant);
      if (given == null) {
        throw bad(origin, constant, "missing", constant.limit(), "add it, with its source");
      }
      if (!constant.allows(given.value())) {
        throw bad(
            origin,
            constant,
            String.valueOf(given.value()),
            constant.limit(),
            "measure it, or look it up");
      }
      if (given.source().isBlank()) {
        throw bad(
            origin, constant, "without a source", "sourced", "say where the value comes from");
      }
      checked.put(constant, given);
    }
    this.constants = Collections.unmodifiableMap(checked);
  }

  private static InvalidArgumentException bad(
      String origin, ProfileConstant constant, String value, String limit, String remedy) {
    return new InvalidArgumentException(
        ErrorCode.PROFILE_INVALID, origin + ": " + constant.key(), value, limit, remedy);
  }

  /** Name of the machine. */
  public String name() {
    return name;
  }

  /** The value of a constant, in its unit. */
  public double value(ProfileConstant constant) {
    return sourced(constant).value();
  }

  /** Where the value of a constant comes from. */
  public String source(ProfileConstant constant) {
    return sourced(constant).source();
  }

  /** The value of a constant that counts something. */
  public int count(ProfileConstant constant) {
    return (int) value(constant);
  }

  /** The same machine with other values for some constants; origin: where they come from. */
  MachineProfile with(String origin, Map<ProfileConstant, Sourced> changed) {
    Map<ProfileConstant, Sourced> all = new EnumMap<>(constants);
    all.putAll(changed);
    return new MachineProfile(name, origin, all);
  }

  /** Rate of all ports of a rank, GB/s. */
  public double nicGbps() {
    return value(ProfileConstant.NIC_GBPS) * value(ProfileConstant.NIC_PORTS);
  }

  private Sourced sourced(ProfileConstant constant) {
    Sourced found = constants.get(constant);
    if (found == null) {
      throw new AssertionError("the constructor checks that " + constant + " exists");
    }
    return found;
  }
}
