package org.ep4j.conformance.wire;

/**
 * A property of wires: all ranks run it together; it throws on the rank that detects a violation.
 */
@FunctionalInterface
interface WireCheck {
  void run(WireContext context) throws Exception;
}
