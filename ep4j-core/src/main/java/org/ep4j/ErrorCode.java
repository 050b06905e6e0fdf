package org.ep4j;

import java.util.Locale;
import java.util.Optional;

/**
 * The stable code of an error: what is wrong and what to do, apart from the words of one message. Each
 * message of ep4j begins with it ({@code EP4J-1001: …}), logs and tests match it, and {@code
 * docs/errors.md} and {@code ep4j errors} list it. A code is never given another meaning; a new
 * error gets a new code.
 */
public enum ErrorCode {
  // 1000 to 1999: arguments and configuration, refused before anything is sent.

  /** An argument has a value that is not allowed. */
  INVALID_ARGUMENT(
      1000,
      "An argument or a setting has a value that is not allowed.",
      "The message names the argument, its value, what is allowed, and the remedy."),

  // 2000 to 2999: calls that the state of a buffer, handle, hook or group does not allow.

  /** A call comes at the wrong time. */
  ILLEGAL_STATE(
      2000,
      "The state of the object does not allow this call.",
      "The message names the state and the call that leads out of it."),

  // 3000 to 3999: groups: joining, membership, collectives.

  /** A group has failed in a way that has no code of its own. */
  GROUP_FAILED(
      3000,
      "Ranks could not agree on something.",
      "The message names the ranks and the cause."),

  // 4000 to 4999: peers that are late or dead, and what a rank of the world reports.

  /** A peer was late or died. */
  PEER_TIMEOUT(
      4000,
      "A peer did not do its part of an operation before the deadline, or died.",
      "The message names the rank. Find out what it does, then call reset() on all live ranks."),

  // 5000 to 5999: wires between nodes.

  /** A wire has failed in a way that has no code of its own. */
  WIRE_FAILED(
      5000,
      "A wire cannot be opened, or cannot do what it was asked for.",
      "The message names the wire and the cause."),

  // 6000 to 6999: engines, backends, devices, compilers and native libraries.

  /** An engine cannot run here. */
  ENGINE_UNAVAILABLE(
      6000,
      "No engine, backend or device of the kind that was asked for is usable here.",
      "The message names what is missing; ep4j doctor shows all of it."),

  // 7000 to 7999: files, recorded cases, verification.

  /** A file is not what it should be. */
  BAD_FILE(
      7000,
      "A file cannot be read or does not hold what it should.",
      "The message names the file and the place in it."),

  // 8000 to 8999: the command line.

  /** A command cannot do what it was asked for. */
  COMMAND_FAILED(
      8000,
      "A command cannot do what it was asked for.",
      "The message names the cause; --help lists the options.");

  private final int number;
  private final String cause;
  private final String remedy;

  ErrorCode(int number, String cause, String remedy) {
    this.number = number;
    this.cause = cause;
    this.remedy = remedy;
  }

  /** The code as messages show it, for example {@code EP4J-1001}. */
  public String id() {
    return String.format(Locale.ROOT, "EP4J-%04d", number);
  }

  /** What is wrong, in a sentence. */
  public String cause() {
    return cause;
  }

  /** What to do, in a sentence or two. */
  public String remedy() {
    return remedy;
  }

  /** A message that begins with this code. */
  public String message(String text) {
    return id() + ": " + text;
  }

  /** The code with which a message begins, if it does. */
  public static Optional<ErrorCode> of(Throwable error) {
    String message = error.getMessage();
    if (message != null) {
      for (ErrorCode code : values()) {
        if (message.startsWith(code.id() + ":")) {
          return Optional.of(code);
        }
      }
    }
    return Optional.empty();
  }

  @Override
  public String toString() {
    return id();
  }
}
