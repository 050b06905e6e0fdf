package org.ep4j.cuda.driver;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Supplier;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/** Errors of calls of the driver that found too little memory: what is wanted, what is free. */
final class MissingMemory {
  private static final Path MEMINFO = Path.of("/proc/meminfo");

  private MissingMemory() {}

  /** The error for memory of a device; errors other than missing memory unchanged. */
  static Ep4jException ofDevice(CudaException e, CudaDevice device, long bytes) {
    return of(e, () -> device.wants(bytes));
  }

  /** The error for what needs an unknown number of bytes of a device; other errors unchanged. */
  static Ep4jException ofDevice(CudaException e, CudaDevice device, String wanted) {
    return of(e, () -> wanted + " on " + device + " is wanted, " + device.freeText());
  }

  /** The error for page-locked memory of the host; other errors unchanged. */
  static Ep4jException ofHost(CudaException e, CudaDevice device, long bytes) {
    return of(
        e,
        () ->
            bytes + " bytes of page-locked memory for " + device + " are wanted, " + freeOnHost());
  }

  private static Ep4jException of(CudaException e, Supplier<String> details) {
    return e.isOutOfMemory() ? error(e, details.get()) : e;
  }

  /** The error for missing memory. */
  static Ep4jException error(CudaException e, String details) {
    return new Ep4jException(ErrorCode.GPU_OUT_OF_MEMORY, e.text() + "; " + details, e);
  }

  private static String freeOnHost() {
    try {
      List<String> lines = Files.readAllLines(MEMINFO);
      return bytes(lines, "MemAvailable:")
          + " of "
          + bytes(lines, "MemTotal:")
          + " bytes of the host are free";
    } catch (IOException e) {
      return "what is free on the host is unknown (" + e + ")";
    }
  }

  /** A number of kB. */
  private static long bytes(List<String> lines, String name) throws IOException {
    for (String line : lines) {
      if (line.startsWith(name)) {
        return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
      }
    }
    throw new IOException(MEMINFO + " has no " + name);
  }
}
