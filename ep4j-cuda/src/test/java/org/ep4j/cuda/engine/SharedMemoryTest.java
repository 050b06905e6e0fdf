package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Tensors with overlapping memory. */
class SharedMemoryTest {
  private static final int TOKENS = 64;

  @Test
  void receivedRowsCanBeDispatchedInPlace() {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
              ExpertBuffer buffer = ExpertBuffer.open(group, Batch.config(TOKENS).build());
              Batch batch = new Batch(device, TOKENS);
              Batch copy = new Batch(device, TOKENS)) {
            batch.fill(group.rank(), 1);
            Dispatch first = buffer.dispatch(batch.x, batch.routing);
            assertThat(first.rows()).isGreaterThanOrEqualTo(TOKENS);
            byte[] rows = bytes(first.x().rows(0, TOKENS));
            copy.x.copyFrom(MemorySegment.ofArray(rows));
            byte[] inPlace = bytes(buffer.dispatch(first.x().rows(0, TOKENS), batch.routing).x());
            byte[] fromCopy = bytes(buffer.dispatch(copy.x, batch.routing).x());
            assertThat(inPlace).isEqualTo(fromCopy);
          }
        });
  }

  @Test
  void sumsMustNotOverlapTheirRows() {
    Gpu.require(1);
    ThreadRanks.run(
        1,
        group -> {
          try (CudaDevice device = CudaDevice.open(0);
              ExpertBuffer buffer = ExpertBuffer.open(group, Batch.config(TOKENS).build());
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(0, 1);
            Dispatch dispatch = buffer.dispatch(batch.x, batch.routing);
            Tensor y = dispatch.x();
            try (DispatchHandle handle = dispatch.handle()) {
              CombineOptions onY = CombineOptions.builder().out(y.rows(0, TOKENS)).build();
              assertThatThrownBy(() -> buffer.combine(y, handle, onY))
                  .isInstanceOf(InvalidArgumentException.class)
                  .hasMessageStartingWith(ErrorCode.OUTPUT_OVERLAPS.id());
            }
          }
        });
  }

  private static byte[] bytes(Tensor tensor) {
    byte[] bytes = new byte[(int) tensor.byteSize()];
    tensor.copyTo(MemorySegment.ofArray(bytes));
    return bytes;
  }
}
