package org.ep4j.nvshmem;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.ep4j.cuda.driver.compiler.NvJitLink;
import org.ep4j.cuda.jit.DevicePart;
import org.ep4j.cuda.jit.LibraryShim;
import org.ep4j.cuda.jit.LinkedKernels;
import org.ep4j.error.ErrorCode;

/** NVSHMEM's device library, and the shim of its functions ({@code device_put.cu}). */
final class NvshmemDevice {
  private static final String ARCHIVE = "libnvshmem_device.a";
  private static final String SOURCE = "device_put.cu";
  private static final String HEADER = "nvshmemx.h";

  private NvshmemDevice() {}

  /** The shim for the loaded version. */
  static LibraryShim shim() {
    return shim(
        NvshmemLibrary.version(),
        NvshmemLibrary.places().directoryWith(HEADER, NvshmemLibrary.name()).stream().toList());
  }

  static LibraryShim shim(int[] version, List<Path> headers) {
    return new LibraryShim(
        "NVSHMEM " + version[0] + "." + version[1],
        source(),
        Map.of("EP4J_MAJOR", String.valueOf(version[0]), "EP4J_MINOR", String.valueOf(version[1])),
        headers,
        HEADER + " of this version, next to the library or in EP4J_NVSHMEM_HOME");
  }

  private static String source() {
    try (InputStream in = NvshmemDevice.class.getResourceAsStream(SOURCE)) {
      if (in == null) {
        throw new AssertionError(SOURCE + " is in this jar");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Why kernels cannot be linked to it; empty if nothing is known to be missing. */
  static String problem() {
    String remedy =
        ": install the developer package of NVSHMEM, or set its directory in EP4J_NVSHMEM_HOME";
    for (NvshmemFunction function : NvshmemFunction.values()) {
      if (!NvshmemLibrary.has(function)) {
        return NvshmemLibrary.name() + " has no " + function.symbol() + remedy;
      }
    }
    return archive().isPresent()
        ? LinkedKernels.problem()
        : "no " + ARCHIVE + " next to " + NvshmemLibrary.name() + remedy;
  }

  private static Optional<Path> archive() {
    return NvshmemLibrary.places()
        .directoryWith(ARCHIVE, NvshmemLibrary.name())
        .map(directory -> directory.resolve(ARCHIVE));
  }

  /**
   * Parts that kernels are linked to.
   *
   * @throws org.ep4j.error.Ep4jException with the remedy if a part is missing
   */
  static List<DevicePart> parts(String architecture) {
    String problem = problem();
    if (!problem.isEmpty()) {
      throw new NvshmemException(ErrorCode.NVSHMEM_DEVICE_LIBRARY, problem);
    }
    Path archive = archive().orElseThrow();
    try {
      return List.of(
          shim().compile(architecture),
          new DevicePart(NvJitLink.Input.LIBRARY, Files.readAllBytes(archive), ARCHIVE));
    } catch (IOException e) {
      throw new NvshmemException(
          ErrorCode.NVSHMEM_DEVICE_LIBRARY, archive + " cannot be read: " + e);
    }
  }
}
