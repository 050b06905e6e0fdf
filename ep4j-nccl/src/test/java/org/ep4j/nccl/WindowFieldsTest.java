package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

class WindowFieldsTest {
  private static final long BASE = 0x7f00_0000_0000L;

  @Test
  void structuresHaveTheSizesOfTheHeader() {
    assertThat(NcclLayouts.UNIQUE_ID.byteSize()).isEqualTo(128);
    assertThat(NcclLayouts.CONFIG.byteSize()).isEqualTo(24);
    assertThat(NcclLayouts.offset(NcclLayouts.CONFIG, "blocking")).isEqualTo(16);
    assertThat(NcclLayouts.offset(NcclLayouts.WINDOW, "base")).isEqualTo(8);
    assertThat(NcclLayouts.offset(NcclLayouts.WINDOW, "stride")).isEqualTo(24);
  }

  @Test
  void addressesAreAStrideApart() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment window = arena.allocate(NcclLayouts.WINDOW);
      window.set(ValueLayout.JAVA_LONG, 8, BASE);
      window.set(ValueLayout.JAVA_INT, 16, 2);
      window.set(ValueLayout.JAVA_INT, 20, 6); // the second node
      window.set(ValueLayout.JAVA_INT, 24, 35);
      WindowFields fields = WindowFields.of(window);
      fields.check(6);
      assertThat(fields.address(4)).isEqualTo(BASE);
      assertThat(fields.address(5)).isEqualTo(BASE + (35L << 32));
      assertThat(fields.address(6)).isEqualTo(BASE + (70L << 32));
      assertThat(fields.address(7)).isEqualTo(BASE + (105L << 32));
    }
  }

  @Test
  void invalidWindowIsRefused() {
    WindowFields[] wrong = {
      new WindowFields(BASE, 2, 1, 35), // another rank
      new WindowFields(BASE, 3, 2, 35), // beyond itself
      new WindowFields(BASE, -1, 2, 35),
      new WindowFields(BASE, 2, 2, 0),
      new WindowFields(BASE, 2, 2, 1 << 20),
      new WindowFields(BASE + 8, 2, 2, 35),
      new WindowFields(0, 2, 2, 35),
      new WindowFields(-4096, 2, 2, 35),
    };
    for (WindowFields each : wrong) {
      assertThatThrownBy(() -> each.check(2))
          .isInstanceOf(NcclException.class)
          .hasMessageStartingWith(ErrorCode.NCCL_WINDOW_UNAVAILABLE.id())
          .hasMessageContaining("backend 'direct'");
    }
  }
}
