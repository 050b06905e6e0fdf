package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.bench.NodeChoice;
import org.ep4j.cli.text.Json;

/**
 * A trace as JSON in the format that Perfetto and Chrome read: a process is a node, a thread is a
 * rank. The timed iterations of an operation are a slice, and each operation in them is one inside
 * it.
 *
 * @param parts the recorded operations, by rank
 * @param nodes the nodes of the ranks
 */
record TraceText(List<List<TracedPart>> parts, NodeChoice nodes) {
  private static final String CLOCK =
      "Each rank has the time of its own host; between hosts, times differ as their clocks do.";

  /**
   * The text.
   *
   * @param tree the results of the same run
   */
  String of(Map<String, Object> tree) {
    List<String> lines = new ArrayList<>();
    for (Map<String, Object> event : events()) {
      lines.add(Json.line(event));
    }
    return "{\"displayTimeUnit\" : \"ms\",\n\"otherData\" : "
        + Json.line(facts(tree))
        + ",\n\"traceEvents\" : [\n"
        + String.join(",\n", lines)
        + "\n]}\n";
  }

  private Map<String, Object> facts(Map<String, Object> tree) {
    Map<String, Object> facts = new LinkedHashMap<>();
    for (String name : List.of("ep4j", "git", "time", "configuration")) {
      facts.put(name, tree.getOrDefault(name, ""));
    }
    long kept = 0;
    long leftOut = 0;
    for (List<TracedPart> ofRank : parts) {
      for (TracedPart part : ofRank) {
        kept += part.operations().size();
        leftOut += part.leftOut();
      }
    }
    facts.put("operations", kept);
    facts.put("operations_left_out", leftOut);
    facts.put("waits_of_an_operation_at_most", TraceRecorder.MAX_WAITS);
    facts.put("clock", CLOCK);
    return facts;
  }

  private List<Map<String, Object>> events() {
    long first = Long.MAX_VALUE;
    for (List<TracedPart> ofRank : parts) {
      for (TracedPart part : ofRank) {
        first = Math.min(first, part.start());
      }
    }
    List<Map<String, Object>> events = new ArrayList<>();
    for (int rank = 0; rank < parts.size(); rank++) {
      if (rank == 0 || nodes.of(rank) != nodes.of(rank - 1)) {
        events.add(name(rank, "process_name", "node " + nodes.of(rank)));
      }
      events.add(name(rank, "thread_name", "rank " + rank));
      for (TracedPart part : parts.get(rank)) {
        events.add(
            slice(
                rank,
                part.name(),
                "timed iterations",
                part.start() - first,
                part.nanos(),
                Map.of("iterations", part.iterations())));
        for (TracedPart.Operation operation : part.operations()) {
          events.add(
              slice(
                  rank,
                  operation.kind(),
                  "operation",
                  operation.start() - first,
                  operation.nanos(),
                  arguments(operation)));
        }
      }
    }
    return events;
  }

  private Map<String, Object> event(int rank, String kind, String name) {
    Map<String, Object> event = new LinkedHashMap<>();
    event.put("ph", kind);
    event.put("name", name);
    event.put("pid", nodes.of(rank));
    event.put("tid", rank);
    return event;
  }

  private Map<String, Object> name(int rank, String kind, String text) {
    Map<String, Object> event = event(rank, "M", kind);
    event.put("args", Map.of("name", text));
    return event;
  }

  private Map<String, Object> slice(
      int rank,
      String name,
      String category,
      long start,
      long nanos,
      Map<String, Object> arguments) {
    Map<String, Object> event = event(rank, "X", name);
    event.put("cat", category);
    event.put("ts", micros(start));
    event.put("dur", micros(nanos));
    event.put("args", arguments);
    return event;
  }

  private static Map<String, Object> arguments(TracedPart.Operation operation) {
    Map<String, Object> arguments = new LinkedHashMap<>();
    arguments.put("epoch", operation.number());
    arguments.put("rows", operation.rows());
    arguments.put("bytes", operation.bytes());
    arguments.put("waited_us", micros(operation.waited()));
    Map<String, Object> waits = new LinkedHashMap<>();
    for (TracedPart.Wait wait : operation.waits()) {
      waits.put("rank " + wait.peer(), micros(wait.nanos()));
    }
    arguments.put("waits_us", waits);
    return arguments;
  }

  private static double micros(long nanos) {
    return nanos / 1e3;
  }
}
