package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.DeviceCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

/** Needs a GPU. */
class DeviceTest {
  @Test
  void propertiesAreThoseOfADevice() {
    try (CudaDevice device = Gpu.open()) {
      DeviceProperties properties = device.properties();
      System.out.println(properties);
      assertThat(properties.name()).isNotBlank();
      assertThat(properties.pciBusId()).matches("[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\\.[0-9]");
      assertThat(properties.major()).isGreaterThanOrEqualTo(7);
      assertThat(properties.multiprocessors()).isPositive();
      assertThat(properties.sharedBytesPerBlock()).isGreaterThanOrEqualTo(48 << 10);
      assertThat(properties.l2Bytes()).isPositive();
      assertThat(properties.memoryBytes()).isGreaterThan(1L << 30);
      assertThat(device.freeMemory()).isPositive().isLessThanOrEqualTo(properties.memoryBytes());
      assertThat(CudaDriver.version()).isGreaterThanOrEqualTo(CudaDriver.OLDEST);
    }
  }

  @Test
  void aDeviceIsLinkedWithItselfAndNotWithAHiddenDevice() {
    try (CudaDevice device = Gpu.open()) {
      assertThat(device.isLinked(device.properties().pciBusId())).isTrue();
      assertThat(device.isLinked("ffff:ff:1f.7")).isFalse();
    }
  }

  @Test
  void setUpCallsRestoreTheCurrentContext() {
    try (CudaDevice device = Gpu.open()) {
      DeviceCalls.setCurrent(0);
      try (DeviceMemory memory = DeviceMemory.allocate(device, 64);
          CudaStream stream = CudaStream.create(device);
          CudaEvent event = CudaEvent.create(device)) {
        stream.synchronize();
        assertThat(memory.address()).isNotZero();
        assertThat(event.query()).isTrue();
      }
      assertThat(DeviceCalls.current()).isZero();
      device.makeCurrent();
      assertThat(DeviceCalls.current()).isEqualTo(device.context());
    }
  }

  @Test
  void closedDeviceIsReportedAndClosingTwiceIsHarmless() {
    CudaDevice device = Gpu.open();
    device.close();
    device.close();
    assertThatThrownBy(device::makeCurrent)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_CLOSED.id());
  }

  @Test
  void missingDeviceIsRefused() {
    Gpu.require(1);
    assertThatThrownBy(() -> CudaDevice.open(CudaDevice.count()))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_DEVICE.id());
  }

  @Test
  void errorsNameTheCallAndTheResult() {
    try (CudaDevice device = Gpu.open()) {
      assertThatThrownBy(() -> DeviceMemory.allocate(device, 1L << 50))
          .hasMessageStartingWith(ErrorCode.GPU_OUT_OF_MEMORY.id())
          .hasMessageContaining("cuMemAlloc_v2")
          .hasMessageContaining("CUDA_ERROR_OUT_OF_MEMORY");
    }
  }

  @Test
  void peersCopyFromEachOther() {
    Gpu.require(2);
    try (CudaDevice first = CudaDevice.open(0);
        CudaDevice second = CudaDevice.open(1);
        Arena arena = Arena.ofConfined()) {
      if (!first.canAccess(second)) {
        return;
      }
      first.enablePeerAccess(second);
      first.enablePeerAccess(second);
      first.enablePeerAccess(first);
      try (DeviceMemory here = DeviceMemory.allocate(first, 64);
          DeviceMemory there = DeviceMemory.allocate(second, 64);
          CudaStream stream = CudaStream.create(first)) {
        there.copyFrom(0, arena.allocateFrom(ValueLayout.JAVA_LONG, 1, 2, 3, 4, 5, 6, 7, 8));
        first.makeCurrent();
        DeviceCopies.copy(here.address(), there.address(), 64, stream);
        stream.synchronize();
        MemorySegment back = arena.allocate(64);
        here.copyTo(0, back);
        assertThat(back.toArray(ValueLayout.JAVA_LONG)).containsExactly(1, 2, 3, 4, 5, 6, 7, 8);
      }
    }
  }
}
