package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.ep4j.cli.CommandFailure;
import org.junit.jupiter.api.Test;

class IpToolTest {
  @Test
  void aProgramThatDoesNotEndIsReportedAtItsDeadline() {
    assertThatThrownBy(() -> IpTool.run(List.of("sleep", "20"), 1))
        .isInstanceOf(CommandFailure.class)
        .hasMessageContaining("'sleep 20' did not end within 1 s");
  }

  @Test
  void theWholeOutputIsTheAnswer() throws InterruptedException {
    IpTool.Answer answer =
        IpTool.run(List.of("sh", "-c", "head -c 200000 /dev/zero; echo last >&2; exit 3"), 60);

    assertThat(answer.ok()).isFalse();
    assertThat(answer.text()).hasSize(200_005).endsWith("last\n");
  }
}
