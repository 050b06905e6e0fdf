package org.ep4j.cuda.driver.compiler;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.driver.ForkedJvm;
import org.junit.jupiter.api.Test;

class RunningCompilationsTest {
  @Test
  void theEndOfTheProcessWaitsForACompilation() throws IOException, InterruptedException {
    assertThat(ForkedJvm.run(CompilationAtExit.class, Map.of(), List.of()))
        .containsExactly("compiled");
  }
}
