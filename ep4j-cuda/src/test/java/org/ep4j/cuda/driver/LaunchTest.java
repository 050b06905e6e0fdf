package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Needs a GPU and NVRTC. */
class LaunchTest {
  private static final String SOURCE =
      """
      struct Parameters { float* out; int count; float scale; int table[500]; };

      extern "C" __global__ void line(const __grid_constant__ Parameters p) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < p.count) p.out[i] = p.scale * i + p.table[499];
      }

      extern "C" __global__ void sum(long long* out, int a, long long b, float c) {
        extern __shared__ int room[];
        room[threadIdx.x] = a;
        *out = room[threadIdx.x] + b + static_cast<int>(c);
      }

      extern "C" __global__ void crowd(unsigned* arrived, unsigned* seen) {
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x) { }
        atomicAdd(seen, 1u);
      }

      extern "C" __global__ void cluster(unsigned* out) {
        unsigned size = 0;
      #if __CUDA_ARCH__ >= 900
        asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
      #endif
        if (threadIdx.x == 0) out[blockIdx.x] = size;
      }

      __device__ int counter = 42;
      """;
  private static final int PARAMETER_BYTES = 8 + 4 + 4 + 500 * 4;
  private static final int WINDOW = 1000;
  private static final int MIN_WINDOWS = 30;
  private static final int MAX_WINDOWS = 200;

  @SuppressWarnings("NullAway.Init") // before each test
  private CudaDevice device;

  @SuppressWarnings("NullAway.Init") // before each test
  private CudaModule module;

  @SuppressWarnings("NullAway.Init") // before each test
  private CudaStream stream;

  @BeforeEach
  void open() {
    device = Gpu.open();
    module = Gpu.compile(device, SOURCE);
    stream = CudaStream.create(device);
  }

  @AfterEach
  void close() {
    if (stream != null) {
      stream.close();
      module.close();
    }
    if (device != null) {
      device.close();
    }
  }

  @Test
  void aKernelReadsItsStructure() {
    Kernel kernel = module.kernel("line");
    assertThat(kernel.registers()).isPositive();
    assertThat(kernel.localBytes()).isZero();
    assertThat(kernel.maxThreadsPerBlock()).isEqualTo(1024);
    assertThat(kernel.maxActiveBlocksPerSm(256, 0)).isPositive();
    try (Launch launch = Launch.of(kernel, LaunchConfig.of(4, 256), PARAMETER_BYTES);
        DeviceMemory out = DeviceMemory.allocate(device, 4000)) {
      MemorySegment parameters = launch.parameters();
      parameters.set(ValueLayout.JAVA_LONG, 0, out.address());
      parameters.set(ValueLayout.JAVA_INT, 8, 1000);
      parameters.set(ValueLayout.JAVA_FLOAT, 12, 0.5f);
      parameters.set(ValueLayout.JAVA_INT, PARAMETER_BYTES - 4, 7);
      launch.launch(stream);
      stream.synchronize();
      float[] seen = new float[1000];
      out.copyTo(0, MemorySegment.ofArray(seen));
      for (int i = 0; i < seen.length; i++) {
        assertThat(seen[i]).isEqualTo(0.5f * i + 7);
      }
    }
  }

  @Test
  void aKernelReadsSeveralParameters() {
    Kernel kernel = module.kernel("sum");
    kernel.setMaxDynamicSharedBytes(64 << 10);
    LaunchConfig config = LaunchConfig.of(1, 32).withDynamicSharedBytes(64 << 10);
    try (Launch launch = Launch.of(kernel, config, 8, 4, 8, 4);
        DeviceMemory out = DeviceMemory.allocate(device, 8)) {
      launch.setLong(0, out.address());
      launch.setInt(1, -3);
      launch.setLong(2, 1L << 40);
      launch.setFloat(3, 2f);
      launch.launch(stream.handle());
      stream.synchronize();
      long[] seen = new long[1];
      out.copyTo(0, MemorySegment.ofArray(seen));
      assertThat(seen[0]).isEqualTo((1L << 40) - 1);
    }
  }

  @Test
  void aCooperativeLaunchRunsAllItsBlocksAtOnce() {
    assumeTrue(device.properties().cooperativeLaunch());
    int blocks = device.properties().multiprocessors();
    try (Launch launch =
            Launch.of(module.kernel("crowd"), LaunchConfig.of(blocks, 1).asCooperative(), 8, 8);
        DeviceMemory words = DeviceMemory.allocate(device, 8)) {
      words.fill32(0, 2, 0, stream);
      launch.setLong(0, words.address());
      launch.setLong(1, words.address() + 4);
      launch.launch(stream);
      stream.synchronize();
      int[] seen = new int[2];
      words.copyTo(0, MemorySegment.ofArray(seen));
      assertThat(seen).containsExactly(blocks, blocks);
    }
  }

  @Test
  void aCooperativeLaunchThatDoesNotFitIsRefused() {
    assumeTrue(device.properties().cooperativeLaunch());
    try (Launch launch =
        Launch.of(module.kernel("crowd"), LaunchConfig.of(1 << 20, 1).asCooperative(), 8, 8)) {
      assertThatThrownBy(() -> launch.launch(stream))
          .isInstanceOf(CudaException.class)
          .hasMessageStartingWith(ErrorCode.CUDA_CALL_FAILED.id())
          .hasMessageContaining("cuLaunchKernelEx")
          .hasMessageContaining("COOPERATIVE_LAUNCH_TOO_LARGE");
    }
  }

