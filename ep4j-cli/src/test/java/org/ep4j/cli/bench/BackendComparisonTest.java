package org.ep4j.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.CombineOrder;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.NodeChoice;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.config.BackendName;
import org.ep4j.config.EngineName;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.verify.RoutingKind;
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

  @Test
  void theErrorOfTheLastBackendIsThrownIfNoneCanBeUsed() {
    assumeTrue(CudaDevice.count() == 0, "there is a GPU");
    BenchSettings settings =
        new BenchSettings(
            BenchSettings.Kind.HT,
            EngineName.CUDA,
            8,
            8,
            List.of(),
            8,
            256,
            2,
            8,
            List.of(Payload.BF16),
            Layout.FLAT,
            true,
            CombineOrder.RANK,
            BenchSettings.Mode.EXACT,
            RoutingKind.UNIFORM,
            0,
            new IterationPlan(1, 0, 1),
            1,
            new BenchSettings.LowLatencyVariant(false, false, false, false, false),
            List.of(0),
            NodeChoice.HOSTS,
            List.of(BackendName.NCCL, BackendName.NVSHMEM),
            new NcclChoice(false, false));
    ByteArrayOutputStream printed = new ByteArrayOutputStream();

    ThreadRanks.run(
        1,
        group -> {
          RankContext context =
              new RankContext(
                  group,
                  new CommandAgreement(group),
                  settings,
                  Progress.silent(),
                  new PrintStream(printed, false, UTF_8),
                  TraceRecorder.of(group, 0));
          assertThatThrownBy(() -> new BackendComparison(context, true, _ -> {}).run())
              .isInstanceOf(EngineUnavailableException.class);
        });

    assertThat(printed.toString(UTF_8).split("not measured: ", -1)).hasSize(3);
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
