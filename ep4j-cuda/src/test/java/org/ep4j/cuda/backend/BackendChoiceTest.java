package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import java.util.Properties;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class BackendChoiceTest {
  private static final Map<String, String> BOTH =
      Map.of("EP4J_BACKEND", "nvshmem", "DEEP_EP_BACKEND", "nccl");

  @Test
  void directIsTheDefault() {
    assertThat(choice("auto", "", Map.of())).isEqualTo(new BackendChoice("direct", "default"));
  }

  @Test
  void theProgramOverridesThePropertyAndThePropertyTheVariables() {
    assertThat(choice("direct", "nccl", BOTH))
        .isEqualTo(new BackendChoice("direct", "BufferConfig.backend"));
    assertThat(choice("auto", "nccl", BOTH)).isEqualTo(new BackendChoice("nccl", "ep4j.backend"));
    assertThat(choice("auto", "", BOTH)).isEqualTo(new BackendChoice("nvshmem", "EP4J_BACKEND"));
    assertThat(choice("auto", "", Map.of("DEEP_EP_BACKEND", "nccl")))
        .isEqualTo(new BackendChoice("nccl", "DEEP_EP_BACKEND"));
  }

  @Test
  void autoInAVariableLeavesTheChoiceToTheNext() {
    assertThat(choice("auto", "auto", Map.of("EP4J_BACKEND", "AUTO", "DEEP_EP_BACKEND", "NVSHMEM")))
        .isEqualTo(new BackendChoice("nvshmem", "DEEP_EP_BACKEND"));
  }

  @Test
  void theOtherNameOfNcclIsAcceptedInTheForeignVariableOnly() {
    assertThat(choice("auto", "", Map.of("DEEP_EP_BACKEND", "nccl_gin")).name()).isEqualTo("nccl");
    assertThat(choice("auto", "", Map.of("EP4J_BACKEND", "nccl_gin")).name()).isEqualTo("nccl_gin");
  }

  @Test
  void invalidBackendNameIsRefused() {
    BufferConfig.Builder builder =
        BufferConfig.builder().hidden(128).topK(1).experts(1).highThroughput(1);
    for (String bad : new String[] {"", " ", "NCCL", "a b", "x=y"}) {
      assertThatThrownBy(() -> builder.backend(bad))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining("backend = '" + bad + "'");
    }
    assertThat(builder.backend("nccl").build().toBuilder().build().backend()).isEqualTo("nccl");
  }

  private static BackendChoice choice(
      String field, String property, Map<String, String> environment) {
    Properties properties = new Properties();
    properties.setProperty("ep4j.backend", property);
    return BackendChoice.of(field, properties, environment);
  }
}
