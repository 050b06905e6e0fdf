package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** The mask of ranks in the caller's memory. */
@OnFakeDriver
class MaskQueryTest {
  @Test
  void maskIsWrittenIntoMemoryOfTheDevice() {
    OneRank.run(
        rank -> {
          int device = rank.batch.x.device();
          Tensor words = Tensor.ofDevice(rank.batch.x.address(), device, DType.INT32, 2);
          words.copyFrom(Tensor.of(new int[] {7, 8}, 2).segment());
          rank.buffer.queryMask(words.rows(0, 1));
          assertThat(words.toIntArray()).containsExactly(0, 8);
        });
  }

  @Test
  void maskInMemoryOfAnotherDeviceIsRefused() {
    OneRank.run(
        rank -> {
          int other = rank.batch.x.device() + 1;
          Tensor mask = Tensor.ofDevice(rank.batch.x.address(), other, DType.INT32, 1);
          assertThatThrownBy(() -> rank.buffer.queryMask(mask))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageStartingWith(ErrorCode.CUDA_TENSOR_MEMORY.id());
        });
  }
}
