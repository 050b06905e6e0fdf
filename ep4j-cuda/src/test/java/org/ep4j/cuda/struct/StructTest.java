package org.ep4j.cuda.struct;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;

class StructTest {
  private static final class Sample extends Struct {
    final Pointer rows = pointer("const struct SampleRow*", "rows");
    final Receipt receipt = nested(new Receipt(), "receipt");
    final U64 tokenCount = u64("token_count");

    Sample() {
      super("SampleParameters");
      unused("unused", 2);
    }
  }

  private final long[] memory = new long[7];
  private final Sample sample = new Sample();

  private void place() {
    sample.placeIn(MemorySegment.ofArray(memory));
  }

  @Test
  void fieldsAreWrittenInTheirOrder() {
    place();
    sample.rows.set(1L << 40);
    sample.receipt.ticket.set(2);
    sample.receipt.completed.set(3L);
    sample.tokenCount.set(4);
    assertThat(memory).containsExactly(1L << 40, 2, 3, 4, 0, 0, 0);
    assertThat(sample.tokenCount.offset()).isEqualTo(24);
    assertThat(sample.bytes()).isEqualTo(48);
  }

  @Test
  void flagsAreOneOrZero() {
    place();
    sample.tokenCount.set(true);
    assertThat(memory[3]).isOne();
    sample.tokenCount.set(false);
    assertThat(memory[3]).isZero();
  }

  @Test
  @SuppressWarnings("deprecation") // elsewhere an error of the compiler
  void aNumberOf32BitsIsNoAddress() {
    place();
    assertThatThrownBy(() -> sample.rows.set(7)).isInstanceOf(AssertionError.class);
    sample.rows.set(7L);
    sample.rows.setNull();
    assertThat(memory[0]).isZero();
  }

  @Test
  void aStructureWithoutAPlaceRefusesWrites() {
    assertThatThrownBy(() -> sample.tokenCount.set(1))
        .isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> sample.receipt.ticket.set(1))
        .isInstanceOf(IndexOutOfBoundsException.class);
  }

  @Test
  void aPlaceMustHaveRoom() {
    assertThatThrownBy(() -> sample.placeIn(MemorySegment.ofArray(new long[5])))
        .isInstanceOf(IndexOutOfBoundsException.class);
  }

  @Test
  void aPointerHasTheTypeOfOne() {
    assertThatThrownBy(() -> sample.pointer("u64", "number")).isInstanceOf(AssertionError.class);
  }

  @Test
  void theDeclarationIsThatOfC() {
    assertThat(sample.file()).isEqualTo("structs/sample_parameters.cuh");
    assertThat(sample.declaration())
        .isEqualTo(
            """
            // Generated from org.ep4j.cuda.struct.StructTest$Sample, which documents the fields.
            #pragma once
            #include "common/ptx.cuh"
            #include "structs/receipt.cuh"

            struct SampleParameters {
              const struct SampleRow* rows;
              Receipt receipt;
              u64 token_count;
              u64 unused[2];
            };

            static_assert(sizeof(SampleParameters::rows) == 8, "SampleParameters::rows");
            static_assert(sizeof(SampleParameters::receipt) == 16, "SampleParameters::receipt");
            static_assert(sizeof(SampleParameters::token_count) == 8, "SampleParameters::token_count");
            static_assert(sizeof(SampleParameters::unused) == 16, "SampleParameters::unused");
            static_assert(sizeof(SampleParameters) == 48, "SampleParameters");
            """);
  }
}
