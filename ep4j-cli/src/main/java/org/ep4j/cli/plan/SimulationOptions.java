package org.ep4j.cli.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.error.ErrorCode;
import org.ep4j.plan.simulation.Perturbations;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options for a simulation, and for what is slow in it. */
final class SimulationOptions {
  private static final Pattern OF_RANK = Pattern.compile("(\\d{1,9}):(\\d{1,9}(?:\\.\\d{1,9})?)");

  @Option(
      names = "--simulate",
      description =
          "Also simulate chunks on their route over SMs, NVLink, NICs, memory and rings, and print"
              + " which resource of which rank is busiest.")
  private boolean simulate;

  @Option(
      names = "--late",
      paramLabel = "RANK:MICROS",
      description = "The kernels of a rank start later. Repeatable; needs --simulate.")
  private List<String> late = new ArrayList<>();

  @Option(
      names = "--slow-rank",
      paramLabel = "RANK:FACTOR",
      description =
          "The kernels of a rank take FACTOR times as long for their start and for each row, 1 or"
              + " more. Repeatable; needs --simulate.")
  private List<String> slowRank = new ArrayList<>();

  @Option(
      names = "--slow-nic",
      paramLabel = "RANK:SHARE",
      description =
          "The NIC of a rank has this share of its rate left, up to 1. Repeatable; needs"
              + " --simulate.")
  private List<String> slowNic = new ArrayList<>();

  @Option(
      names = "--lost-port",
      paramLabel = "RANK",
      description = "The NIC of a rank has a port less. Repeatable; needs --simulate.")
  private List<Integer> lostPort = new ArrayList<>();

  SimulationOptions() {}

  boolean isSimulate() {
    return simulate;
  }

  /** What is slow; refuses values that are no numbers, and options without {@code --simulate}. */
  Perturbations perturbations(CommandSpec spec) {
    Map<String, List<?>> given = new TreeMap<>();
    given.put("--late", late);
    given.put("--slow-rank", slowRank);
    given.put("--slow-nic", slowNic);
    given.put("--lost-port", lostPort);
    given.forEach(
        (option, values) ->
            CommandSpecs.check(
                spec,
                simulate || values.isEmpty(),
                ErrorCode.CONFLICTING_OPTIONS,
                option + " needs --simulate: add it"));
    Map<Integer, Integer> ports = new TreeMap<>();
    lostPort.forEach(rank -> ports.merge(rank, 1, Integer::sum));
    return new Perturbations(
        ofRanks(spec, "--late", late, "RANK:MICROS, for example 3:20"),
        ofRanks(spec, "--slow-rank", slowRank, "RANK:FACTOR, for example 3:1.5"),
        ofRanks(spec, "--slow-nic", slowNic, "RANK:SHARE, for example 3:0.5"),
        ports);
  }

  private static Map<Integer, Double> ofRanks(
      CommandSpec spec, String option, List<String> values, String form) {
    Map<Integer, Double> ofRanks = new TreeMap<>();
    for (String value : values) {
      Matcher matcher = OF_RANK.matcher(value);
      CommandSpecs.checkValue(spec, matcher.matches(), option, value, form);
      int rank = Integer.parseInt(matcher.group(1));
      Double before = ofRanks.put(rank, Double.parseDouble(matcher.group(2)));
      CommandSpecs.checkValue(spec, before == null, option, value, "given once for each rank");
    }
    return ofRanks;
  }
}
