package org.ep4j.cli.launch;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.Wires;
import picocli.CommandLine.Model.CommandSpec;

/** Refuses wires that this host does not have before ranks are started. */
public final class WireNames {
  private WireNames() {}

  /**
   * Refuses a name that no wire has, and a wire whose library or device is not here: each rank
   * would, after it has joined.
   *
   * @param joins whether this process is a rank that others wait for: what its host lacks it tells
   *     them when the wire is opened; the name is as wrong on all of them
   */
  public static void check(CommandSpec spec, String wire, boolean joins) {
    List<String> known = new ArrayList<>(List.of("auto"));
    for (WireProvider provider : Wires.providers()) {
      known.add(provider.name());
      String missing = provider.name().equals(wire) && !joins ? provider.unavailableHere() : "";
      if (!missing.isEmpty()) {
        throw new CommandFailure(
            ExitCodes.UNAVAILABLE, "wire '" + wire + "' cannot be used here: " + missing);
      }
    }
    CommandSpecs.check(
        spec,
        known.contains(wire),
        "--wire is " + wire + "; it must be one of " + String.join(", ", known));
  }
}
