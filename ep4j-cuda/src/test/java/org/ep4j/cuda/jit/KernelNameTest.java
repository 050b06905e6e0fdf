package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class KernelNameTest {
  private static final String SYMBOL = "_ZN4ep4j11low_latency12dispatch_fp8E20LowLatencyParameters";

  @Test
  void aSymbolIsThatOfTheCompiler() {
    assertThat(KernelName.symbol("low_latency::dispatch_fp8", "LowLatencyParameters"))
        .isEqualTo(SYMBOL);
  }

  @Test
  void aSymbolIsReadable() {
    assertThat(KernelName.readable(SYMBOL)).isEqualTo("ep4j::low_latency::dispatch_fp8");
  }

  @Test
  void otherSymbolsStay() {
    for (String symbol : new String[] {"ep4j_probe_push", "_ZNK3foo3barEv", "_ZN9xE", ""}) {
      assertThat(KernelName.readable(symbol)).isEqualTo(symbol);
    }
  }
}
