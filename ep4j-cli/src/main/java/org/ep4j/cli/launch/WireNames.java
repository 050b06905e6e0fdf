package org.ep4j.cli.launch;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.config.WireName;
import org.ep4j.error.ErrorCode;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.Wires;
import picocli.CommandLine.Model.CommandSpec;

/** Checks the wire before ranks are started. */
public final class WireNames {
  private WireNames() {}

  /**
   * Refuses an unknown wire, and a wire whose library or device this host lacks. Without this check
   * each rank would refuse it after joining.
   *
   * @param joins whether this process is a rank that others wait for. Then a missing library is
   *     reported to all ranks when the wire is opened; an unknown name is wrong on all ranks and
   *     refused here
   */
  public static void check(CommandSpec spec, String wire, boolean joins) {
    List<String> known = new ArrayList<>(List.of(WireName.AUTO));
    for (WireProvider provider : Wires.providers()) {
      known.add(provider.name());
      String missing = provider.name().equals(wire) && !joins ? provider.unavailableHere() : "";
      if (!missing.isEmpty()) {
        throw new CommandFailure(
            ErrorCode.WIRE_NOT_HERE,
            ExitCodes.UNAVAILABLE,
            "wire '" + wire + "' cannot be used here: " + missing);
      }
    }
    CommandSpecs.check(
        spec,
        known.contains(wire),
        ErrorCode.UNKNOWN_WIRE,
        CommandSpecs.badValue("--wire", wire, "one of " + String.join(", ", known)));
  }
}
