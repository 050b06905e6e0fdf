package org.ep4j.cli.bench;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;
import org.ep4j.observe.RankEvent;

/** The timed iterations of one operation of a bench: operations of its time belong to it. */
@Name("org.ep4j.bench.Measured")
@Label("Timed iterations")
@Description("The iterations that bench times, without warm-up")
final class MeasuredEvent extends RankEvent {
  /** What they time. */
  @Label("Part")
  String part = "";

  /** Their number. */
  @Label("Iterations")
  int iterations;

  MeasuredEvent() {}
}
