package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class WorldTest {
  @Test
  void anErrorOfTheJvmOnAThreadKeepsItsType() {
    assertThatThrownBy(
            () ->
                World.threads(
                    1,
                    (_, _) -> {
                      throw new InternalError("a fault occurred in an unsafe memory access");
                    }))
        .isExactlyInstanceOf(InternalError.class);
  }
}