  @Test
  void programmaticLaunchesFollowOneAnother() {
    assumeTrue(device.properties().major() >= 9, "the device starts no kernel early");
    LaunchConfig config = LaunchConfig.of(1, 1).withDynamicSharedBytes(128).asProgrammatic();
    try (Launch launch = Launch.of(module.kernel("sum"), config, 8, 4, 8, 4);
        DeviceMemory out = DeviceMemory.allocate(device, 80)) {
      for (int i = 0; i < 10; i++) {
        launch.setLong(0, out.address() + 8L * i);
        launch.setLong(2, i);
        launch.launch(stream);
      }
      stream.synchronize();
      long[] seen = new long[10];
      out.copyTo(0, MemorySegment.ofArray(seen));
      assertThat(seen).containsExactly(0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    }
  }

  @Test
  void clustersHaveTheirSize() {
    assumeTrue(device.properties().clusterLaunch(), "the device has no clusters");
    try (Launch launch =
            Launch.of(module.kernel("cluster"), LaunchConfig.of(8, 32).withClusterBlocks(4), 8);
        DeviceMemory out = DeviceMemory.allocate(device, 32)) {
      assertThat(launch.maxActiveClusters()).isPositive();
      launch.setLong(0, out.address());
      launch.launch(stream);
      stream.synchronize();
      int[] seen = new int[8];
      out.copyTo(0, MemorySegment.ofArray(seen));
      assertThat(seen).containsOnly(4);
    }
  }

  @Test
  void aLaunchIsRecordedIntoAGraph() {
    try (Launch launch = Launch.of(module.kernel("sum"), LaunchConfig.of(1, 1), 8, 4, 8, 4);
        DeviceMemory out = DeviceMemory.allocate(device, 8)) {
      launch.setDynamicSharedBytes(128);
      launch.setLong(0, out.address());
      launch.setLong(2, 5);
      stream.beginCapture();
      launch.launch(stream);
      try (CudaGraph graph = stream.endCapture();
          CudaGraphExec exec = graph.instantiate()) {
        launch.setLong(2, 6); // the graph has its own copy
        exec.launch(stream);
        stream.synchronize();
        long[] seen = new long[1];
        out.copyTo(0, MemorySegment.ofArray(seen));
        assertThat(seen[0]).isEqualTo(5);
      }
    }
  }

  @Test
  void parametersOfAnotherSizeAreRefused() {
    Kernel kernel = module.kernel("line");
    assumeTrue(!kernel.parameterBytes().isEmpty(), "the driver does not report sizes");
    assertThat(kernel.parameterBytes()).containsExactly(PARAMETER_BYTES);
    assertThatThrownBy(() -> Launch.of(kernel, LaunchConfig.of(1, 1), PARAMETER_BYTES + 8))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_KERNEL_PARAMETERS.id());
  }

  @Test
  void excessiveSharedMemoryIsRefused() {
    assertThatThrownBy(() -> module.kernel("sum").setMaxDynamicSharedBytes(1 << 20))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_SHARED_MEMORY.id());
  }

  @Test
  void variablesAreFound() {
    CudaModule.Global counter = module.global("counter");
    assertThat(counter.bytes()).isEqualTo(4);
    int[] seen = new int[1];
    DeviceCopies.toHost(device, MemorySegment.ofArray(seen), counter.address());
    assertThat(seen[0]).isEqualTo(42);
  }

  @Test
  void missingKernelNamesAreReported() {
    assertThatThrownBy(() -> module.kernel("absent"))
        .isInstanceOf(CudaException.class)
        .hasMessageContaining("absent in test.cu");
    assertThatThrownBy(() -> module.global("absent")).isInstanceOf(CudaException.class);
  }

  @Test
  void invalidCubinIsRefused() {
    assertThatThrownBy(() -> CudaModule.load(device, new byte[256], "rubbish"))
        .isInstanceOf(CudaException.class)
        .hasMessageContaining("loading rubbish on device 0");
  }

  @Test
  void kernelsOfAClosedModuleReportIt() {
    Kernel kernel = module.kernel("line");
    module.close();
    module.close();
    assertThatThrownBy(kernel::handle)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_CLOSED.id());
  }

  @Test
  void aWarmLaunchAllocatesNothing() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    try (Launch launch = Launch.of(module.kernel("sum"), LaunchConfig.of(1, 1), 8, 4, 8, 4);
        DeviceMemory out = DeviceMemory.allocate(device, 8);
        CudaEvent event = CudaEvent.create(device);
        PointerReader reader = PointerReader.create()) {
      launch.setDynamicSharedBytes(128);
      long allocated = 1;
      long nanos = 0;
      for (int window = 0;
          window < MIN_WINDOWS || (allocated != 0 && window < MAX_WINDOWS);
          window++) {
        long before = threads.getCurrentThreadAllocatedBytes();
        long start = System.nanoTime();
        for (int i = 0; i < WINDOW; i++) {
          device.makeCurrent();
          reader.read(out.address());
          launch.setLong(0, out.address() + 8L * reader.device());
          launch.setLong(2, i);
          launch.setGrid(1, 1, 1);
          launch.launch(stream);
          event.record(stream);
          stream.waitFor(event);
        }
        nanos = System.nanoTime() - start;
        allocated = threads.getCurrentThreadAllocatedBytes() - before;
        stream.synchronize();
      }
      System.out.println("a warm launch with its event takes " + nanos / WINDOW + " ns");
      assertThat(allocated).isZero();
    }
  }
}
