package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.internode.CuttableWireProvider;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Failures between nodes are reported in time, and the device serves the next buffer. */
class InternodeFailureTest {
  private static final int TOKENS = 24;

  private static BufferConfig.Builder config(String wire) {
    return Batch.config()
        .lowLatency(TOKENS)
        .ranksPerNode(1)
        .wire(wire)
        .timeout(Duration.ofSeconds(2));
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.conformance.world.NodeWires#all")
  void aSilentRankOfAnotherNodeIsNamedInTime(String wire) {
    Gpu.require(1);
    CyclicBarrier step = new CyclicBarrier(2);
    ThreadRanks.run(
        2,
        group -> {
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(group.rank(), 1);
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config(wire).build())) {
              roundTrip(buffer, batch);
              try {
                if (group.rank() == 0) {
                  isToldOfItsPeer(buffer, batch);
                }
              } finally {
                step.await(30, TimeUnit.SECONDS);
              }
              buffer.reset();
              roundTrip(buffer, batch);
            }
            try (ExpertBuffer again = ExpertBuffer.open(group, config(wire).build())) {
              roundTrip(again, batch);
            }
          }
        });
  }

  @Test
  void aPathThatOneRankFindsCutEndsTheWaitsOfBoth() {
    Gpu.require(1);
    BufferConfig config = config(CuttableWireProvider.NAME).timeout(Duration.ofMinutes(3)).build();
    ThreadRanks.run(
        2,
        Duration.ofMinutes(1),
        group -> {
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(group.rank(), 1);
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
              roundTrip(buffer, batch);
              group.barrier(Duration.ofSeconds(30));
              if (group.rank() == 1) {
                CuttableWireProvider.reportCut(1, 0);
              }
              assertThatThrownBy(
                      () -> {
                        // The notice may arrive during the first of them.
                        roundTrip(buffer, batch);
                        roundTrip(buffer, batch);
                      })
                  .isInstanceOf(PeerTimeoutException.class)
                  .hasMessageContaining("rank " + (1 - group.rank()) + " is unreachable");
            }
          }
        });
  }

  private static void isToldOfItsPeer(ExpertBuffer buffer, Batch batch) {
    assertThatThrownBy(() -> dispatch(buffer, batch))
        .isInstanceOfSatisfying(PeerTimeoutException.class, e -> assertThat(e.peer()).isEqualTo(1))
        .hasMessageContaining("low-latency dispatch")
        .hasMessageMatching(".* after [1-9]\\d{3} ms; .*");
  }

  private static LowLatencyDispatch dispatch(ExpertBuffer buffer, Batch batch) {
    return buffer.lowLatencyDispatch(
        batch.x, batch.routing, LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
  }

  private static void roundTrip(ExpertBuffer buffer, Batch batch) {
    LowLatencyDispatch received = dispatch(buffer, batch);
    buffer.lowLatencyCombine(
        received.x(), batch.routing, received.handle(), LowLatencyCombineOptions.DEFAULT);
  }
}
