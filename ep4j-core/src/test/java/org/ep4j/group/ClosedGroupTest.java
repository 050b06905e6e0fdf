package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.group.TcpWorld.LONG;

import org.ep4j.group.protocol.Deadline;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Isolated;

/** Counts threads of the whole process, so no other test may run at the same time. */
@Isolated
@Timeout(60)
class ClosedGroupTest {
  @Test
  void nothingIsLeftAfterClosing() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      TcpWorld.inEach(
          world.joinAll(),
          group -> {
            group.barrier(LONG);
            try (Group next = group.survivors(LONG)) {
              next.barrier(LONG);
            }
          });
    }
    Deadline deadline = Deadline.after(LONG);
    while (ep4jThreads() > 0 && !deadline.expired()) {
      Thread.sleep(10);
    }
    assertThat(ep4jThreads()).isZero();
  }

  private static long ep4jThreads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(t -> t.getName().startsWith("ep4j-"))
        .count();
  }
}
