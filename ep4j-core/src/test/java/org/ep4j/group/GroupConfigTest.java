package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

class GroupConfigTest {
  private static void assertBad(UnaryOperator<GroupConfig.Builder> change, String message) {
    GroupConfig.Builder good = GroupConfig.builder().rank(1).size(4).rendezvous("h", 1).secret("s");
    assertThatThrownBy(() -> change.apply(good).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(message);
  }

  @Test
  void badValuesAreRefusedWithNameValueAndLimit() {
    assertBad(b -> b.rank(4), "rank is 4; it must be from 0 to size - 1 = 3");
    assertBad(b -> b.rank(-1), "rank is -1; it must be");
    assertBad(b -> b.size(0), "size is 0; it must be from 1 to 65536");
    assertBad(b -> b.rendezvous(" ", 1), "host is empty; name the host of the rendezvous");
    assertBad(b -> b.rendezvous("h", 65_536), "port is 65536; it must be");
    assertBad(b -> b.secret(""), "secret is empty; give all ranks the same long random text");
    assertBad(b -> b.job("x".repeat(201)), "job has 201 characters; at most 200");
    assertBad(b -> b.joinTimeout(Duration.ZERO), "joinTimeout is PT0S; it must be positive");
    assertBad(
        b -> b.heartbeatInterval(Duration.ZERO),
        "heartbeatInterval is PT0S; it must be at least 1 ms");
    assertBad(
        b -> b.livenessTimeout(Duration.ofMillis(499)),
        "livenessTimeout is PT0.499S; it must be at least two heartbeat intervals (PT0.25S each)");
  }

  @Test
  void rankZeroHostsUnlessToldOtherwise() {
    GroupConfig.Builder builder = GroupConfig.builder().size(2).secret("s");
    assertThat(builder.rank(0).build().hostsRendezvous()).isTrue();
    assertThat(builder.rank(1).build().hostsRendezvous()).isFalse();
    assertThat(builder.rank(0).hostsRendezvous(false).build().hostsRendezvous()).isFalse();
  }

  @Test
  void theTextDoesNotShowTheSecret() {
    GroupConfig config = GroupConfig.builder().size(2).secret("hush-hush").job("j").build();
    assertThat(config.toString())
        .isEqualTo("rank 0 of 2, rendezvous 127.0.0.1:29400 (hosted here), job 'j', secret given");
    assertThat(config.toBuilder().build()).isEqualTo(config);
  }

  @Test
  void aRankCannotJoinAtPortZero() {
    GroupConfig config = GroupConfig.builder().size(2).secret("s").rendezvous("h", 0).build();
    assertThatThrownBy(() -> Group.join(config)).hasMessageStartingWith("port is 0");
    assertThatThrownBy(() -> Rendezvous.open(GroupConfig.builder().build()))
        .hasMessageStartingWith("secret is empty; a rendezvous needs one");
  }
}
