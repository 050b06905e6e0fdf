package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

@Execution(ExecutionMode.CONCURRENT)
@Timeout(90)
class ScarceDescriptorsTest {
  private static ForkedJvm.Ended run(Class<?> program) throws Exception {
    return ForkedJvm.run(
        List.of("sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"),
        program,
        List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m"),
        List.of());
  }

  @Test
  void aRendezvousOutlivesALackOfDescriptorsAndNamesIt() throws Exception {
    ForkedJvm.Ended run = run(RendezvousWithoutDescriptors.class);

    assertThat(run.lines()).endsWith("joined").filteredOn("joined"::equals).hasSize(2);
    assertThat(run.lines())
        .anyMatch(line -> line.contains("cannot accept connections (out of file descriptors?): "));
    assertThat(run.exitCode()).isZero();
  }

  @Test
  void aRankWithoutDescriptorsDeclaresNoOtherOneDead() throws Exception {
    ForkedJvm.Ended run = run(SurvivorsWithoutDescriptors.class);

    assertThat(run.lines())
        .contains(
            ErrorCode.JOIN_FAILED.message(
                "survivors: this process cannot open a connection to rank 0 (Too many open"
                    + " files): raise its limit of open files (ulimit -n), and call survivors()"
                    + " again"),
            "3 survive",
            "3 and 3");
    assertThat(run.exitCode()).isZero();
  }

  @Test
  void aRankThatCannotJoinAtItsOwnRendezvousClosesIt() throws Exception {
    ForkedJvm.Ended run = run(JoinWithFewDescriptors.class);

    assertThat(run.lines()).noneMatch(line -> line.endsWith("leaks"));
    assertThat(run.lines())
        .filteredOn(line -> line.matches("\\d+ free: (?!joined).*"))
        .hasSizeGreaterThan(3)
        .allMatch(line -> line.matches("\\d+ free: [A-Za-z]+: EP4J-\\d+: .*"));
    assertThat(run.exitCode()).isZero();
  }
}
