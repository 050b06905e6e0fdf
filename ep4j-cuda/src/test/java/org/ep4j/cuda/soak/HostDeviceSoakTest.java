package org.ep4j.cuda.soak;

import java.io.IOException;
import java.nio.file.Path;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests the soak itself without a GPU: its kernels, compiled for the host, over the host engine.
 */
class HostDeviceSoakTest extends DeviceSoakKit {
  @TempDir static Path directory;

  private static HostMachine.Library library;

  @BeforeAll
  static void compile() throws IOException, InterruptedException {
    library = HostMachine.Library.compile(directory);
  }

  @Override
  void requireMachine() {
    // Without a compiler the whole test is skipped.
  }

  @Override
  String engine() {
    return "host";
  }

  @Override
  SoakMachine machine(int rank) {
    return new HostMachine(library);
  }

  @Override
  long epochs() {
    return TestScale.part(600);
  }

  @Override
  int maxTokens() {
    return 48;
  }
}
