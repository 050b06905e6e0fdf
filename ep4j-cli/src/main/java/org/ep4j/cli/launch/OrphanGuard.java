package org.ep4j.cli.launch;

import java.util.Map;
import java.util.Optional;
import org.ep4j.cli.ExitCodes;

/**
 * Ends a rank when its parent process has ended. After a {@code kill -9} of the launcher no other
 * process does.
 */
final class OrphanGuard {
  private static final String VARIABLE = "EP4J_PARENT_PID";

  private OrphanGuard() {}

  /** Passes the id of this process to a child. */
  static void arm(Map<String, String> environment) {
    environment.put(VARIABLE, String.valueOf(ProcessHandle.current().pid()));
  }

  /** Watches the parent if the environment names it. */
  static void start() {
    String parent = System.getenv(VARIABLE);
    if (parent == null || !parent.chars().allMatch(Character::isDigit)) {
      return;
    }
    Optional<ProcessHandle> handle = ProcessHandle.of(Long.parseLong(parent));
    if (handle.isEmpty()) {
      Runtime.getRuntime().halt(ExitCodes.PEER);
    } else {
      var _ = handle.get().onExit().thenRun(() -> Runtime.getRuntime().halt(ExitCodes.PEER));
    }
  }
}
