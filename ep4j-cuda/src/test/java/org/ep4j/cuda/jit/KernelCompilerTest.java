package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KernelCompilerTest {
  private static final long LIMIT = 1L << 30;
  private static final KernelSpec SPEC =
      KernelSpec.of("probe/smoke.cu", Map.of("SMOKE_OFFSET", "1.0f"), "sm_90a");

  @TempDir private Path directory;

  /** The backend of a machine without a compiler. */
  private static final CompilerBackend NONE =
      new CompilerBackend() {
        @Override
        public LibrarySearch find() {
          return new LibrarySearch("", "no NVRTC anywhere");
        }

        @Override
        public String identity() {
          throw new AssertionError("no compiler");
        }

        @Override
        public Compiled compile(KernelSpec spec) {
          throw new AssertionError("no compiler");
        }
      };

  private static final byte[] MADE_IMAGE = {7, 7, 7, 7, 7};

  /** A compiler whose output is always the same. */
  private static final CompilerBackend MADE =
      new CompilerBackend() {
        @Override
        public LibrarySearch find() {
          return new LibrarySearch("here", "");
        }

        @Override
        public String identity() {
          return "made1.0";
        }

        @Override
        public Compiled compile(KernelSpec spec) {
          return new Compiled(MADE_IMAGE.clone(), "");
        }
      };

  @Test
  void aKernelIsCompiledOnceAndThenFound() {
    CompilerBackend backend = anyCompiler();
    KernelCompiler first = new KernelCompiler(backend, new CubinCache(directory, LIMIT));
    KernelCompiler.Cubin compiled = first.compile(SPEC);
    assertThat(compiled.origin()).isEqualTo(KernelCompiler.Origin.COMPILED);
    assertThat(compiled.image()).startsWith(0x7f, 'E', 'L', 'F');
    assertThat(KernelResources.parse(compiled.log())).extracting("name").containsExactly("smoke");
    assertThat(first.compile(SPEC).origin()).isEqualTo(KernelCompiler.Origin.MEMORY);
    KernelCompiler.Cubin cached =
        new KernelCompiler(backend, new CubinCache(directory, LIMIT)).compile(SPEC);
    assertThat(cached.origin()).isEqualTo(KernelCompiler.Origin.DISK);
    assertThat(cached.image()).isEqualTo(compiled.image());
  }

  @Test
  void kernelsOfEverNewShapesDoNotFillTheMemory() {
    KernelCompiler compiler = new KernelCompiler(MADE, new CubinCache(directory, LIMIT));
    compiler.compile(SPEC);
    assertThat(compiler.compile(SPEC).origin()).isEqualTo(KernelCompiler.Origin.MEMORY);
    for (int shape = 0; shape < SharedResults.MAX; shape++) {
      compiler.compile(
          KernelSpec.of("probe/smoke.cu", Map.of("SMOKE_OFFSET", shape + "f"), "sm_90a"));
    }
    assertThat(compiler.compile(SPEC).origin()).isEqualTo(KernelCompiler.Origin.DISK);
  }

  @Test
  void aDamagedFileIsCompiledAgain() throws IOException {
    CompilerBackend backend = anyCompiler();
    new KernelCompiler(backend, new CubinCache(directory, LIMIT)).compile(SPEC);
    Path file = directory.resolve(SPEC.key(backend.identity()) + ".cubin");
    byte[] content = Files.readAllBytes(file);
    content[content.length / 2] ^= 1;
    Files.write(file, content);
    KernelCompiler again = new KernelCompiler(backend, new CubinCache(directory, LIMIT));
    assertThat(again.compile(SPEC).origin()).isEqualTo(KernelCompiler.Origin.COMPILED);
    assertThat(again.cache().get(SPEC.key(backend.identity()))).isPresent();
  }

  @Test
  void withoutACompilerTheCacheIsEnough() {
    CubinCache cache = new CubinCache(directory, LIMIT);
    cache.put(SPEC.key("nvrtc13.0"), SPEC.description(), new byte[] {1, 2, 3});
    KernelCompiler.Cubin found = new KernelCompiler(NONE, cache).compile(SPEC);
    assertThat(found.origin()).isEqualTo(KernelCompiler.Origin.DISK);
    assertThat(found.image()).containsExactly(1, 2, 3);
  }

  @Test
  void theFirstRequestForAKernelIsAnEvent() throws IOException {
    CubinCache cache = new CubinCache(directory.resolve("cache"), LIMIT);
    KernelCompiler compiler = new KernelCompiler(MADE, cache);
    Path file = directory.resolve("kernels.jfr");
    try (Recording recording = new Recording()) {
      recording.start();
      compiler.compile(SPEC);
      compiler.compile(SPEC); // from memory: no event
      new KernelCompiler(MADE, cache).compile(SPEC);
      recording.stop();
      recording.dump(file);
    }
    assertThat(RecordingFile.readAllEvents(file))
        .filteredOn(event -> event.getEventType().getName().equals("org.ep4j.Compile"))
        .filteredOn(event -> event.getString("kernel").equals(SPEC.description()))
        .filteredOn(event -> event.getLong("bytes") == MADE_IMAGE.length)
        .extracting(event -> event.getString("architecture") + " " + event.getBoolean("cached"))
        .containsExactlyInAnyOrder("sm_90a false", "sm_90a true");
  }

  @Test
  void shippedKernelNeedsNoCompiler() {
    CubinCache shipped = new CubinCache(directory.resolve("shipped"), LIMIT);
    shipped.put(SPEC.key("nvcc13.0"), SPEC.description(), new byte[] {4, 5, 6});
    CubinCache own = new CubinCache(directory.resolve("own"), LIMIT);
    KernelCompiler compiler = new KernelCompiler(NONE, own, shipped);
    KernelCompiler.Cubin found = compiler.compile(SPEC);
    assertThat(found.origin()).isEqualTo(KernelCompiler.Origin.SHIPPED);
    assertThat(found.image()).containsExactly(4, 5, 6);
    // None for other sources.
    KernelSpec other = KernelSpec.of("probe/smoke.cu", Map.of("SMOKE_OFFSET", "2.0f"), "sm_90a");
    assertThatThrownBy(() -> compiler.compile(other))
        .isInstanceOf(EngineUnavailableException.class);
  }

  @Test
  void aGeneralKernelReplacesASpecialisedOneButNoneOfAnotherProtocol() {
    assumeTrue(
        !"0".equals(System.getenv("EP4J_CUDA_SPECIALIZE")), "specialised kernels are switched off");
    Map<String, String> variant = Map.of("SMOKE_OFFSET", "1.0f");
    KernelConstants constants = new KernelConstants(variant, Map.of("SMOKE_SHAPE", "8"));
    KernelSpec general = KernelSpec.of("probe/smoke.cu", Map.of(), "sm_90a");
    CubinCache cache = new CubinCache(directory, LIMIT);
    cache.put(general.key("nvrtc13.0"), general.description(), new byte[] {1});
    KernelCompiler compiler = new KernelCompiler(NONE, cache);
    assertThatThrownBy(() -> compiler.best("probe/smoke.cu", constants, "sm_90a"))
        .isInstanceOf(EngineUnavailableException.class);

    cache.put(SPEC.key("nvrtc13.0"), SPEC.description(), new byte[] {2});
    KernelSpec found = compiler.best("probe/smoke.cu", constants, "sm_90a");
    assertThat(found.defines()).isEqualTo(variant);

    KernelSpec special =
        KernelSpec.of(
            "probe/smoke.cu", Map.of("SMOKE_OFFSET", "1.0f", "SMOKE_SHAPE", "8"), "sm_90a");
    cache.put(special.key("nvrtc13.0"), special.description(), new byte[] {3});
    found = compiler.best("probe/smoke.cu", constants, "sm_90a");
    assertThat(found.fingerprint()).isEqualTo(special.fingerprint());
  }

  @Test
  void preparedKernelsAreFoundInMemory() throws InterruptedException {
    KernelSpec spec = KernelSpec.of("probe/smoke.cu", Map.of(), "sm_90a");
    CountDownLatch asked = new CountDownLatch(1);
    CompilerBackend slow =
        new CompilerBackend() {
          @Override
          public LibrarySearch find() {
            return new LibrarySearch("here", "");
          }

          @Override
          public String identity() {
            return "slow1.0";
          }

          @Override
          public Compiled compile(KernelSpec wanted) {
            assertThat(asked.getCount()).as("compiled once").isEqualTo(1);
            asked.countDown();
            return new Compiled(new byte[] {1, 2, 3}, "");
          }
        };
    KernelCompiler compiler = new KernelCompiler(slow, new CubinCache(directory, LIMIT));
    compiler.prepare(Map.of("probe/smoke.cu", KernelConstants.NONE), "sm_90a");
    compiler.prepare(Map.of("probe/smoke.cu", KernelConstants.NONE), "sm_90a");
    assertThat(asked.await(1, TimeUnit.MINUTES)).isTrue();
    KernelCompiler.Cubin found = compiler.compile(spec);
    assertThat(found.origin()).isEqualTo(KernelCompiler.Origin.MEMORY);
    assertThat(found.image()).containsExactly(1, 2, 3);
  }

  @Test
  void withoutCompilerAndCubinTheMessageReportsBothAndTheRemedy() {
    KernelCompiler compiler = new KernelCompiler(NONE, new CubinCache(directory, LIMIT));
    assertThatThrownBy(() -> compiler.compile(SPEC))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageStartingWith(ErrorCode.KERNEL_COMPILER_MISSING.id())
        .hasMessageContaining("no NVRTC anywhere")
        .hasMessageContaining(directory.toString())
        .hasMessageContaining("probe/smoke.cu")
        .hasMessageContaining("cache warm --arch sm_90a");
  }

  @Test
  void architectureThatNvrtcDoesNotSupportIsReported() {
    Gpu.requireNvrtc();
    KernelSpec spec = KernelSpec.of("probe/smoke.cu", SPEC.defines(), "sm_30");
    KernelCompiler compiler =
        new KernelCompiler(new NvrtcBackend(), new CubinCache(directory, LIMIT));
    assertThatThrownBy(() -> compiler.compile(spec))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageStartingWith(ErrorCode.KERNEL_ARCHITECTURE.id())
        .hasMessageContaining("sm_30")
        .hasMessageContaining("EP4J_NVRTC");
  }

  @Test
  void aCompiledKernelRunsOnTheDevice() {
    try (CudaDevice device = Gpu.open()) {
      Gpu.requireNvrtc();
      KernelCompiler compiler =
          new KernelCompiler(new NvrtcBackend(), new CubinCache(directory, LIMIT));
      int count = 1000;
      try (CudaModule module =
              compiler.load(device, "probe/smoke.cu", Map.of("SMOKE_OFFSET", "3.0f"));
          Launch launch = Launch.of(module.kernel("smoke"), LaunchConfig.of(8, 128), 16);
          CudaStream stream = CudaStream.create(device);
          DeviceMemory out = DeviceMemory.allocate(device, 4L * count)) {
        launch.parameters().set(ValueLayout.JAVA_LONG, 0, out.address());
        launch.parameters().set(ValueLayout.JAVA_INT, 8, count);
        launch.parameters().set(ValueLayout.JAVA_FLOAT, 12, 2f);
        launch.launch(stream);
        stream.synchronize();
        float[] seen = new float[count];
        out.copyTo(0, MemorySegment.ofArray(seen));
        for (int i = 0; i < count; i++) {
          assertThat(seen[i]).isEqualTo(2f * i + 3f);
        }
      }
    }
  }

  private static CompilerBackend anyCompiler() {
    NvrtcBackend nvrtc = new NvrtcBackend();
    NvccBackend nvcc = new NvccBackend();
    assumeTrue(
        nvrtc.find().found() || nvcc.find().found(), "this machine has neither NVRTC nor nvcc");
    return nvrtc.find().found() ? nvrtc : nvcc;
  }
}
