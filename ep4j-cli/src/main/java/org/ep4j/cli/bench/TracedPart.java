package org.ep4j.cli.bench;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/**
 * The timed iterations of one operation on one rank.
 *
 * @param name what was timed
 * @param iterations their number
 * @param start nanoseconds since 1970
 * @param nanos their duration
 * @param leftOut operations that the trace leaves out
 * @param operations in the order of their starts
 */
record TracedPart(
    String name,
    int iterations,
    long start,
    long nanos,
    int leftOut,
    List<TracedPart.Operation> operations) {
  /**
   * An operation.
   *
   * @param kind what the rank called
   * @param number its number in the buffer
   * @param start nanoseconds since 1970
   * @param nanos its duration
   * @param rows received rows
   * @param bytes bytes of these rows
   * @param waited nanoseconds waited for all ranks
   * @param waits the longest of these waits, the longest first
   */
  record Operation(
      String kind,
      long number,
      long start,
      long nanos,
      long rows,
      long bytes,
      long waited,
      List<Wait> waits) {}

  /**
   * A wait of an operation.
   *
   * @param peer the late rank
   * @param nanos time waited for it
   */
  record Wait(int peer, long nanos) {}

  /** The parts as bytes for another rank. */
  static byte[] encode(List<TracedPart> parts) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeInt(parts.size());
      for (TracedPart part : parts) {
        out.writeUTF(part.name);
        out.writeInt(part.iterations);
        out.writeLong(part.start);
        out.writeLong(part.nanos);
        out.writeInt(part.leftOut);
        out.writeInt(part.operations.size());
        for (Operation operation : part.operations) {
          encode(operation, out);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  private static void encode(Operation operation, DataOutputStream out) throws IOException {
    out.writeUTF(operation.kind);
    out.writeLong(operation.number);
    out.writeLong(operation.start);
    out.writeLong(operation.nanos);
    out.writeLong(operation.rows);
    out.writeLong(operation.bytes);
    out.writeLong(operation.waited);
    out.writeInt(operation.waits.size());
    for (Wait wait : operation.waits) {
      out.writeInt(wait.peer);
      out.writeLong(wait.nanos);
    }
  }

  /** The parts in bytes of {@link #encode}. */
  static List<TracedPart> decode(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      List<TracedPart> parts = new ArrayList<>();
      for (int left = in.readInt(); left > 0; left--) {
        String name = in.readUTF();
        int iterations = in.readInt();
        long start = in.readLong();
        long nanos = in.readLong();
        int leftOut = in.readInt();
        List<Operation> operations = new ArrayList<>();
        for (int more = in.readInt(); more > 0; more--) {
          operations.add(operation(in));
        }
        parts.add(new TracedPart(name, iterations, start, nanos, leftOut, operations));
      }
      return parts;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Operation operation(DataInputStream in) throws IOException {
    String kind = in.readUTF();
    long[] figures = new long[6];
    for (int i = 0; i < figures.length; i++) {
      figures[i] = in.readLong();
    }
    List<Wait> waits = new ArrayList<>();
    for (int more = in.readInt(); more > 0; more--) {
      waits.add(new Wait(in.readInt(), in.readLong()));
    }
    return new Operation(
        kind, figures[0], figures[1], figures[2], figures[3], figures[4], figures[5], waits);
  }
}
