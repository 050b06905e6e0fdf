package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.text.Style;
import org.junit.jupiter.api.Test;

class BackendComparisonTest {
  @Test
  void figuresOfTheSameOperationAreSideBySide() {
    Map<String, List<Map<String, Object>>> columns = new LinkedHashMap<>();
    columns.put("direct", List.of(dispatch(100, 90), combine(200)));
    columns.put("nccl", List.of(combine(190), dispatch(103, Double.NaN)));
    String[] lines = BackendComparison.table(columns).render(Style.PLAIN).split("\n");
    assertThat(lines).hasSize(3);
    assertThat(lines[0]).matches("operation +direct +nccl");
    assertThat(lines[1]).matches("dispatch bf16, 32 SMs +100 us +103 us \\(\\+3\\.0 %\\)");
    assertThat(lines[2])
        .matches("ll_combine bf16, 128 tokens, graph +200 us +190 us \\(-5\\.0 %\\)");
  }

  private static Map<String, Object> dispatch(double micros, double kernel) {
    return Map.of(
        "op",
        "dispatch",
        "dtype",
        "bf16",
        "sms",
        32,
        "median_us",
        micros,
        "kernel_median_us",
        kernel);
  }

  private static Map<String, Object> combine(double micros) {
    return Map.of(
        "op",
        "ll_combine",
        "dtype",
        "bf16",
        "sms",
        0,
        "tokens",
        128,
        "as",
        "graph",
        "median_us",
        micros);
  }
}
