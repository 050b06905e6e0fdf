package org.ep4j.cli.top;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.group.rendezvous.JobObserver;
import org.ep4j.observe.Verdict;
import org.ep4j.observe.WorldObservation;

/** What {@code top} shows of one answer of a job. */
final class TopScreen {
  /** Ranks of a wait matrix that fits a terminal; of larger ones the largest waits are shown. */
  private static final int WIDEST = 10;

  private static final int LARGEST_WAITS = 10;
  private static final int BUSIEST = 4;

  private final JobObserver.Answer answer;
  private final List<WorldObservation> buffers = new ArrayList<>();

  TopScreen(JobObserver.Answer answer) {
    this.answer = answer;
    int count = answer.ofRank().values().stream().mapToInt(List::size).max().orElse(0);
    for (int buffer = 0; buffer < count; buffer++) {
      int number = buffer;
      List<byte[]> parts =
          answer.ofRank().values().stream()
              .filter(all -> all.size() > number && all.get(number).length > 0)
              .map(all -> all.get(number))
              .toList();
      if (!parts.isEmpty()) {
        buffers.add(WorldObservation.decode(parts));
      }
    }
  }

  String render(Style style) {
    StringBuilder out = new StringBuilder();
    out.append(style.bold("job " + answer.jobId()))
        .append("  ")
        .append(answer.size())
        .append(" ranks, ")
        .append(answer.asked())
        .append(" alive\n");
    String silent =
        IntStream.range(0, answer.size())
            .filter(rank -> !answer.ofRank().containsKey(rank))
            .mapToObj(Integer::toString)
            .collect(Collectors.joining(", "));
    if (!silent.isEmpty()) {
      out.append("no answer from ranks ").append(silent).append('\n');
    }
    if (buffers.isEmpty()) {
      out.append("no buffer is open\n");
    }
    for (int i = 0; i < buffers.size(); i++) {
      String title = buffers.size() == 1 ? "" : "buffer " + (i + 1) + " of " + buffers.size();
      buffer(buffers.get(i), title, style, out);
    }
    return out.toString();
  }

  private void buffer(WorldObservation seen, String title, Style style, StringBuilder out) {
    if (!title.isEmpty()) {
      out.append('\n').append(style.bold(title)).append('\n');
    }
    Verdict verdict = seen.verdict();
    if (seen.operations() > 0) {
      out.append(
          "%s operations a second, %s each; medians over windows of the last %d%n"
              .formatted(
                  Units.significant(1e9 / seen.periodNanos()),
                  Units.micros(seen.periodNanos() / 1e3),
                  seen.operations()));
    }
    out.append(style.bold("verdict")).append("  ").append(verdict).append('\n');
    timeouts(seen, style, out);
    out.append('\n');
    if (seen.operations() > 0) {
      waits(seen, style, out);
    }
    experts(seen, style, out);
  }

  private static void timeouts(WorldObservation seen, Style style, StringBuilder out) {
    List<Integer> late =
        seen.observed().stream().filter(rank -> seen.timeoutsOfRank(rank) > 0).toList();
    for (int rank : late.subList(0, Math.min(LARGEST_WAITS, late.size()))) {
      out.append(style.bold("timeouts"))
          .append(
              " rank %d: %d since the buffer was opened; the last one named rank %d%n"
                  .formatted(rank, seen.timeoutsOfRank(rank), seen.timeoutPeerOfRank(rank)));
    }
    if (late.size() > LARGEST_WAITS) {
      out.append("         %d more ranks%n".formatted(late.size() - LARGEST_WAITS));
    }
  }

  private static void waits(WorldObservation seen, Style style, StringBuilder out) {
    List<Integer> ranks = seen.observed();
    if (ranks.size() <= WIDEST) {
      List<String> heading = new ArrayList<>(List.of("us of an operation\nrank waits for"));
      ranks.forEach(rank -> heading.add(Integer.toString(rank)));
      Table table = new Table(heading.toArray(String[]::new));
      for (int waiter : ranks) {
        List<String> cells = new ArrayList<>(List.of(Integer.toString(waiter)));
        for (int peer : ranks) {
          cells.add(peer == waiter ? "-" : Units.fixed(seen.waitedNanos(waiter, peer) / 1e3, 1));
        }
        table.row(cells.toArray(String[]::new));
      }
      out.append(table.render(style)).append('\n');
      return;
    }
    record Wait(int waiter, int peer, double nanos) {}
    Table table = new Table("largest waits", "us of an operation");
    ranks.stream()
        .flatMap(i -> ranks.stream().map(j -> new Wait(i, j, seen.waitedNanos(i, j))))
        .sorted(Comparator.comparingDouble(Wait::nanos).reversed())
        .limit(LARGEST_WAITS)
        .forEach(
            wait ->
                table.row(
                    "rank " + wait.waiter + " waits for rank " + wait.peer,
                    Units.fixed(wait.nanos / 1e3, 1)));
    out.append(table.render(style)).append('\n');
  }

  private static void experts(WorldObservation seen, Style style, StringBuilder out) {
    Map<Integer, Long> tokens = seen.tokensOfExperts();
    long all = tokens.values().stream().mapToLong(Long::longValue).sum();
    if (all == 0) {
      return;
    }
    String busiest =
        tokens.entrySet().stream()
            .sorted(Map.Entry.<Integer, Long>comparingByValue().reversed())
            .limit(BUSIEST)
            .map(e -> "%d (%.1f %%)".formatted(e.getKey(), 100.0 * e.getValue() / all))
            .collect(Collectors.joining(", "));
    out.append(style.bold("experts"))
        .append("  %d tokens since the buffer was opened; busiest: %s%n".formatted(all, busiest))
        .append(
            "balancedness %.2f: tokens of a rank on average, divided by those of the busiest%n"
                .formatted(seen.balancedness()));
  }

  /** The same as a tree for JSON. */
  Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("version", 1);
    tree.put("job", answer.jobId());
    tree.put("ranks", answer.size());
    tree.put("alive", answer.asked());
    tree.put("answered", List.copyOf(answer.ofRank().keySet()));
    tree.put("buffers", buffers.stream().map(TopScreen::tree).toList());
    return tree;
  }

  private static Map<String, Object> tree(WorldObservation seen) {
    Map<String, Object> tree = new LinkedHashMap<>();
    Verdict verdict = seen.verdict();
    tree.put("operations", seen.operations());
    tree.put("period_us", seen.periodNanos() / 1e3);
    tree.put("verdict", verdict.cause().name().toLowerCase(Locale.ROOT));
    tree.put("verdict_rank", verdict.rank());
    tree.put("verdict_sender", verdict.sender());
    tree.put("verdict_text", verdict.toString());
    List<List<Double>> matrix = new ArrayList<>();
    for (int waiter = 0; waiter < seen.ranks(); waiter++) {
      List<Double> row = new ArrayList<>();
      for (int peer = 0; peer < seen.ranks(); peer++) {
        row.add(seen.waitedNanos(waiter, peer) / 1e3);
      }
      matrix.add(row);
    }
    tree.put("waits_us", matrix);
    Map<String, Object> timeouts = new LinkedHashMap<>();
    seen.observed()
        .forEach(rank -> timeouts.put(Integer.toString(rank), seen.timeoutsOfRank(rank)));
    tree.put("timeouts_of_ranks", timeouts);
    Map<String, Object> experts = new LinkedHashMap<>();
    seen.tokensOfExperts().forEach((expert, count) -> experts.put(expert.toString(), count));
    tree.put("tokens_of_experts", experts);
    tree.put("balancedness", seen.balancedness());
    return tree;
  }
}
