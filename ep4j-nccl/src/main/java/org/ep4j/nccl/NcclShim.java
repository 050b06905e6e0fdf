package org.ep4j.nccl;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.jit.LibraryShim;
import org.ep4j.nccl.gin.GinTable;

/** The shim of the device functions of NCCL's GIN ({@code device_put.cu}). */
final class NcclShim {
  /** The first version with device functions for networks. */
  static final int OLDEST = 22807;

  private static final String SOURCE = "device_put.cu";
  private static final String HEADER = "nccl_device.h";

  private NcclShim() {}

  /** The shim for the loaded version. */
  static LibraryShim of() {
    return of(
        NcclLibrary.version(),
        NcclLibrary.places().directoryWith(HEADER, NcclLibrary.name()).stream().toList());
  }

  static LibraryShim of(int version, List<Path> headers) {
    return new LibraryShim(
        "NCCL " + NcclBackendProvider.text(version),
        source(),
        defines(version),
        headers,
        HEADER + " of exactly this version, next to the library or in EP4J_NCCL_HOME");
  }

  private static Map<String, String> defines(int version) {
    Map<String, String> defines = new HashMap<>(GinTable.DEFINES);
    defines.put("EP4J_NCCL_VERSION", String.valueOf(version));
    return defines;
  }

  private static String source() {
    try (InputStream in = NcclShim.class.getResourceAsStream(SOURCE)) {
      if (in == null) {
        throw new AssertionError(SOURCE + " is in this jar");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
