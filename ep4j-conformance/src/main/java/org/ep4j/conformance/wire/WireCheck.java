package org.ep4j.conformance.wire;

/** A property of wires: run by all ranks together, throws on the rank that sees it broken. */
@FunctionalInterface
interface WireCheck {
  void run(WireContext context) throws Exception;
}
