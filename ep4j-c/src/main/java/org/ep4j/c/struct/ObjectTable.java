package org.ep4j.c.struct;

import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * The objects that C programs hold as numbers. A number is a generation and, in the lowest bits, a
 * slot; the generation of a slot grows with each use, so an old number never names a newer object.
 * Any thread may call; the lock is never held during a wait.
 */
public final class ObjectTable {
  /** The table of the process: numbers are valid in all threads. */
  public static final ObjectTable PROCESS = new ObjectTable();

  /** The owner of objects that have none. */
  public static final long NO_OWNER = 0;

  private static final int FIRST_CAPACITY = 64;

  /** A million open objects; the generations of a slot last for decades. */
  private static final int SLOT_BITS = 20;

  private @Nullable Object[] objects = new @Nullable Object[FIRST_CAPACITY];

  /** The number of the present object of a slot, or of the last one. */
  private long[] numbers = new long[FIRST_CAPACITY];

  private long[] owners = new long[FIRST_CAPACITY];
  private int[] free = new int[FIRST_CAPACITY];
  private int freeCount;
  private int used;

  /**
   * Adds an object; returns its number.
   *
   * @param owner the object with which this one is closed, or {@link #NO_OWNER}
   */
  public synchronized long add(Object object, long owner) {
    int slot = freeCount > 0 ? free[--freeCount] : append();
    objects[slot] = object;
    owners[slot] = owner;
    numbers[slot] = next(slot);
    return numbers[slot];
  }

  /** Gives an object another number: the present one becomes invalid. */
  public synchronized long renew(long number) {
    int slot = slot(number);
    numbers[slot] = next(slot);
    return numbers[slot];
  }

  /**
   * Removes an object and all that it owns; no effect if it is closed already, for example by
   * another thread or with its owner.
   */
  public synchronized void remove(long number) {
    int removed = slot(number);
    if (!holds(removed, number) || objects[removed] == null) {
      return;
    }
    release(removed);
    for (int slot = 0; slot < used; slot++) {
      if (objects[slot] != null && owners[slot] == number) {
        release(slot);
      }
    }
  }

  /**
   * The object with a number.
   *
   * @param argument name of the parameter, for the message
   * @param type kind of object that the caller needs
   * @throws InvalidArgumentException if the number names no open object of the kind
   */
  public synchronized <T> T get(String argument, long number, Class<T> type, String kind) {
    int slot = slot(number);
    Object object = holds(slot, number) ? objects[slot] : null;
    if (object == null || !type.isInstance(object)) {
      throw invalid(argument, number, kind, object);
    }
    return type.cast(object);
  }

  /**
   * The object with a number, of any kind; null if it is closed already.
   *
   * @throws InvalidArgumentException if there was never an object with the number
   */
  public synchronized @Nullable Object find(long number) {
    int slot = slot(number);
    if (!existed(number)) {
      throw invalid("object", number, "an open object", null);
    }
    return numbers[slot] == number ? objects[slot] : null;
  }

  private boolean holds(int slot, long number) {
    return slot < used && numbers[slot] == number;
  }

  /** Whether the number names an object or has named one. */
  private boolean existed(long number) {
    int slot = slot(number);
    return number >>> SLOT_BITS != 0 && number > 0 && slot < used && number <= numbers[slot];
  }

  private InvalidArgumentException invalid(
      String argument, long number, String kind, @Nullable Object other) {
    String state =
        other != null
            ? ", an object of another kind"
            : existed(number) ? ", which is closed or whose results are overwritten" : "";
    return new InvalidArgumentException(
        ErrorCode.NATIVE_OBJECT,
        argument,
        number + state,
        kind,
        "pass a number that ep4j returned, and do not use it after its end");
  }

  private void release(int slot) {
    objects[slot] = null;
    free[freeCount++] = slot;
  }

  private int append() {
    if (used == 1 << SLOT_BITS) {
      throw new IllegalUseException(
          ErrorCode.ILLEGAL_USE,
          used + " objects are open: close the handles and events that are no longer used");
    }
    if (used == numbers.length) {
      int larger = 2 * used;
      objects = Arrays.copyOf(objects, larger);
      numbers = Arrays.copyOf(numbers, larger);
      owners = Arrays.copyOf(owners, larger);
      free = Arrays.copyOf(free, larger);
    }
    return used++;
  }

  private long next(int slot) {
    return ((numbers[slot] >>> SLOT_BITS) + 1 << SLOT_BITS) | slot;
  }

  private static int slot(long number) {
    return (int) number & (1 << SLOT_BITS) - 1;
  }
}
