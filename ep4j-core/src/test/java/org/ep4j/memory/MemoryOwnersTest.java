package org.ep4j.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

class MemoryOwnersTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);

  @Test
  void symmetricMemoryIsZeroedAndReachableByAllRanks() {
    ThreadRanks.run(
        3,
        group -> {
          try (SymmetricMemory memory =
              SymmetricMemory.allocate(group, MemoryPlan.whole(8192), TIMEOUT)) {
            assertThat(memory.sameAddressSpace()).isTrue();
            assertThat(memory.bytes()).isEqualTo(8192);
            assertThat(NativeMemory.getLong(memory.address(group.rank()) + 8184)).isZero();
            for (int r = 0; r < 3; r++) {
              NativeMemory.putInt(memory.address(r) + 4L * group.rank(), 10 * r + group.rank());
            }
            group.barrier(TIMEOUT);
            for (int r = 0; r < 3; r++) {
              assertThat(NativeMemory.getInt(memory.address(group.rank()) + 4L * r))
                  .isEqualTo(10 * group.rank() + r);
            }
          }
        });
  }

  /** The JDK closes the channel of an interrupted thread. */
  @Test
  void interruptedThreadCreatesItsSharedMemory() {
    Group alone = Group.inProcess(1).getFirst();
    Thread.currentThread().interrupt();
    try (SymmetricMemory memory =
        SharedFileMemory.allocate(alone, 0, 1, MemoryPlan.whole(8192), TIMEOUT)) {
      assertThat(Thread.interrupted()).as("the flag stays set").isTrue();
      assertThat(NativeMemory.getLong(memory.address(0) + 8184)).isZero();
    }
    alone.close();
  }

  @Test
  void peersKeepTheMemoryOfARankThatHasClosed() {
    ThreadRanks.run(
        2,
        group -> {
          SymmetricMemory memory = SymmetricMemory.allocate(group, MemoryPlan.whole(4096), TIMEOUT);
          if (group.rank() == 0) {
            memory.close();
            group.barrier(TIMEOUT);
          } else {
            group.barrier(TIMEOUT);
            NativeMemory.putLong(memory.address(0), 5);
            assertThat(NativeMemory.getLong(memory.address(0))).isEqualTo(5);
            memory.close();
          }
        });
  }

  @Test
  void anOpenThatFailsLeavesNoEntryInTheRegistry() {
    List<Group> groups = Group.inProcess(2);
    int before = InProcessMemory.USERS.size();
    for (int i = 0; i < 3; i++) {
      assertThatThrownBy(
              () ->
                  SymmetricMemory.allocate(
                      groups.getFirst(), MemoryPlan.whole(4096), Duration.ofMillis(20)))
          .isInstanceOf(RuntimeException.class);
    }
    assertThat(InProcessMemory.USERS).hasSize(before);
    groups.forEach(Group::close);
  }

  @Test
  void privateMemoryReportsThatItIsClosed() {
    PrivateMemory memory = PrivateMemory.reserve(1L << 40);
    NativeMemory.putLong(memory.address() + (1L << 39), 3);
    assertThat(NativeMemory.getLong(memory.address() + (1L << 39))).isEqualTo(3);
    memory.close();
    memory.close();
    assertThatThrownBy(memory::address)
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.MEMORY_CLOSED.id());
  }

  @Test
  void viewsEndWithTheirArena() {
    try (PrivateMemory memory = PrivateMemory.reserve(64)) {
      Arena arena = Arena.ofShared();
      MemorySegment view = NativeMemory.view(memory.address(), 64, arena);
      view.set(ValueLayout.JAVA_INT, 60, 7);
      assertThat(NativeMemory.getInt(memory.address() + 60)).isEqualTo(7);
      assertThatThrownBy(() -> view.get(ValueLayout.JAVA_INT, 64))
          .isInstanceOf(IndexOutOfBoundsException.class);
      arena.close();
      assertThatThrownBy(() -> view.get(ValueLayout.JAVA_INT, 0))
          .isInstanceOf(IllegalStateException.class);
    }
  }

  @Test
  void aPageArenaGivesZeroedPagesUntilItIsClosed() {
    PageArena arena = new PageArena();
    MemorySegment large = arena.allocate(5L << 20, 64);
    MemorySegment small = arena.allocate(100, 64);
    assertThat(large.address() % 4096).isZero();
    assertThat(large.byteSize()).isEqualTo(5L << 20);
    assertThat(large.get(ValueLayout.JAVA_BYTE, large.byteSize() - 1)).isZero();
    large.fill((byte) 1);
    small.fill((byte) 1);
    arena.close();
    assertThat(large.scope().isAlive()).isFalse();
    assertThat(small.scope().isAlive()).isFalse();
    assertThatThrownBy(() -> large.get(ValueLayout.JAVA_BYTE, 0))
        .isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> arena.allocate(5L << 20)).isInstanceOf(IllegalStateException.class);
  }
}
