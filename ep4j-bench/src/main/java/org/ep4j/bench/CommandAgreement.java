package org.ep4j.bench;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.ep4j.group.Group;

/** Exchanges numbers and texts between the ranks of a command. */
public final class CommandAgreement {
  // Verification and first touch of memory can be slow; dead ranks are detected much earlier.
  private static final Duration TIMEOUT = Duration.ofMinutes(5);

  private final Group group;

  /** An exchange between the ranks of a group. */
  public CommandAgreement(Group group) {
    this.group = group;
  }

  /** The numbers of all ranks, in rank order. */
  public long[][] numbers(long[] mine) {
    byte[][] all = group.allGather(bytes(mine), TIMEOUT);
    return Arrays.stream(all).map(CommandAgreement::longs).toArray(long[][]::new);
  }

  /** Maximum of the ranks. */
  public long max(long mine) {
    return Arrays.stream(gather(mine)).max().orElseThrow();
  }

  /** The non-empty texts of all ranks, in rank order. */
  public List<String> texts(String mine) {
    return Arrays.stream(group.allGather(mine.getBytes(StandardCharsets.UTF_8), TIMEOUT))
        .map(text -> new String(text, StandardCharsets.UTF_8))
        .filter(text -> !text.isEmpty())
        .toList();
  }

  /** Waits for all ranks. */
  public void barrier() {
    group.barrier(TIMEOUT);
  }

  private long[] gather(long mine) {
    return Arrays.stream(numbers(new long[] {mine})).mapToLong(part -> part[0]).toArray();
  }

  private static byte[] bytes(long[] values) {
    ByteBuffer buffer = ByteBuffer.allocate(values.length * Long.BYTES);
    buffer.asLongBuffer().put(values);
    return buffer.array();
  }

  private static long[] longs(byte[] bytes) {
    long[] values = new long[bytes.length / Long.BYTES];
    ByteBuffer.wrap(bytes).asLongBuffer().get(values);
    return values;
  }
}
