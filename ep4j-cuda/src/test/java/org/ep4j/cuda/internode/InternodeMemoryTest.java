package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class InternodeMemoryTest {
  private static final long GIB = 1L << 30;

  private static InternodeMemory memory(
      String wire, boolean gpuDirect, long incomingGib, long outgoingGib) {
    InternodeSizes sizes = new InternodeSizes(0, 0, incomingGib * GIB, outgoingGib * GIB, 0, 1, 0);
    return memory(wire, gpuDirect, 2, sizes);
  }

  private static InternodeMemory memory(
      String wire, boolean gpuDirect, int ranks, InternodeSizes sizes) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .placement(ExpertPlacement.blocks(ranks, ranks))
            .lowLatency(LowLatencyConfig.builder().maxTokens(1).build())
            .ranksPerNode(1)
            .wire(wire)
            .wireOptions(WireOptions.builder().gpuDirect(gpuDirect).build())
            .build();
    return InternodeMemory.of(config, Nodes.of(config), 0, sizes, Map.of());
  }

  @ParameterizedTest
  @CsvSource({"tcp, false, 65, 1", "tcp, false, 1, 65", "verbs, true, 33, 32"})
  void memoryThatCommandsCannotAddressIsRefused(
      String wire, boolean gpuDirect, long incomingGib, long outgoingGib) {
    assertThatThrownBy(() -> memory(wire, gpuDirect, incomingGib, outgoingGib))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PUT_SHAPE.id())
        .hasMessageContaining("lowLatency.maxTokens");
  }

  @Test
  void memoryThatCommandsCanAddressIsNotRefused() {
    assertThat(memory(WireName.TCP, false, 64, 64).incomingBytes()).isEqualTo(64 * GIB);
    assertThat(memory(WireName.VERBS, true, 32, 32).outgoingBytes()).isEqualTo(32 * GIB);
    // Kernels write there without commands.
    assertThat(memory(WireName.SHM, false, 65, 65).incomingBytes()).isEqualTo(65 * GIB);
  }

  /** Of a slot of high throughput, or of words of low latency. */
  @ParameterizedTest
  @CsvSource({"16777216, 0", "1024, 16777216"})
  void putsThatAreTooLongForACommandAreRefused(long tokenBytes, long lowLatencyPutBytes) {
    InternodeSizes sizes = new InternodeSizes(16, tokenBytes, 1024, 1024, lowLatencyPutBytes, 1, 0);
    assertThatThrownBy(() -> memory(WireName.TCP, false, 2, sizes))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PUT_SHAPE.id())
        .hasMessageContaining("16777216");
    // Kernels write there without commands.
    assertThat(memory(WireName.SHM, false, 2, sizes).puts()).isFalse();
  }

  @Test
  void theLongestPutsOfCommandsAreNotRefused() {
    long longest = (16 << 20) - 16;
    InternodeSizes sizes = new InternodeSizes(16, (16 << 20) - 4096, 1024, 1024, longest, 1, 0);
    assertThat(memory(WireName.TCP, false, 2, sizes).puts()).isTrue();
  }

  /** Commands add to them also where kernels write the rows. */
  @ParameterizedTest
  @ValueSource(strings = {WireName.TCP, WireName.SHM})
  void countersThatCommandsCannotNameAreRefused(String wire) {
    InternodeSizes sizes = new InternodeSizes(0, 0, 1024, 1024, 64, 1 << 19, 0);
    assertThatThrownBy(() -> memory(wire, false, 2, sizes))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PUT_SHAPE.id())
        .hasMessageContaining("counters");
  }
}
