package org.ep4j.cli.plan;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.ep4j.bench.Timings;
import org.ep4j.cli.report.Measured;
import org.ep4j.cli.report.RunArtifact;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.config.BackendName;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.plan.DrawnRouting;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.PlanDType;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.plan.ProfileFit;
import org.ep4j.verify.RoutingKind;

/**
 * Artifacts of {@code bench ht --json} as rows to fit a profile to: kernels of GPUs of one node,
 * FLAT, each with counts and a routing of its own.
 *
 * @param files the artifacts
 * @param rows their operations
 * @param when time of the last run
 */
record MeasuredRuns(List<Path> files, List<ProfileFit.Row> rows, String when) {
  /** What a run must have for its rows to be those of a plan. */
  private static final Map<String, String> OPTIONS =
      Map.of(
          "kind", "ht",
          "layout", "flat",
          "mode", "exact",
          "topk_groups", "0",
          "beside_nccl", "no");

  private static final String DISPATCH = "dispatch";
  private static final String COMBINE = "combine";

  static MeasuredRuns read(List<Path> files) {
    List<ProfileFit.Row> rows = new ArrayList<>();
    String when = "";
    for (Path file : files) {
      RunArtifact run = RunArtifact.read(file);
      int before = rows.size();
      addRows(file, run, rows);
      if (rows.size() == before) {
        throw refused(
            file, "no dispatch or combine with times of kernels and SMs", "some, measured on GPUs");
      }
      when = run.time().compareTo(when) > 0 ? run.time() : when;
    }
    return new MeasuredRuns(files, rows, when);
  }

  private static void addRows(Path file, RunArtifact run, List<ProfileFit.Row> rows) {
    OPTIONS.forEach(
        (name, wanted) -> {
          String found = run.option(name);
          if (!found.isEmpty() && !found.equals(wanted)) {
            throw refused(file, name + " " + found, name + " " + wanted);
          }
        });
    int ranks = number(file, run, "ranks");
    int ofNode = number(file, run, "ranks_per_node");
    boolean figures = run.results().stream().anyMatch(one -> !Double.isNaN(one.betweenNodes()));
    if (figures || (ofNode != 0 && ofNode != ranks)) {
      throw refused(file, "several nodes", "ranks of one node, whose NICs carry nothing");
    }
    String dtype = "";
    for (Measured result : run.results()) {
      boolean combine = result.operation().equals(COMBINE);
      if (result.operation().equals(DISPATCH)) {
        dtype = result.dtype();
      }
      if ((combine || result.operation().equals(DISPATCH))
          && result.kernel() > 0
          && result.sms() > 0
          && isPlanned(dtype)) {
        rows.add(
            new ProfileFit.Row(
                request(file, run, ranks, dtype, result),
                combine,
                result.kernel(),
                result.median()));
      }
    }
  }

  private static boolean isPlanned(String dtype) {
    return dtype.equals("bf16") || dtype.equals("fp8");
  }

  private static PlanRequest request(
      Path file, RunArtifact run, int ranks, String dtype, Measured result) {
    return new PlanRequest(
        PlanKind.HT,
        ranks,
        ranks,
        Double.isNaN(result.tokens()) ? number(file, run, "tokens") : (int) result.tokens(),
        number(file, run, "hidden"),
        number(file, run, "topk"),
        number(file, run, "experts"),
        dtype.equals("fp8") ? PlanDType.FP8 : PlanDType.BF16,
        new DrawnRouting(routing(file, run), 0),
        (int) result.sms(),
        BackendName.DIRECT,
        null);
  }

  private static RoutingKind routing(Path file, RunArtifact run) {
    String word = run.option("routing");
    for (RoutingKind kind : RoutingKind.values()) {
      if (kind.name().toLowerCase(Locale.ROOT).equals(word)) {
        return kind;
      }
    }
    throw refused(file, "routing " + word, "uniform, zipf or hot");
  }

  private static int number(Path file, RunArtifact run, String option) {
    String text = run.option(option);
    try {
      return Integer.parseInt(text);
    } catch (NumberFormatException e) {
      throw refused(file, option + " '" + text + "'", "one number");
    }
  }

  private static InvalidArgumentException refused(Path file, String found, String limit) {
    return new InvalidArgumentException(
        ErrorCode.PLAN_MEASUREMENTS,
        file.toString(),
        found,
        limit,
        "name artifacts of './ep4j bench ht --sms 8,16,24,32,64 --json FILE' on GPUs of one node");
  }

  /** The profile whose predictions are closest to the rows. */
  MachineProfile fit(MachineProfile base) {
    check(base);
    return ProfileFit.of(
        base,
        rows,
        "fitted to %d kernels measured by ep4j until %s: %s".formatted(rows.size(), when, names()));
  }

  String names() {
    return files.stream().map(Path::toString).collect(Collectors.joining(", "));
  }

  private void check(MachineProfile base) {
    int sms = rows.stream().mapToInt(row -> row.request().sms()).max().orElse(0);
    int greatest = base.count(ProfileConstant.SMS);
    if (sms > greatest) {
      throw new InvalidArgumentException(
          ErrorCode.PLAN_MEASUREMENTS,
          "measured runs",
          "kernels with " + sms + " SMs",
          greatest + " at most, as a GPU of " + base.name() + " has",
          "name the machine that was measured with --machine");
    }
  }

  /** How far the predictions of a profile are from the rows. */
  String errors(MachineProfile profile, Style style) {
    check(profile);
    List<ProfileFit.Fitted> fitted = ProfileFit.predict(profile, rows);
    Table table = new Table("", "tokens", "hidden", "SMs", "measured", "predicted", "error");
    for (ProfileFit.Fitted one : fitted) {
      PlanRequest request = one.row().request();
      table.row(
          one.row().combine() ? "combine BF16" : "dispatch " + request.dtype(),
          String.valueOf(request.tokens()),
          String.valueOf(request.hidden()),
          String.valueOf(request.sms()),
          Units.micros(one.row().micros()),
          Units.micros(one.micros()),
          percent(one.error()));
    }
    Timings errors =
        new Timings(fitted.stream().mapToDouble(one -> Math.abs(one.error())).toArray());
    return table.render(style)
        + "\nErrors: median %s, worst %s.%n"
            .formatted(percent(errors.median()), percent(errors.max()));
  }

  private static String percent(double share) {
    return Units.fixed(100 * share, 1) + " %";
  }
}
