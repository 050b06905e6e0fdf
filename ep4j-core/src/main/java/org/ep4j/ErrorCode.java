package org.ep4j;

import java.util.Locale;
import java.util.Optional;

/**
 * The stable code of an error: what is wrong and what to do, independent of the words of one
 * message. Every message of ep4j begins with a code ({@code EP4J-1000: …}); programs, logs and tests
 * match the code. {@code docs/errors.md} and {@code ep4j errors} list all codes. A code never changes
 * its meaning, and the number of a removed code is not used again.
 */
public enum ErrorCode {
  // 1000 to 1399: arguments of the API, groups, memory, wires and files.

  /** An argument or a setting has a value that is not allowed. */
  INVALID_ARGUMENT(
      1000,
      "An argument or a setting has a value that is not allowed.",
      "The message names the argument, its value, the allowed values and the remedy."),

  // 1400 to 1699: arguments of operations, checked by engines and by the host engine.

  // 1700 to 1899: arguments of CUDA bindings, the CUDA engine and backends.

  // 1900 to 1999: arguments of RDMA and the command line.

  // 2000 to 2299: calls that the state of an API object, a group or a wire does not allow.

  /** The state of the object does not allow the call. */
  ILLEGAL_USE(
      2000,
      "The state of the object does not allow this call.",
      "The message names the state and the call that leaves it."),

  // 2300 to 2599: calls that the state of a buffer, a handle or a hook does not allow.

  // 2600 to 2799: calls that the state of CUDA objects or backends does not allow.

  // 2800 to 2999: calls that the state of RDMA objects does not allow.

  // 3000 to 3999: groups: joining, membership, collectives.

  /** Ranks could not agree. */
  GROUP_FAILED(
      3000,
      "The ranks of a group could not agree.",
      "The message names the ranks and the cause."),

  // 4000 to 4999: operations: peers that are late or dead, and failures that peers report.

  /** A peer was late or died. */
  PEER_TIMEOUT(
      4000,
      "A peer did not do its part of an operation before the deadline, or died.",
      "The message names the rank. Find the cause on that rank, then call reset() on all live"
          + " ranks."),

  // 5000 to 5499: wires between nodes.

  /** A wire cannot be opened or cannot do its work. */
  WIRE_FAILED(
      5000,
      "A wire cannot be opened, or cannot do what a rank asked of it.",
      "The message names the wire and the cause."),

  // 5500 to 5999: wires on RDMA verbs and UCX.

  // 6000 to 6999: engines, backends, devices, compilers and native libraries.

  /** An engine cannot run on this machine. */
  ENGINE_UNAVAILABLE(
      6000,
      "This machine has no usable engine, backend or device of the requested kind.",
      "The message names what is missing. `ep4j doctor` shows all of it."),

  // 7000 to 7299: files.

  /** A file cannot be read or has wrong content. */
  BAD_FILE(
      7000,
      "A file cannot be read, or its content is wrong.",
      "The message names the file and the position in it."),

  // 7300 to 7599: verification and recorded cases.

  // 8000 to 8999: the command line.

  /** A command cannot do its work. */
  COMMAND_FAILED(
      8000,
      "A command cannot do its work.",
      "The message names the cause. `--help` lists the options.");

  private final int number;
  private final String cause;
  private final String remedy;

  ErrorCode(int number, String cause, String remedy) {
    this.number = number;
    this.cause = cause;
    this.remedy = remedy;
  }

  /** The code as messages show it, for example {@code EP4J-1000}. */
  public String id() {
    return String.format(Locale.ROOT, "EP4J-%04d", number);
  }

  /** What is wrong: one sentence. */
  public String cause() {
    return cause;
  }

  /** What to do: one or two sentences. */
  public String remedy() {
    return remedy;
  }

  /** A message that begins with this code. */
  public String message(String text) {
    return id() + ": " + text;
  }

  /** The code at the beginning of the message of {@code error}; empty if there is none. */
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

  /** Same as {@link #id()}. */
  @Override
  public String toString() {
    return id();
  }
}
