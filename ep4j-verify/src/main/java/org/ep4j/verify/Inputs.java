package org.ep4j.verify;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Random-looking rows from (seed, part, rank, row): every rank can generate the rows of all ranks
 * without communication. Values of the float types are finite, of both signs, and of magnitudes
 * (about 2^-7 to 2) whose sums need rounding; other types get any bits.
 *
 * @param seed of the run
 */
public record Inputs(long seed) {
  /** Purpose of the rows: each part has its own streams. */
  public enum Part {
    /** Token rows. */
    PAYLOAD,
    /** Block scales. */
    SCALES,
    /** One factor per token. */
    GLOBAL_SCALES,
    /** Rows that experts return. */
    EXPERT_OUTPUT,
    /** First bias. */
    BIAS0,
    /** Second bias. */
    BIAS1
  }

  /**
   * Rows of all ranks, generated on demand.
   *
   * @param columns elements of a row
   */
  public Rows rows(Part part, DType dtype, int columns) {
    MemorySegment scratch = MemorySegment.ofArray(new byte[(int) dtype.bytes(columns)]);
    return (rank, row) -> {
      fill(scratch, part, dtype, rank, row);
      return scratch;
    };
  }

  /** The rows of one rank as a tensor [rows, columns] in {@code arena}. */
  public Tensor tensor(Part part, DType dtype, int rank, long rows, int columns, Arena arena) {
    long rowBytes = dtype.bytes(columns);
    MemorySegment memory = arena.allocate(Math.max(1, rows * rowBytes), 64);
    Tensor tensor = Tensor.of(memory, dtype, rows, columns);
    fill(tensor, part, rank);
    return tensor;
  }

  /** Fills a tensor whose last dimension is a row with the rows of {@code rank} from 0. */
  public void fill(Tensor tensor, Part part, int rank) {
    int last = tensor.dimensions() - 1;
    long rowBytes = tensor.dtype().bytes(last == 0 ? 1 : tensor.size(last));
    HostCopy.write(
        tensor,
        memory -> {
          for (long row = 0, at = 0; at < memory.byteSize(); row++, at += rowBytes) {
            fill(memory.asSlice(at, rowBytes), part, tensor.dtype(), rank, row);
          }
        });
  }

  private void fill(MemorySegment target, Part part, DType dtype, int rank, long row) {
    long keep =
        switch (dtype) {
          case BF16 -> 0x83FF_83FF_83FF_83FFL;
          case FP16 -> 0x8FFF_8FFF_8FFF_8FFFL;
          case FP32 -> 0x81FF_FFFF_81FF_FFFFL;
          default -> -1;
        };
    long exponent =
        switch (dtype) {
          case BF16 -> 0x3C00_3C00_3C00_3C00L;
          case FP16 -> 0x3000_3000_3000_3000L;
          case FP32 -> 0x3E00_0000_3E00_0000L;
          default -> 0;
        };
    // The part changes the seed, so no two parts of a run share a stream.
    long partSeed = SplitMix.mix(SplitMix.mix(seed) + part.ordinal() + 1);
    SplitMix random = new SplitMix(SplitMix.tokenState(partSeed, rank, row));
    long bytes = target.byteSize();
    long whole = bytes & -Long.BYTES;
    for (long i = 0; i < whole; i += Long.BYTES) {
      target.set(ValueLayout.JAVA_LONG_UNALIGNED, i, random.next() & keep | exponent);
    }
    if (whole < bytes) {
      long rest = random.next() & keep | exponent;
      for (long i = whole; i < bytes; i++) {
        target.set(ValueLayout.JAVA_BYTE, i, (byte) (rest >>> (8 * (i - whole))));
      }
    }
  }
}
