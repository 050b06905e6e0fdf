package org.ep4j.cli.doctor;

/**
 * A finding about the machine.
 *
 * @param topic part of the machine
 * @param name name of the item
 * @param state state of the item
 * @param value observed value
 * @param meaning consequence, with the remedy if one exists; may be empty
 */
record Finding(String topic, String name, State state, String value, String meaning) {
  /** State of an item. */
  enum State {
    /** Present and correct. */
    FOUND,
    /** Missing; the meaning describes the consequence. */
    MISSING,
    /** Present, but something will be slow or fail. */
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
