package org.ep4j.cli.plan;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.ep4j.BufferSizes;
import org.ep4j.cli.Build;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.plan.DrawnRouting;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.PlacementGain;
import org.ep4j.plan.Plan;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.RecordedRouting;
import org.ep4j.plan.Term;
import org.ep4j.routing.ReplicatedPlacement;
import org.jspecify.annotations.Nullable;

/**
 * A plan as table and as JSON.
 *
 * @param profile of the machine
 * @param request what is planned
 * @param plan the predictions
 * @param memory of a buffer on each rank
 * @param gain what the placement changes; null for experts in blocks
 * @param simulated the simulation, if wanted
 */
record PlanReport(
    MachineProfile profile,
    PlanRequest request,
    Plan plan,
    BufferSizes memory,
    @Nullable PlacementGain gain,
    @Nullable SimulatedReport simulated) {
  /** The combine with the format of its rows. */
  static final String COMBINE = "combine BF16";

  /** The table, and notes on its units. */
  String text(Style style) {
    StringBuilder text = new StringBuilder();
    String title = "Plan for " + profile.name();
    String heading =
        title
            + "  %s, %d ranks, %d on a node, %d tokens, hidden %d, top-%d of %d, %s routing"
                .formatted(
                    request.kind().name().toLowerCase(Locale.ROOT),
                    request.ranks(),
                    request.ranksPerNode(),
                    request.tokens(),
                    request.hidden(),
                    request.topK(),
                    request.experts(),
                    routing());
    // Wrapping replaces blanks, so the title keeps its length.
    text.append(style.bold(title))
        .append(Wrapped.lines(heading, Table.WIDTH).substring(title.length()))
        .append("\n\n");
    text.append(table().render(style));
    text.append('\n')
        .append(
            "Times of kernels%s; a call takes %s more. Memory of a rank that peers reach: %s.%n"
                .formatted(
                    request.kind() == PlanKind.HT ? " with " + request.sms() + " SMs" : "",
                    Units.micros(plan.dispatch().callMicros() - plan.dispatch().micros()),
                    Units.bytes(memory.symmetricBytes())))
        .append(
            "The busiest rank receives %s of the mean.%n"
                .formatted(Units.fixed(100 * plan.imbalance(), 0) + " %"));
    if (gain != null) {
      text.append('\n').append(gainTable(gain).render(style)).append('\n');
    }
    if (simulated != null) {
      text.append('\n').append(simulated.text(style, plan)).append('\n');
    }
    text.append("Parts of a time overlap and do not add up. Errors to expect: docs/plan.md.\n");
    return text.toString();
  }

  /** The predicted times with their parts. */
  Table table() {
    List<String> columns = new ArrayList<>(List.of("", "time", "GB/s\n" + unit(), "limit"));
    for (Term term : Term.values()) {
      columns.add(term.label());
    }
    Table table = new Table(columns.toArray(String[]::new));
    row(table, dispatchLabel(), plan.dispatch());
    row(table, COMBINE, plan.combine());
    return table;
  }

  /** The dispatch with the format of its rows. */
  String dispatchLabel() {
    return "dispatch " + request.dtype();
  }

  /** What the placement changes against experts in blocks. */
  Table gainTable(PlacementGain found) {
    ReplicatedPlacement placed = request.placed();
    Table table = new Table("", "blocks", "placed", "gain");
    gainRow(table, "dispatch", found.blocks().dispatch(), found.placed().dispatch());
    gainRow(table, "combine", found.blocks().combine(), found.placed().combine());
    table.row(
        "mean / max load of a rank",
        Units.fixed(found.blocksBalance(), 3),
        Units.fixed(found.placedBalance(), 3),
        times(found.placedBalance() / found.blocksBalance()));
    table.row(
        "mean / max received rows",
        Units.fixed(1 / found.blocks().imbalance(), 3),
        Units.fixed(1 / found.placed().imbalance(), 3),
        times(found.blocks().imbalance() / found.placed().imbalance()));
    table.row(
        "most experts on a rank",
        String.valueOf((request.experts() + request.ranks() - 1) / request.ranks()),
        String.valueOf(placed.placement().maxLocalExperts()),
        "");
    return table;
  }

  private static void gainRow(Table table, String name, Prediction before, Prediction after) {
    table.row(
        name,
        Units.micros(before.micros()),
        Units.micros(after.micros()),
        times(before.micros() / after.micros()));
  }

  private static String times(double factor) {
    return Units.fixed(factor, 2) + " x";
  }

  /** What GB/s count, as published tables name it. */
  String unit() {
    if (request.kind() == PlanKind.LL) {
      return "per expert";
    }
    return request.nodes() > 1 ? "RDMA" : "NVLink";
  }

  /** The routing in a word. */
  String routing() {
    return switch (request.routing()) {
      case RecordedRouting recorded -> "recorded (" + recorded.tokens() + " tokens)";
      case DrawnRouting drawn when drawn.groups() > 0 -> "grouped:" + drawn.groups();
      case DrawnRouting drawn -> drawn.kind().name().toLowerCase(Locale.ROOT);
    };
  }

  private static void row(Table table, String name, Prediction prediction) {
    List<String> cells =
        new ArrayList<>(
            List.of(
                name,
                Units.micros(prediction.micros()),
                Units.significant(prediction.gbps()),
                prediction.limit().word()));
    for (Term term : Term.values()) {
      cells.add(cell(prediction, term));
    }
    table.row(cells.toArray(String[]::new));
  }

  private static String cell(Prediction prediction, Term term) {
    Double micros = prediction.terms().get(term);
    return micros == null || micros == 0 ? "-" : Units.micros(micros);
  }

  /** The fields of {@code --json}. */
  Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("ep4j", Build.version());
    tree.put("git", Build.revision());
    tree.put("machine", profile.name());
    tree.put("configuration", configuration());
    tree.put("dispatch_us", plan.dispatch().micros());
    tree.put("combine_us", plan.combine().micros());
    tree.put("dispatch_gbps", plan.dispatch().gbps());
    tree.put("combine_gbps", plan.combine().gbps());
    tree.put("dispatch_call_us", plan.dispatch().callMicros());
    tree.put("combine_call_us", plan.combine().callMicros());
    tree.put("limit", plan.dispatch().limit().word());
    tree.put("combine_limit", plan.combine().limit().word());
    tree.put("sms", request.sms());
    tree.put("bytes_symmetric", memory.symmetricBytes());
    tree.put("imbalance", plan.imbalance());
    tree.put("dispatch_terms", terms(plan.dispatch()));
    tree.put("combine_terms", terms(plan.combine()));
    if (gain != null) {
      tree.put("placement", placement(gain));
    }
    if (simulated != null) {
      tree.put("simulated", simulated.tree());
    }
    return tree;
  }

  private Map<String, Object> placement(PlacementGain found) {
    ReplicatedPlacement placed = request.placed();
    int physical = placed.placement().experts();
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("replicas", physical - placed.experts());
    fields.put("experts_per_rank", placed.placement().maxLocalExperts());
    fields.put("balancedness", found.placedBalance());
    fields.put("blocks_balancedness", found.blocksBalance());
    fields.put("blocks_dispatch_us", found.blocks().dispatch().micros());
    fields.put("blocks_combine_us", found.blocks().combine().micros());
    fields.put("blocks_imbalance", found.blocks().imbalance());
    return fields;
  }

  private Map<String, Object> configuration() {
    Map<String, Object> options = new LinkedHashMap<>();
    options.put("kind", request.kind().name().toLowerCase(Locale.ROOT));
    options.put("ranks", request.ranks());
    options.put("ranks_per_node", request.ranksPerNode());
    options.put("tokens", request.tokens());
    options.put("hidden", request.hidden());
    options.put("topk", request.topK());
    options.put("experts", request.experts());
    options.put("dtype", request.dtype().name().toLowerCase(Locale.ROOT));
    options.put("routing", routing());
    options.put("backend", request.backend());
    return options;
  }

  private static Map<String, Object> terms(Prediction prediction) {
    Map<String, Object> terms = new LinkedHashMap<>();
    prediction.terms().forEach((term, micros) -> terms.put(term.key(), micros));
    return terms;
  }
}
