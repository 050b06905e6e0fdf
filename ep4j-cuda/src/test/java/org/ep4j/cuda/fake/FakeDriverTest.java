package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.FutureTask;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.fake.FakeDriver.Call;
import org.junit.jupiter.api.Test;
import org.opentest4j.TestAbortedException;

/** The fake refuses what the driver refuses, and is no GPU. */
@OnFakeDriver
class FakeDriverTest {
  @Test
  void isNotCountedAsAGpu() {
    assertThatThrownBy(() -> Gpu.require(1))
        .isInstanceOf(TestAbortedException.class)
        .hasMessageContaining("fake");
  }

  @Test
  void copiesGoThroughDeviceMemory() {
    try (CudaDevice device = CudaDevice.open(0);
        DeviceMemory memory = DeviceMemory.allocate(device, 16)) {
      memory.copyFrom(8, MemorySegment.ofArray(new long[] {42}));
      long[] read = new long[1];
      memory.copyTo(8, MemorySegment.ofArray(read));
      assertThat(read[0]).isEqualTo(42);
    }
  }

  @Test
  void refusesCopiesToFreedMemory() {
    try (CudaDevice device = CudaDevice.open(0)) {
      DeviceMemory memory = DeviceMemory.allocate(device, 16);
      long address = memory.address();
      memory.close();
      assertThatThrownBy(
              () -> DeviceCopies.toDevice(device, address, MemorySegment.ofArray(new long[1])))
          .isInstanceOf(CudaException.class);
    }
    assertThat(FakeDriver.misuse()).hasSize(1);
    FakeDriver.reset();
  }

  @Test
  void knowsWhatIsAlive() {
    CudaDevice device = CudaDevice.open(0);
    CudaStream stream = CudaStream.create(device);
    assertThat(FakeDriver.live())
        .containsExactlyInAnyOrder(FakeDriver.Kind.CONTEXT, FakeDriver.Kind.STREAM);
    stream.close();
    device.close();
    assertThat(FakeDriver.live()).isEmpty();
  }

  @Test
  void mapsMemoryWithItsOwnAddresses() {
    try (CudaDevice device = CudaDevice.open(0);
        VmmMemory memory = VmmMemory.allocate(device, 1, VmmMemory.Sharing.DESCRIPTOR, false)) {
      assertThat(FakeDriver.memory(memory.address()).start()).isEqualTo(memory.address());
      assertThat(FakeDriver.live())
          .contains(FakeDriver.Kind.ADDRESSES, FakeDriver.Kind.HANDLE, FakeDriver.Kind.MAPPING);
    }
  }

  /** A test polls what other threads' ranks have launched. */
  @Test
  void tellsItsCallsWhileOtherThreadsCall() throws Exception {
    int copies = 20_000;
    try (CudaDevice device = CudaDevice.open(0);
        DeviceMemory memory = DeviceMemory.allocate(device, 16)) {
      FutureTask<Void> calling =
          new FutureTask<>(
              () -> {
                for (int i = 0; i < copies; i++) {
                  memory.copyFrom(8, MemorySegment.ofArray(new long[1]));
                }
                return null;
              });
      Thread.ofPlatform().start(calling);
      while (!calling.isDone()) {
        assertThat(FakeDriver.calls()).extracting(Call::result).containsOnly(0);
      }
      calling.get();
      assertThat(FakeDriver.calls("cuMemcpyHtoD_v2")).hasSize(copies);
    }
  }
}
