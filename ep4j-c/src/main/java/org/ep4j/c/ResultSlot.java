package org.ep4j.c;

import org.ep4j.c.struct.ObjectTable;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * The place of a result of a buffer, used for one operation after another; each gets a number of
 * its own. Used by the thread in the buffer.
 */
final class ResultSlot {
  private final BufferObject owner;
  private long number;
  private @Nullable Object result;

  /** Number of the handle that the result gave out; 0 before it has. */
  private long handle;

  private boolean scaleColumns;

  /** A place without a result. */
  ResultSlot(BufferObject owner, long buffer) {
    this.owner = owner;
    number = ObjectTable.PROCESS.add(this, buffer);
  }

  /**
   * Enters the buffer of the result with a number: the calling thread is in it until {@link
   * #leave}. An operation that another thread ended in between has outdated the result.
   */
  static ResultSlot enter(String argument, long number) {
    ResultSlot found = of(argument, number);
    found.owner.enter();
    if (found.number != number) {
      found.leave();
      return of(argument, number); // throws: the number is outdated
    }
    return found;
  }

  /** Ends the access that {@link #enter} gave. */
  void leave() {
    owner.leave();
  }

  /** The result with a number; for the thread in its buffer. */
  static ResultSlot of(String argument, long number) {
    return ObjectTable.PROCESS.get(argument, number, ResultSlot.class, "a result that is valid");
  }

  /**
   * Takes the result of the next operation; returns its number, and the number before is invalid.
   *
   * @param routes number of the handle that the operation used, or 0
   * @param byColumns whether received scales are column-major
   */
  long renew(Object next, long routes, boolean byColumns) {
    result = next;
    handle = routes;
    scaleColumns = byColumns;
    number = ObjectTable.PROCESS.renew(number);
    return number;
  }

  /** The result, of the kind that the function needs. */
  <T> T result(String argument, Class<T> type, String kind) {
    Object present = result;
    if (!type.isInstance(present)) {
      throw otherOperation(argument, number, kind);
    }
    return type.cast(present);
  }

  /** A number names the result of an operation of another kind. */
  static InvalidArgumentException otherOperation(String argument, long number, String kind) {
    return new InvalidArgumentException(
        ErrorCode.NATIVE_OBJECT,
        argument,
        number + ", another operation",
        kind,
        "pass the result of that operation");
  }

  BufferObject owner() {
    return owner;
  }

  long number() {
    return number;
  }

  long handle() {
    return handle;
  }

  /** The result has given out a handle. */
  void handedOut(long routes) {
    handle = routes;
  }

  boolean scaleColumns() {
    return scaleColumns;
  }
}
