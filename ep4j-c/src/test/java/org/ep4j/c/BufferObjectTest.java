package org.ep4j.c;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.ExpertBuffer;
import org.ep4j.c.struct.ObjectTable;
import org.ep4j.c.struct.Struct;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.group.Group;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** One thread is in a buffer, also to read results, and any number of threads may close it. */
class BufferObjectTest {
  private Group group;
  private BufferObject buffer;

  @BeforeEach
  void open() {
    group = Group.inProcess(1).getFirst();
    buffer =
        BufferObject.of(
            BufferObject.add(
                ExpertBuffer.open(
                    group,
                    BufferConfig.builder()
                        .hidden(16)
                        .topK(1)
                        .experts(1)
                        .engine(EngineName.HOST)
                        .highThroughput(HighThroughputConfig.builder().maxTokens(1).build())
                        .build())));
  }

  @AfterEach
  void close() {
    buffer.close();
    group.close();
  }

  /** Both threads have found the buffer before one of them closes it. */
  @Test
  void aBufferThatTwoThreadsFoundIsClosedOnce() {
    long result = buffer.dispatched.number();
    buffer.close();
    buffer.close();
    long later = ObjectTable.PROCESS.add("later", ObjectTable.NO_OWNER);
    assertThat(ObjectTable.PROCESS.find(later)).isEqualTo("later");
    ObjectTable.PROCESS.remove(later);
    assertThatThrownBy(() -> ResultSlot.enter("dispatched", result))
        .hasMessageStartingWith("EP4J-1040");
  }

  @Test
  void resultsAreReadByTheThreadInTheBuffer() {
    long dispatched = buffer.dispatched.number();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment result = arena.allocate(ThroughputFunctions.DISPATCHED.size(), Long.BYTES);
      result.set(ValueLayout.JAVA_LONG, Struct.SIZE, result.byteSize());
      buffer.enter();
      assertThatThrownBy(() -> ThroughputFunctions.dispatchResult(dispatched, result.address()))
          .hasMessageStartingWith("EP4J-2302");
      buffer.leave();
      // Nothing was dispatched yet; the call after an error finds the buffer free.
      for (int i = 0; i < 2; i++) {
        assertThatThrownBy(() -> ThroughputFunctions.dispatchResult(dispatched, result.address()))
            .hasMessageStartingWith("EP4J-1040");
      }
    }
  }
}
