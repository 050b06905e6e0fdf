package org.ep4j.cli.plan;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.ep4j.BufferSizes;
import org.ep4j.cli.Build;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.Plan;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.Term;

/**
 * A plan as table and as JSON.
 *
 * @param profile of the machine
 * @param request what is planned
 * @param plan the predictions
 * @param memory of a buffer on each rank
 */
record PlanReport(MachineProfile profile, PlanRequest request, Plan plan, BufferSizes memory) {
  /** The table, and notes on its units. */
  String text(Style style) {
    StringBuilder text = new StringBuilder();
    text.append(style.bold("Plan for " + profile.name()))
        .append(
            "  %s, %d ranks, %d on a node, %d tokens, hidden %d, top-%d of %d, %s routing%n"
                .formatted(
                    request.kind().name().toLowerCase(Locale.ROOT),
                    request.ranks(),
                    request.ranksPerNode(),
                    request.tokens(),
                    request.hidden(),
                    request.topK(),
                    request.experts(),
                    routing()))
        .append('\n');
    Table table =
        new Table(
            "",
            "time",
            "GB/s\n" + unit(),
            "limit",
            "NVLink",
            "NIC",
            "SMs",
            "memory",
            "fill",
            "fixed",
            "incast");
    row(table, "dispatch " + request.dtype(), plan.dispatch());
    row(table, "combine BF16", plan.combine());
    text.append(table.render(style));
    text.append('\n')
        .append(
            "Times of kernels%s; a call takes %s more. Memory of a rank that peers reach: %s.%n"
                .formatted(
                    request.kind() == PlanKind.HT ? " with " + request.sms() + " SMs" : "",
                    Units.micros(plan.dispatch().callMicros() - plan.dispatch().micros()),
                    Units.bytes(memory.symmetricBytes())))
        .append(
            "The busiest rank receives %s of the mean.%n"
                .formatted(Units.fixed(100 * plan.imbalance(), 0) + " %"))
        .append("Parts of a time overlap and do not add up. Errors to expect: docs/plan.md.\n");
    return text.toString();
  }

  private String unit() {
    if (request.kind() == PlanKind.LL) {
      return "per expert";
    }
    return request.nodes() > 1 ? "RDMA" : "NVLink";
  }

  private String routing() {
    String kind = request.routing().kind().name().toLowerCase(Locale.ROOT);
    return request.routing().groups() == 0 ? kind : "grouped:" + request.routing().groups();
  }

  private static void row(Table table, String name, Prediction prediction) {
    table.row(
        name,
        Units.micros(prediction.micros()),
        Units.significant(prediction.gbps()),
        prediction.limit().word(),
        cell(prediction, Term.NVLINK),
        cell(prediction, Term.NIC),
        cell(prediction, Term.SM),
        cell(prediction, Term.MEMORY),
        cell(prediction, Term.FILL),
        cell(prediction, Term.FIXED),
        cell(prediction, Term.INCAST));
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
    return tree;
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
