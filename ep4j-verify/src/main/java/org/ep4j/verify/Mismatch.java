package org.ep4j.verify;

import java.io.Serializable;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The first wrong value in the output of an operation. Numbers that do not apply are -1.
 *
 * @param operation public operation, for example {@code dispatch}
 * @param output accessor of the output, for example {@code x}
 * @param rank rank of the output
 * @param row row (slot) of the output; for one-dimensional outputs the element
 * @param sourceRank rank that sent the token
 * @param sourceToken number of the token at its source
 * @param expert global expert of the row
 * @param byteOffset first wrong byte, counted from the start of the row
 * @param expected expected bytes from the first wrong one, or a value
 * @param actual actual bytes or value
 */
public record Mismatch(
    String operation,
    String output,
    int rank,
    long row,
    int sourceRank,
    int sourceToken,
    int expert,
    long byteOffset,
    String expected,
    String actual)
    implements Serializable {
  private static final int SHOWN_BYTES = 16;

  /** One sentence without line breaks. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(operation).append(": ").append(output);
    text.append(" of rank ").append(rank);
    part(text, ", row ", row);
    if (sourceToken >= 0) {
      text.append(" (token ").append(sourceToken);
      part(text, " of rank ", sourceRank);
      part(text, ", expert ", expert);
      text.append(')');
    } else {
      part(text, " from rank ", sourceRank);
      part(text, ", expert ", expert);
    }
    part(text, ", byte ", byteOffset);
    return text.append(": expected ").append(expected).append(", found ").append(actual).toString();
  }

  /**
   * The bytes of a row from the first wrong one, at most 16, for {@code expected} and {@code
   * actual}.
   */
  public static String hex(MemorySegment row, long from) {
    StringBuilder text = new StringBuilder();
    long end = Math.min(row.byteSize(), from + SHOWN_BYTES);
    for (long i = from; i < end; i++) {
      text.append(i == from ? "" : " ").append("%02x".formatted(row.get(ValueLayout.JAVA_BYTE, i)));
    }
    return end < row.byteSize() ? text.append(" ...").toString() : text.toString();
  }

  private static void part(StringBuilder text, String name, long value) {
    if (value >= 0) {
      text.append(name).append(value);
    }
  }
}
