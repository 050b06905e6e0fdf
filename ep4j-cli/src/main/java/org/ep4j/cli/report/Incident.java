package org.ep4j.cli.report;

import java.time.Instant;
import jdk.jfr.consumer.RecordedEvent;
import org.ep4j.cli.text.Units;
import org.jspecify.annotations.Nullable;

/**
 * An event of a recording that is no operation.
 *
 * @param kind its name without {@code org.ep4j.}
 * @param start microseconds since 1970
 * @param rank the rank that recorded it; -1 for an event of a process
 * @param text what happened
 */
record Incident(String kind, double start, int rank, String text) {
  private static final int NO_RANK = -1;

  /** The incident in an event of ep4j; null if the event is of an unknown kind. */
  static @Nullable Incident of(RecordedEvent event) {
    String kind = event.getEventType().getName().substring("org.ep4j.".length());
    String text =
        switch (kind) {
          case "Timeout" ->
              "%s %d waited %s in phase '%s': rank %d %s"
                  .formatted(
                      event.getString("operation"),
                      event.getLong("number"),
                      time(event.getDuration("waited").toNanos()),
                      event.getString("phase"),
                      event.getInt("peer"),
                      event.getString("peerState"));
          case "Abort" ->
              (event.getBoolean("received")
                      ? "notice of rank %d: ".formatted(event.getInt("from"))
                      : "has aborted: ")
                  + "rank %d %s".formatted(event.getInt("failedRank"), event.getString("state"));
          case "Mask" ->
              (event.getBoolean("masked") ? "masks rank %d: %s" : "counts rank %d again: %s")
                  .formatted(event.getInt("peer"), event.getString("reason"));
          case "Reset", "Readmit" -> recovery(event);
          case "LaneLoss" ->
              "lane %d of wire %s to rank %d: %s"
                  .formatted(
                      event.getInt("lane"),
                      event.getString("wire"),
                      event.getInt("peer"),
                      event.getString("reason"));
          case "PathLoss" ->
              "port %s to rank %d: %s; %d lanes continue over port %s"
                  .formatted(
                      event.getString("port"),
                      event.getInt("peer"),
                      event.getString("reason"),
                      event.getInt("lanes"),
                      event.getString("continuesOver"));
          case "Open" ->
              "%s engine, %d ranks, hidden %d, %s that peers reach and %s private, in %s"
                  .formatted(
                      event.getString("engine"),
                      event.getInt("ranks"),
                      event.getInt("hidden"),
                      Units.bytes(event.getLong("symmetricBytes")),
                      Units.bytes(event.getLong("privateBytes")),
                      time(event.getDuration().toNanos()));
          case "Compile" ->
              "%s for %s, %s, in %s"
                  .formatted(
                      event.getString("kernel"),
                      event.getString("architecture"),
                      event.getBoolean("cached") ? "from a cache" : "compiled",
                      time(event.getDuration().toNanos()));
          default -> "";
        };
    return text.isEmpty()
        ? null
        : new Incident(
            kind,
            micros(event.getStartTime()),
            event.hasField("rank") ? event.getInt("rank") : NO_RANK,
            Fields.printable(text));
  }

  private static String recovery(RecordedEvent event) {
    String failure = String.valueOf(event.getString("failure"));
    String excluded = String.valueOf(event.getString("excluded"));
    return (failure.isEmpty()
            ? "continues behind operation " + event.getLong("number")
            : "failed: " + failure)
        + (excluded.isEmpty() ? "" : ", without ranks " + excluded)
        + ", in "
        + time(event.getDuration().toNanos());
  }

  private static String time(long nanos) {
    return Units.micros(nanos / 1e3);
  }

  /** Microseconds since 1970. */
  static double micros(Instant time) {
    return time.getEpochSecond() * 1e6 + time.getNano() / 1e3;
  }

  /** The rank in a table. */
  String rankText() {
    return rank == NO_RANK ? "–" : String.valueOf(rank);
  }
}
