package org.ep4j.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;

class RenamedVariablesTest {
  @Test
  void theOldNameIsReadWhereTheNewOneIsNotSet() {
    Map<String, String> old = Map.of("EP4J_CUDA_SPECIAL", "0");
    assertThat(RenamedVariables.value(old, "EP4J_CUDA_SPECIALIZE")).isEqualTo("0");
    Map<String, String> both = Map.of("EP4J_CUDA_SPECIAL", "0", "EP4J_CUDA_SPECIALIZE", "1");
    assertThat(RenamedVariables.value(both, "EP4J_CUDA_SPECIALIZE")).isEqualTo("1");
    assertThat(RenamedVariables.value(Map.of(), "EP4J_CUDA_SPECIALIZE")).isNull();
    assertThat(RenamedVariables.value(Map.of("EP4J_RANK", "1"), "EP4J_RANK")).isEqualTo("1");
  }

  @Test
  void everyOldNameHasANewOne() {
    assertThat(RenamedVariables.oldNames())
        .isNotEmpty()
        .allSatisfy(old -> assertThat(RenamedVariables.newName(old)).isNotNull());
    assertThat(RenamedVariables.newName("EP4J_RANK")).isNull();
  }
}
