package org.ep4j.c;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.lang.foreign.Arena;
import org.ep4j.c.struct.ObjectTable;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

class GroupFunctionsTest {
  /** The other ranks have received something, so that it is no error of an argument. */
  @Test
  void anAllGatherOfDifferentNumbersOfBytesIsAMismatch() {
    ThreadRanks.run(
        2,
        group -> {
          long number = ObjectTable.PROCESS.add(group, ObjectTable.NO_OWNER);
          int bytes = 4 + group.rank();
          try (Arena arena = Arena.ofConfined()) {
            long mine = arena.allocate(bytes).address();
            long received = arena.allocate(2L * bytes).address();
            Throwable error =
                catchThrowable(
                    () -> GroupFunctions.groupAllGather(number, mine, bytes, received, 20_000));
            assertThat(ErrorKind.of(error)).isEqualTo(ErrorKind.MISMATCH);
            assertThat(error).hasMessageContaining("pass the same number on all ranks");
          } finally {
            ObjectTable.PROCESS.remove(number);
          }
        });
  }
}
