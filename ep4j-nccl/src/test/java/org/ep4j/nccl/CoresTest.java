package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.concurrent.FutureTask;
import org.ep4j.cuda.internode.proxy.CpuAffinity;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Affinity of threads that a pinned thread creates. */
class CoresTest {
  @Test
  void threadsStartedWhileWidenedInheritAllCores() throws Exception {
    BitSet all = mine();
    assumeTrue(all.cardinality() > 1, "several cores are needed");
    BitSet one = new BitSet();
    one.set(all.length() - 1);
    try (Arena arena = Arena.ofShared()) {
      Cores cores = new Cores(arena);
      FutureTask<@Nullable Void> poller =
          new FutureTask<>(
              () -> {
                pin(one);
                assertThat(ofAnother()).as("created while pinned").isEqualTo(one);
                cores.widen();
                assertThat(ofAnother()).as("created while widened").isEqualTo(all);
                cores.restore();
                assertThat(mine()).as("afterwards").isEqualTo(one);
                return null;
              });
      Thread.ofPlatform().start(poller);
      poller.get();
    }
  }

  private static BitSet ofAnother() throws Exception {
    FutureTask<BitSet> task = new FutureTask<>(CoresTest::mine);
    Thread.ofPlatform().start(task);
    return task.get();
  }

  private static BitSet mine() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment mask = arena.allocate(CpuAffinity.MASK_BYTES, Long.BYTES);
      assertThat(CpuAffinity.read(mask)).isTrue();
      return BitSet.valueOf(mask.asByteBuffer());
    }
  }

  private static void pin(BitSet cores) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment mask = arena.allocate(CpuAffinity.MASK_BYTES, Long.BYTES);
      mask.copyFrom(MemorySegment.ofArray(cores.toByteArray()));
      assertThat(CpuAffinity.write(mask)).isTrue();
    }
  }
}
