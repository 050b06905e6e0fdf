package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.driver.calls.FileDescriptors;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

/** Memory shared between two processes; needs a GPU, and uses a second one if available. */
class SharingTest {
  private static final int BYTES = 4 << 20;

  /** Doubles the first number in memory of the parent process. */
  static final class Importer {
    private Importer() {}

    public static void main(String[] arguments) {
      // The last device: with several devices not the exporter's.
      try (CudaDevice device = CudaDevice.open(CudaDevice.count() - 1)) {
        if (arguments[0].equals("ipc")) {
          byte[] handle = HexFormat.of().parseHex(arguments[1]);
          try (IpcMemory memory = IpcMemory.open(device, handle)) {
            twice(device, memory.address() + Long.parseLong(arguments[2]));
          }
        } else {
          int descriptor =
              FileDescriptors.copyFrom(
                  Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]));
          try (VmmMemory memory =
              VmmMemory.importDescriptor(device, descriptor, Long.parseLong(arguments[3]))) {
            twice(device, memory.address());
          }
          FileDescriptors.close(descriptor);
        }
      }
    }

    private static void twice(CudaDevice device, long address) {
      long[] value = new long[1];
      DeviceCopies.toHost(device, MemorySegment.ofArray(value), address);
      value[0] *= 2;
      DeviceCopies.toDevice(device, address, MemorySegment.ofArray(value));
    }
  }

  @Test
  void anotherProcessWritesThroughAnIpcHandle() throws Exception {
    try (CudaDevice device = Gpu.open();
        DeviceMemory memory = DeviceMemory.allocate(device, BYTES)) {
      memory.copyFrom(256, MemorySegment.ofArray(new long[] {21}));
      IpcMemory.Export export = IpcMemory.export(device, memory.address() + 256);
      assertThat(export.offset()).isEqualTo(256);
      assertThat(export.bytes()).isEqualTo(BYTES);
      assertThat(export.handle()).isEqualTo(IpcMemory.export(memory));
      run("ipc", HexFormat.of().formatHex(export.handle()), String.valueOf(export.offset()));
      long[] seen = new long[1];
      memory.copyTo(256, MemorySegment.ofArray(seen));
      assertThat(seen[0]).isEqualTo(42);
    }
  }

  @Test
  void anotherProcessWritesThroughADescriptor() throws Exception {
    try (CudaDevice device = Gpu.open()) {
      assumeTrue(
          device.properties().posixHandles(), "the device does not share memory by descriptor");
      requireDescriptorCopies();
      try (VmmMemory memory =
          VmmMemory.allocate(device, BYTES, VmmMemory.Sharing.DESCRIPTOR, false)) {
        DeviceCopies.toDevice(device, memory.address(), MemorySegment.ofArray(new long[] {4}));
        int descriptor = memory.exportDescriptor();
        run(
            "vmm",
            String.valueOf(ProcessHandle.current().pid()),
            String.valueOf(descriptor),
            String.valueOf(memory.bytes()));
        FileDescriptors.close(descriptor);
        long[] seen = new long[1];
        DeviceCopies.toHost(device, MemorySegment.ofArray(seen), memory.address());
        assertThat(seen[0]).isEqualTo(8);
      }
    }
  }

  @Test
  void memoryForNetworkCardsHasADmaBuf() throws IOException {
    try (CudaDevice device = Gpu.open()) {
      assumeTrue(device.properties().dmaBuf(), "the device has no dma-bufs");
      try (VmmMemory memory = VmmMemory.allocate(device, BYTES, VmmMemory.Sharing.NONE, true)) {
        int descriptor = memory.exportDmaBuf();
        Path file = Path.of("/proc/self/fd", String.valueOf(descriptor));
        assertThat(Files.readSymbolicLink(file).toString()).contains("dmabuf");
        FileDescriptors.close(descriptor);
      }
    }
  }

  @Test
  void vmmMemoryOfAPeerIsAccessibleAfterPermission() {
    Gpu.require(2);
    try (CudaDevice first = CudaDevice.open(0);
        CudaDevice second = CudaDevice.open(1);
        VmmMemory memory = VmmMemory.allocate(first, 100, VmmMemory.Sharing.NONE, false);
        CudaStream stream = CudaStream.create(second)) {
      assertThat(memory.bytes()).isGreaterThanOrEqualTo(100);
      memory.allowAccess(second);
      second.makeCurrent();
      DeviceCopies.fill8(memory.address(), (byte) 9, 100, stream);
      stream.synchronize();
      byte[] seen = new byte[1];
      DeviceCopies.toHost(first, MemorySegment.ofArray(seen), memory.address() + 99);
      assertThat(seen[0]).isEqualTo((byte) 9);
    }
  }

  @Test
  void memoryThatIsNotSharedCannotBeExported() {
    try (CudaDevice device = Gpu.open()) {
      VmmMemory memory = VmmMemory.allocate(device, 100, VmmMemory.Sharing.NONE, false);
      assertThatThrownBy(memory::exportDescriptor)
          .isInstanceOf(IllegalStateException.class)
          .hasMessageStartingWith(ErrorCode.CUDA_SHARING_MODE.id())
          .hasMessageContaining("DESCRIPTOR");
      memory.close();
      memory.close();
      assertThatThrownBy(memory::address).isInstanceOf(IllegalStateException.class);
    }
  }

  /** Some containers forbid the system call, even to root. */
  private static void requireDescriptorCopies() {
    try {
      FileDescriptors.close(FileDescriptors.copyFrom(ProcessHandle.current().pid(), 1));
    } catch (Ep4jException e) {
      assumeTrue(false, String.valueOf(e.getMessage()));
    }
  }

  private static void run(String... arguments) throws IOException, InterruptedException {
    List<String> lines = ForkedJvm.run(Importer.class, Map.of(), List.of(arguments));
    lines.forEach(System.out::println);
  }
}
