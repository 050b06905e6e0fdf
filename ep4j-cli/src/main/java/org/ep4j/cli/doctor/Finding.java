package org.ep4j.cli.doctor;

/**
 * One thing that was looked for.
 *
 * @param topic the part of the machine it belongs to
 * @param name what was looked for
 * @param state how that went
 * @param value what was seen
 * @param meaning what follows from it, with the remedy if there is one; may be empty
 */
record Finding(String topic, String name, State state, String value, String meaning) {
  /** How it went. */
  enum State {
    /** There, and as it should be. */
    FOUND,
    /** Not there; the meaning says whether that matters. */
    MISSING,
    /** There, but something will be slow or will fail. */
    WARNING
  }

  static Finding found(String topic, String name, String value, String meaning) {
    return new Finding(topic, name, State.FOUND, value, meaning);
  }

  static Finding missing(String topic, String name, String value, String meaning) {
    return new Finding(topic, name, State.MISSING, value, meaning);
  }

  static Finding warning(String topic, String name, String value, String meaning) {
    return new Finding(topic, name, State.WARNING, value, meaning);
  }
}
