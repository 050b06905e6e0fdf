package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.function.UnaryOperator;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.rendezvous.Rendezvous;
import org.junit.jupiter.api.Test;

class GroupConfigTest {
  private static void assertBad(
      UnaryOperator<GroupConfig.Builder> change, ErrorCode code, String part) {
    GroupConfig.Builder good = GroupConfig.builder().rank(1).size(4).rendezvous("h", 1).secret("s");
    assertThatThrownBy(() -> change.apply(good).build())
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.id())
        .hasMessageContaining(part);
  }

  @Test
  void badValuesAreRefusedWithNameValueAndLimit() {
    assertBad(b -> b.rank(4), ErrorCode.GROUP_SIZE, "rank = 4; it must be from 0 to size - 1 (3)");
    assertBad(b -> b.rank(-1), ErrorCode.GROUP_SIZE, "rank = -1");
    assertBad(b -> b.size(0), ErrorCode.GROUP_SIZE, "size = 0; it must be from 1 to 65536");
    assertBad(b -> b.rendezvous(" ", 1), ErrorCode.RENDEZVOUS_ADDRESS, "host = ''");
    assertBad(b -> b.rendezvous("h", 65_536), ErrorCode.RENDEZVOUS_ADDRESS, "port = 65536");
    assertBad(b -> b.secret(""), ErrorCode.SECRET_MISSING, "EP4J_SECRET");
    assertBad(b -> b.job("x".repeat(201)), ErrorCode.JOB_NAME, "job = 201 characters");
    assertBad(b -> b.joinTimeout(Duration.ZERO), ErrorCode.GROUP_TIMING, "joinTimeout = PT0S");
    assertBad(
        b -> b.heartbeatInterval(Duration.ZERO),
        ErrorCode.GROUP_TIMING,
        "heartbeatInterval = PT0S");
    assertBad(
        b -> b.livenessTimeout(Duration.ofMillis(499)),
        ErrorCode.GROUP_TIMING,
        "livenessTimeout = PT0.499S; it must be at least two heartbeat intervals (PT0.25S each)");
  }

  @Test
  void rankZeroHostsByDefault() {
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
    assertThatThrownBy(() -> Group.join(config))
        .hasMessageStartingWith(ErrorCode.RENDEZVOUS_ADDRESS.id());
    assertThatThrownBy(() -> Rendezvous.open(GroupConfig.builder().build()))
        .hasMessageStartingWith(ErrorCode.SECRET_MISSING.id());
  }
}
