package org.ep4j.cli;

import java.util.Set;
import org.ep4j.error.ErrorCode;

/** The systems that ep4j runs on. Elsewhere the first call of the system would fail obscurely. */
final class Platform {
  private static final Set<String> ARCHITECTURES = Set.of("amd64", "aarch64");

  private Platform() {}

  /** Whether this is such a system. */
  static boolean isSupported() {
    return system().equals("Linux") && ARCHITECTURES.contains(architecture());
  }

  /** Reports that it is none; returns the exit code. */
  static int refuse() {
    System.err.println(
        "ep4j: "
            + ErrorCode.UNSUPPORTED_SYSTEM.message(
                "this machine runs %s on %s: use Linux on x86-64 or AArch64"
                    .formatted(system(), architecture())));
    return ExitCodes.UNAVAILABLE;
  }

  private static String system() {
    return System.getProperty("os.name");
  }

  private static String architecture() {
    return System.getProperty("os.arch");
  }
}
