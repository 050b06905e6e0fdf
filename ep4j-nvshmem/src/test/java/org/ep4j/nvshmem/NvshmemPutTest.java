package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.cuda.backend.LibraryModule;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.driver.compiler.NvJitLink;
import org.ep4j.cuda.jit.DevicePart;
import org.ep4j.cuda.jit.LibraryShim;
import org.ep4j.cuda.jit.LinkedKernels;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.ep4j.cuda.put.PutConfig;
import org.ep4j.cuda.put.PutProbe;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Puts, signals and flushes of kernels by NVSHMEM's device library. */
class NvshmemPutTest {
  private static final String ARCHITECTURE = "sm_90a";

  /** A version whose shim is in no cache. */
  private static final int[] NOBODY_HAS_IT = {3, 99, 0};

  @TempDir private Path headers;

  @Test
  void processesPutByTheDeviceLibrary() {
    Gpus.require(2);
    assumeTrue(NvshmemDevice.problem().isEmpty(), NvshmemDevice::problem);
    new ProcessWorld().run(2, Exchange.class, List.of("0", "NVSHMEM's device library"));
  }

  /** NVSHMEM reaches ranks of declared nodes by itself. */
  @Test
  void declaredNodesUseTheLibraryInternally() {
    Gpus.require(2);
    assumeTrue(NvshmemDevice.problem().isEmpty(), NvshmemDevice::problem);
    new ProcessWorld().run(2, Exchange.class, List.of("1", "NVSHMEM's device library"));
  }

  @Test
  void headersOfAnotherVersionAreRefusedWithTheRemedy() throws IOException {
    Files.writeString(headers.resolve("nvshmem.h"), "");
    Files.writeString(
        headers.resolve("nvshmemx.h"),
        "#define NVSHMEM_VENDOR_MAJOR_VERSION 3\n#define NVSHMEM_VENDOR_MINOR_VERSION 2\n");
    LibraryShim shim = NvshmemDevice.shim(NOBODY_HAS_IT, List.of(headers));
    assumeTrue(shim.compiler().found(), () -> shim.compiler().problem());
    assertThatThrownBy(() -> shim.compile(ARCHITECTURE))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageStartingWith(
            ErrorCode.KERNEL_COMPILER_MISSING.message(
                "no device functions of NVSHMEM 3.99 for sm_90a"))
        .hasMessageContaining("in EP4J_NVSHMEM_HOME")
        .hasMessageContaining("headers of another version of NVSHMEM");
  }

  @ParameterizedTest
  @ValueSource(strings = {ARCHITECTURE, "sm_100a"})
  void kernelsAreLinkedToTheDeviceLibraryIfItsHeadersAreAvailable(String architecture) {
    assumeTrue(!NvshmemLibrary.name().isEmpty(), "no NVSHMEM");
    LibraryShim shim = NvshmemDevice.shim();
    assumeTrue(shim.compiler().found(), () -> shim.compiler().problem());
    assumeTrue(LinkedKernels.problem().isEmpty(), LinkedKernels::problem);
    List<DevicePart> parts = NvshmemDevice.parts(architecture);
    assertThat(parts).extracting(DevicePart::kind).contains(NvJitLink.Input.LIBRARY);
    for (String file : PrebuiltKernels.linkedFiles()) {
      byte[] cubin = LinkedKernels.link(architecture, file, LibraryModule.DEFINES, parts).cubin();
      assertThat(cubin).as(file).startsWith(0x7f, 'E', 'L', 'F');
      assertThat(new String(cubin, StandardCharsets.ISO_8859_1)).as(file).contains(".text.ep4j_");
    }
  }

  /**
   * Two ranks exchange blocks from kernels. Arguments: ranks per node (0: those of a host), a part
   * of the description of the transport.
   */
  public static final class Exchange implements RankJob {
    private static final PutShape ANY = new PutShape(256, 1, 1);
    private static final int WARPS = 16;
    private static final long[] SIZES = {16, 112, 4096, 14336, 131_072};

    /** Used by reflection. */
    public Exchange() {}

    @Override
    public void run(Group group, List<String> arguments) {
      int ranksPerNode = Integer.parseInt(arguments.get(0));
      PutConfig config =
          new PutConfig("nvshmem", ANY, ranksPerNode, "auto", Duration.ofSeconds(30));
      try (PutProbe probe = PutProbe.open(group, config, WARPS, SIZES[SIZES.length - 1])) {
        assertThat(probe.text()).contains(arguments.get(1));
        for (long size : SIZES) {
          assertThat(probe.exchange(size, 20)).as(size + " bytes").isZero();
          assertThat(probe.latency(size, 20)).isPositive();
          assertThat(probe.stream(WARPS, size, 10)).isPositive();
        }
      }
    }
  }
}
