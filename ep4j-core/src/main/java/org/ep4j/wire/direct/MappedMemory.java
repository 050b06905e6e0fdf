package org.ep4j.wire.direct;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.ep4j.group.Group;
import org.ep4j.memory.MemoryPlan;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.SymmetricMemory;
import org.ep4j.wire.support.CollectiveStep;

/**
 * New memory of all ranks, mapped on this rank: one segment per rank. After close the segments
 * reject access, also by a thread that is about to copy; peers keep their mappings.
 */
final class MappedMemory implements AutoCloseable {
  private final SymmetricMemory memory;
  private final Arena arena;
  private final MemorySegment[] parts;
  private boolean closed;

  private MappedMemory(SymmetricMemory memory, Arena arena, MemorySegment[] parts) {
    this.memory = memory;
    this.arena = arena;
    this.parts = parts;
  }

  /** Collective; {@code bytes} may differ between ranks. */
  static MappedMemory allocate(Group group, long bytes, Duration timeout) {
    long[] sizes = CollectiveStep.numbers(group, "", bytes, timeout);
    long max = 1;
    long all = 0;
    for (long size : sizes) {
      max = Math.max(max, size);
      all += size;
    }
    // Files are sparse, so ranks with less memory use no more than they need. What they need is
    // there from the beginning: a put is no place to find that memory has run out.
    SymmetricMemory memory =
        SymmetricMemory.allocate(
            group,
            new MemoryPlan(
                max, Math.ceilDiv(all, sizes.length), List.of(new MemoryPlan.Range(0, bytes))),
            timeout);
    Arena arena = Arena.ofShared();
    MemorySegment[] parts = new MemorySegment[sizes.length];
    for (int rank = 0; rank < parts.length; rank++) {
      parts[rank] = NativeMemory.view(memory.address(rank), sizes[rank], arena);
    }
    return new MappedMemory(memory, arena, parts);
  }

  /** The segments by rank. */
  MemorySegment[] parts() {
    return parts.clone();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      arena.close();
      memory.close();
    }
  }
}
