package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.bf16;

import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLContext;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.ep4j.wire.WireException;
import org.ep4j.wire.tcp.pipe.Certified;
import org.junit.jupiter.api.Test;

/** Buffers whose wire between nodes encrypts with certificates of the caller. */
class CertificatesTest {
  private static final int RANKS = 2;
  private static final int HIDDEN = 16;
  private static final Duration LONG = Duration.ofSeconds(20);

  private static ExpertBuffer open(Group group, WireOptions options, Duration timeout) {
    return ExpertBuffer.open(
        group,
        BufferConfig.builder()
            .engine("host")
            .hidden(HIDDEN)
            .experts(RANKS)
            .topK(1)
            .ranksPerNode(1)
            .wire(WireName.TCP)
            .wireOptions(options)
            .highThroughput(1)
            .timeout(timeout)
            .build());
  }

  private static WireOptions with(SSLContext context) {
    return WireOptions.builder().sslContext(context).build();
  }

  @Test
  void rowsTravelOnceEachRankTrustsTheOther() throws Exception {
    AtomicInteger checks = new AtomicInteger();
    SSLContext context = Certified.create().trusting(checks::incrementAndGet);
    ThreadRanks.run(
        RANKS,
        LONG,
        group -> {
          try (ExpertBuffer buffer = open(group, with(context), LONG)) {
            assertThat(buffer.config().wireOptions().sslContext()).containsSame(context);
            short[] row = new short[HIDDEN];
            Arrays.fill(row, bf16(group.rank() + 1));
            var dispatch =
                buffer.dispatch(
                    Tensor.ofBf16(row, 1, HIDDEN),
                    Routing.of(new long[] {1 - group.rank()}, new float[] {1}, 1));
            assertThat(dispatch.x().getFloat(0)).isEqualTo(2f - group.rank());
            try (var handle = dispatch.handle()) {
              Tensor sum = buffer.combine(dispatch.x(), handle).x();
              assertThat(sum.getFloat(0)).isEqualTo(group.rank() + 1f);
            }
          }
        });
    assertThat(checks).as("both ends of the connection have asked the context").hasValue(RANKS);
  }

  @Test
  void aRankThatTheOthersDoNotTrustOpensNoBuffer() throws Exception {
    Certified[] own = {Certified.create(), Certified.create()};
    SSLContext good = own[0].trusting(own);
    SSLContext untrusted = Certified.create().trusting(own);
    assertNoRankOpens(
        with(good), with(untrusted), Duration.ofSeconds(3), WireException.class, "sslContext");
  }

  @Test
  void ranksOfWhichOnlyOneHasAContextAreTold() throws Exception {
    SSLContext context = Certified.create().trustingAll();
    assertNoRankOpens(
        with(context),
        WireOptions.DEFAULT,
        LONG,
        ConfigurationMismatchException.class,
        "sslContext=given");
  }

  private static void assertNoRankOpens(
      WireOptions ofRank0,
      WireOptions ofRank1,
      Duration timeout,
      Class<? extends Exception> error,
      String text) {
    ThreadRanks.run(
        RANKS,
        LONG,
        group ->
            assertThatThrownBy(() -> open(group, group.rank() == 0 ? ofRank0 : ofRank1, timeout))
                .isInstanceOf(error)
                .hasMessageContaining(text));
  }
}
