package org.ep4j.cli.bench;

import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.PrivateMemory;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Memory of the host for the rows that the experts of a rank return in low latency. Only touched
 * pages take memory: most of the worst case stays unused.
 *
 * @param memory owns the memory
 * @param tensor BF16, groups of the maximum of rows
 */
record ExpertRows(PrivateMemory memory, Tensor tensor) implements AutoCloseable {
  /** Memory for a rank, in the row order of the settings. */
  static ExpertRows of(BenchSettings settings, ExpertPlacement placement, int rank) {
    int ranks = placement.ranks();
    long groups = settings.latencyGroups(ranks, placement.localExperts(rank));
    long capacity = settings.latencyCapacity(ranks);
    long bytes = Math.max(1, DType.BF16.bytes(groups * capacity * settings.hidden()));
    PrivateMemory memory = PrivateMemory.reserve(bytes);
    return new ExpertRows(
        memory,
        Tensor.of(
            NativeMemory.view(memory.address(), bytes),
            DType.BF16,
            groups,
            capacity,
            settings.hidden()));
  }

  @Override
  public void close() {
    memory.close();
  }
}
