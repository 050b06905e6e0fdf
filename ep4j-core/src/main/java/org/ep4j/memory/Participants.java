package org.ep4j.memory;

import java.util.stream.IntStream;
import org.ep4j.group.Group;

/**
 * The ranks of a collective step while other ranks are lost.
 *
 * @param group of the ranks that take part
 * @param numbers for each rank of that group, its number among all ranks
 * @param newcomers by number, whether a rank is new to the others
 */
@SuppressWarnings("ArrayRecordComponent") // read only, by few
public record Participants(Group group, int[] numbers, boolean[] newcomers) {
  /** All ranks of a group, none of them new. */
  public static Participants ofAll(Group group) {
    return new Participants(
        group, IntStream.range(0, group.size()).toArray(), new boolean[group.size()]);
  }

  /** Number of ranks, including lost ones. */
  public int ranks() {
    return newcomers.length;
  }

  /** Number of this rank. */
  public int rank() {
    return numbers[group.rank()];
  }

  /** Number of a rank of the group. */
  public int number(int member) {
    return numbers[member];
  }

  /** Whether the rank with this number is new to the others. */
  public boolean isNew(int number) {
    return newcomers[number];
  }
}
