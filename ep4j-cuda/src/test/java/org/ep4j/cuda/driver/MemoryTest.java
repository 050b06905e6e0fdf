package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.DeviceCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Needs a GPU. */
class MemoryTest {
  @SuppressWarnings("NullAway.Init") // before each test
  private CudaDevice device;

  @BeforeEach
  void open() {
    device = Gpu.open();
  }

  @AfterEach
  void close() {
    if (device != null) {
      device.close();
    }
  }

  @Test
  void bytesAreCopiedBackFromHeapAndNativeMemory() {
    long[] numbers = {1, -2, 3, Long.MIN_VALUE};
    try (DeviceMemory memory = DeviceMemory.allocate(device, 64);
        Arena arena = Arena.ofConfined()) {
      memory.copyFrom(32, MemorySegment.ofArray(numbers));
      long[] heap = new long[4];
      memory.copyTo(32, MemorySegment.ofArray(heap));
      assertThat(heap).containsExactly(numbers);
      MemorySegment there = arena.allocate(32);
      memory.copyTo(32, there);
      assertThat(there.toArray(ValueLayout.JAVA_LONG)).containsExactly(numbers);
    }
  }

  @Test
  void copiesAndFillsKeepTheOrderOfTheStream() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, 1 << 20);
        PinnedMemory host = PinnedMemory.allocate(device, 1 << 20);
        CudaStream stream = CudaStream.create(device)) {
      memory.fill32(0, 1 << 18, 0x01020304, stream);
      memory.fill8(4, 2, (byte) 0xff, stream);
      memory.copyTo(0, host.segment(), stream);
      stream.synchronize();
      MemorySegment seen = host.segment();
      assertThat(seen.get(ValueLayout.JAVA_INT, 0)).isEqualTo(0x01020304);
      assertThat(seen.get(ValueLayout.JAVA_INT, 4)).isEqualTo(0x0102ffff);
      assertThat(seen.get(ValueLayout.JAVA_INT, (1 << 20) - 4)).isEqualTo(0x01020304);
      seen.fill((byte) 7);
      memory.copyFrom(0, seen, stream);
      stream.synchronize();
      byte[] some = new byte[3];
      memory.copyTo(1000, MemorySegment.ofArray(some));
      assertThat(some).containsExactly(7, 7, 7);
    }
  }

  @Test
  void copiesStayInsideTheAllocation() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, 64);
        CudaStream stream = CudaStream.create(device)) {
      assertThatThrownBy(() -> memory.copyFrom(60, MemorySegment.ofArray(new byte[5])))
          .isInstanceOf(IndexOutOfBoundsException.class);
      assertThatThrownBy(() -> memory.fill32(0, 17, 0, stream))
          .isInstanceOf(IndexOutOfBoundsException.class);
      assertThatThrownBy(() -> memory.copyTo(0, MemorySegment.ofArray(new byte[4]), stream))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith(ErrorCode.CUDA_HEAP_COPY.id());
    }
  }

  @Test
  void emptyAllocationIsRefused() {
    assertThatThrownBy(() -> DeviceMemory.allocate(device, 0))
        .isInstanceOf(InvalidArgumentException.class);
    assertThatThrownBy(() -> PinnedMemory.allocate(device, -1))
        .isInstanceOf(InvalidArgumentException.class);
  }

  @Test
  void closedMemoryIsReportedAndClosingTwiceIsHarmless() {
    DeviceMemory memory = DeviceMemory.allocate(device, 64);
    PinnedMemory host = PinnedMemory.allocate(device, 64);
    MemorySegment segment = host.segment();
    for (int i = 0; i < 2; i++) {
      memory.close();
      host.close();
    }
    assertThatThrownBy(memory::address).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(host::segment).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> segment.get(ValueLayout.JAVA_BYTE, 0))
        .isInstanceOf(IllegalStateException.class);
  }

  @Test
  void pointerAttributesDescribeTheAllocation() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, 4096);
        PinnedMemory host = PinnedMemory.allocate(device, 64);
        Arena arena = Arena.ofConfined()) {
      PointerAttributes inside = PointerAttributes.of(memory.address() + 100);
      assertThat(inside.type()).isEqualTo(PointerAttributes.Type.DEVICE);
      assertThat(inside.isDevicePointer()).isTrue();
      assertThat(inside.device()).isZero();
      assertThat(inside.rangeStart()).isEqualTo(memory.address());
      assertThat(inside.rangeBytes()).isEqualTo(4096);
      assertThat(PointerAttributes.of(host.hostAddress()).type())
          .isEqualTo(PointerAttributes.Type.HOST);
      PointerAttributes unknown = PointerAttributes.of(arena.allocate(8).address());
      assertThat(unknown.isDevicePointer()).isFalse();
      assertThat(unknown.device()).isEqualTo(-1);
    }
  }

  @Test
  void thePointerIsReadWithoutACurrentContext() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, 64)) {
      DeviceCalls.setCurrent(0);
      assertThat(PointerAttributes.of(memory.address()).isDevicePointer()).isTrue();
    }
  }

  @Test
  void tensorsOnTheDeviceAreCopiedInBothDirections() {
    try (DeviceMemory memory = DeviceMemory.allocate(device, 64)) {
      Tensor tensor = Tensor.ofDevice(memory.address() + 16, 0, DType.INT32, 2, 3);
      tensor.copyFrom(MemorySegment.ofArray(new int[] {1, 2, 3, 4, 5, 6, 7}));
      int[] back = new int[6];
      tensor.copyTo(MemorySegment.ofArray(back));
      assertThat(back).containsExactly(1, 2, 3, 4, 5, 6);
    }
  }
}
