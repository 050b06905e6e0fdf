package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.cuda.backend.LibraryModule;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.jit.DevicePart;
import org.ep4j.cuda.jit.LibraryShim;
import org.ep4j.cuda.jit.LinkedKernels;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.ep4j.cuda.put.PutConfig;
import org.ep4j.cuda.put.PutProbe;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Puts, signals and flushes of kernels with backend {@code nccl}. */
class NcclPutTest {
  private static final String ARCHITECTURE = "sm_90a";

  /** A version whose shim is in no cache. */
  private static final int NOBODY_HAS_IT = 29901;

  private static final String STORES = "nccl, stores";
  private static final File PORTS = new File("/sys/class/infiniband");

  @TempDir private Path headers;

  @Test
  void ranksOfANodePutByStoresIntoWindows() {
    Gpus.require(2);
    new ThreadWorld().run(2, Exchange.class, List.of("0", STORES));
    new ProcessWorld().run(2, Exchange.class, List.of("0", STORES));
  }

  private static boolean hasPorts() {
    String[] devices = PORTS.list();
    return devices != null && devices.length > 0;
  }

  /** GIN is refused with a reason, which is logged, and puts use the remaining transport. */
  @Test
  void withoutPortsForGinTheProxyPutsOverTheWire() {
    Gpus.require(2);
    assumeFalse(hasPorts(), "this host may have GIN");
    new ProcessWorld().run(2, Exchange.class, List.of("1", "proxy over nccl"));
  }

  @Test
  void withPortsForGinItPuts() {
    Gpus.require(2);
    assumeTrue(hasPorts(), "no InfiniBand or RoCE on this machine");
    new ProcessWorld().run(2, Exchange.class, List.of("1", "GIN of NCCL"));
  }

  @Test
  void differingContextsAreReportedOnAllRanks() {
    ThreadRanks.run(
        3,
        group ->
            assertThatThrownBy(
                    () ->
                        NcclGin.requireSame(
                            group,
                            Duration.ofSeconds(10),
                            "EP4J_NCCL_GIN_COMMS",
                            group.rank() == 2 ? "8" : ""))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageContaining("EP4J_NCCL_GIN_COMMS is '' on rank 0 and '8' on rank 2")
                .hasMessageStartingWith(ErrorCode.NCCL_CONTEXTS_DIFFER.id()));
  }

  @Test
  void headersOfAnotherVersionAreRefusedWithTheRemedy() throws IOException {
    Files.writeString(
        headers.resolve("nccl_device.h"),
        "#define NCCL_VERSION_CODE 22903\n"
            + "#define NCCL_VERSION(a, b, c) (a * 10000 + b * 100 + c)\n");
    LibraryShim shim = NcclShim.of(NOBODY_HAS_IT, List.of(headers));
    assumeTrue(shim.compiler().found(), () -> shim.compiler().problem());
    assertThatThrownBy(() -> shim.compile(ARCHITECTURE))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageStartingWith(
            ErrorCode.KERNEL_COMPILER_MISSING.message(
                "no device functions of NCCL 2.99.1 for sm_90a"))
        .hasMessageContaining("in EP4J_NCCL_HOME")
        .hasMessageContaining("headers of another version of NCCL");
  }

  @Test
  void missingHeadersAreReportedWithTheRemedy() {
    LibraryShim shim = NcclShim.of(NOBODY_HAS_IT, List.of());
    assertThat(shim.compiler().found()).isFalse();
    assertThatThrownBy(() -> shim.compile(ARCHITECTURE))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageContaining("nccl_device.h of exactly this version")
        .hasMessageContaining("no device headers of NCCL 2.99.1");
  }

  @ParameterizedTest
  @ValueSource(strings = {ARCHITECTURE, "sm_100a"})
  void kernelsAreLinkedToGinIfItsHeadersAreAvailable(String architecture) {
    assumeTrue(NcclLibrary.version() >= NcclShim.OLDEST, "no NCCL with GIN");
    LibraryShim shim = NcclShim.of();
    assumeTrue(shim.compiler().found(), () -> shim.compiler().problem());
    assumeTrue(LinkedKernels.problem().isEmpty(), LinkedKernels::problem);
    List<DevicePart> parts = List.of(shim.compile(architecture));
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
      PutConfig config = new PutConfig("nccl", ANY, ranksPerNode, "auto", Duration.ofSeconds(30));
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
