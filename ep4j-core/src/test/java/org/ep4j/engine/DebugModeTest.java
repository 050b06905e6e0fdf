package org.ep4j.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class DebugModeTest {
  @Test
  void propertyWinsOverTheVariable() {
    assertThat(DebugMode.isOn(null, null)).isFalse();
    assertThat(DebugMode.isOn(null, "1")).isTrue();
    assertThat(DebugMode.isOn("", "true")).isTrue();
    assertThat(DebugMode.isOn("false", "true")).isFalse();
    assertThat(DebugMode.isOn("TRUE", "0")).isTrue();
  }

  @Test
  void otherValuesAreRefused() {
    assertThatThrownBy(() -> DebugMode.isOn(null, "yes"))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.BUFFER_SETTING.message("EP4J_DEBUG = yes"));
    assertThatThrownBy(() -> DebugMode.isOn("on", "1"))
        .hasMessageStartingWith(ErrorCode.BUFFER_SETTING.message("ep4j.debug = on"));
  }
}
