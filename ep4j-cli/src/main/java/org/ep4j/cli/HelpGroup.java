package org.ep4j.cli;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The heading in {@code --help} of an option, or of all options of a class. */
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.TYPE})
public @interface HelpGroup {
  /** Ranks, nodes, engine. */
  String RANKS = "Ranks and engine";

  /** Rows, routing, formats. */
  String LOAD = "What is measured";

  /** Variants of low latency. */
  String LOW_LATENCY = "Low latency";

  /** Repetitions and results. */
  String TIMING = "Timing and results";

  /** The heading, without a colon. */
  String value();
}
