package org.ep4j.nccl.gin;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Map;

/**
 * The communicators of kernels' puts, as {@code device_put.cu} reads them in device memory: words
 * of 64 bits. Written once by the host before any kernel has the address.
 *
 * <pre>
 *   0  number of communicators
 *   1  contexts of each, which number the lanes
 *   2  for each communicator: address of its ncclDevComm, ncclWindow_t of this rank's memory
 * </pre>
 */
public final class GinTable {
  private static final long HEADER_BYTES = 2L * Long.BYTES;
  private static final long ENTRY_BYTES = 2L * Long.BYTES;

  /** Macros with which the shim checks that its structures have these sizes. */
  public static final Map<String, String> DEFINES =
      Map.of(
          "EP4J_GIN_TABLE_HEADER", String.valueOf(HEADER_BYTES),
          "EP4J_GIN_TABLE_ENTRY", String.valueOf(ENTRY_BYTES));

  /**
   * A communicator on the device.
   *
   * @param communicator address of its ncclDevComm
   * @param window its ncclWindow_t
   */
  public record Entry(long communicator, long window) {}

  private GinTable() {}

  /** The bytes of a table. */
  public static MemorySegment of(long contexts, List<Entry> entries) {
    long bytes = HEADER_BYTES + entries.size() * ENTRY_BYTES;
    MemorySegment table = MemorySegment.ofArray(new long[Math.toIntExact(bytes / Long.BYTES)]);
    table.set(ValueLayout.JAVA_LONG, 0, entries.size());
    table.set(ValueLayout.JAVA_LONG, Long.BYTES, contexts);
    long at = HEADER_BYTES;
    for (Entry entry : entries) {
      table.set(ValueLayout.JAVA_LONG, at, entry.communicator);
      table.set(ValueLayout.JAVA_LONG, at + Long.BYTES, entry.window);
      at += ENTRY_BYTES;
    }
    return table;
  }
}
