package org.ep4j.engine.host.kernel;

import static org.ep4j.engine.host.kernel.LogFmt.GROUP;

import org.ep4j.memory.NativeMemory;

/**
 * Rows in LogFMT-10, as {@link LogFmt} defines it: the order of work and the packing of bits.
 * Subclasses do the arithmetic of a group.
 *
 * <p>Between arithmetic and packing, codes are 16-bit words with the sign in the highest bit. They
 * lie at the destination of their chunk (or of the decoded row) and are packed in place: packed
 * writes of ten bits never overtake reads of sixteen.
 */
abstract class LogFmtRows {
  /** Mask of the lower of two neighbours, for four codes. */
  private static final long LOWER_CODES = 0x0000_01FF_0000_01FFL;

  /** The lower two of four packed codes. */
  private static final long LOWER_PAIR = 0x3_FFFFL;

  private static final long SIGNS = 0x8000_8000_8000_8000L;
  private static final long SPREAD = 1 | 1L << 15 | 1L << 30 | 1L << 45;

  /** The meta word of the group at {@code source}. */
  abstract int meta(long source);

  /** Writes the codes of the group at {@code source} to {@code codes}. */
  abstract void encodeGroup(long source, int meta, long codes);

  /** Converts the codes of a group into BF16 values, in place. */
  abstract void decodeGroup(long codes, int meta);

  /** Encodes a row; returns the bytes written. */
  final int encode(long source, int hidden, long target) {
    for (int group = 0; group < hidden / GROUP; group++) {
      NativeMemory.putInt(target + 4L * group, meta(source + 2L * GROUP * group));
    }
    int chunk = LogFmt.chunk(hidden);
    long at = target + LogFmt.metaBytes(hidden);
    for (int from = 0; from < hidden; from += chunk) {
      long metas = target + 4L * from / GROUP;
      if (packable(metas, chunk)) {
        for (int i = 0; i < chunk; i += GROUP) {
          int meta = NativeMemory.getInt(metas + 4L * i / GROUP);
          encodeGroup(source + 2L * (from + i), meta, at + 2L * i);
        }
        pack(at, chunk);
        at += LogFmt.packedBytes(chunk);
      } else {
        NativeMemory.copy(source + 2L * from, at, 2L * chunk);
        at += 2L * chunk;
      }
    }
    return (int) (at - target);
  }

  /** Decodes a row. */
  final void decode(long source, int hidden, long target) {
    int chunk = LogFmt.chunk(hidden);
    long at = source + LogFmt.metaBytes(hidden);
    for (int from = 0; from < hidden; from += chunk) {
      long metas = source + 4L * from / GROUP;
      if (packable(metas, chunk)) {
        unpack(at, target + 2L * from, chunk);
        for (int i = 0; i < chunk; i += GROUP) {
          decodeGroup(target + 2L * (from + i), NativeMemory.getInt(metas + 4L * i / GROUP));
        }
        at += LogFmt.packedBytes(chunk);
      } else {
        NativeMemory.copy(at, target + 2L * from, 2L * chunk);
        at += 2L * chunk;
      }
    }
  }

  private static boolean packable(long metas, int chunk) {
    for (int group = 0; group < chunk / GROUP; group++) {
      if (!LogFmt.packable(NativeMemory.getInt(metas + 4L * group))) {
        return false;
      }
    }
    return true;
  }

  /** Packs groups of 16 codes, 32 bytes, to 20 bytes. */
  private static void pack(long codes, int chunk) {
    for (int i = 0; i < chunk / 16; i++) {
      long from = codes + 32L * i;
      long to = codes + 20L * i;
      long a = NativeMemory.getLong(from);
      long b = NativeMemory.getLong(from + 8);
      long c = NativeMemory.getLong(from + 16);
      long d = NativeMemory.getLong(from + 24);
      long signs = signs(a) | signs(b) << 4 | signs(c) << 8 | signs(d) << 12;
      a = packFour(a);
      b = packFour(b);
      c = packFour(c);
      d = packFour(d);
      NativeMemory.putLong(to, a | b << 36);
      NativeMemory.putLong(to + 8, b >>> 28 | c << 8 | d << 44);
      NativeMemory.putInt(to + 16, (int) (d >>> 20 | signs << 16));
    }
  }

  private static void unpack(long packed, long codes, int chunk) {
    for (int i = 0; i < chunk / 16; i++) {
      long from = packed + 20L * i;
      long to = codes + 32L * i;
      long x = NativeMemory.getLong(from);
      long y = NativeMemory.getLong(from + 8);
      int z = NativeMemory.getInt(from + 16);
      NativeMemory.putLong(to, unpackFour(x) | unpackSigns(z >>> 16));
      NativeMemory.putLong(to + 8, unpackFour(x >>> 36 | y << 28) | unpackSigns(z >>> 20));
      NativeMemory.putLong(to + 16, unpackFour(y >>> 8) | unpackSigns(z >>> 24));
      NativeMemory.putLong(to + 24, unpackFour(y >>> 44 | (long) z << 20) | unpackSigns(z >>> 28));
    }
  }

  /** Four 9-bit codes from 16-bit fields to 36 bits. */
  private static long packFour(long codes) {
    long x = codes & LOWER_CODES | codes >>> 7 & LOWER_CODES << 9;
    return x & LOWER_PAIR | x >>> 14 & LOWER_PAIR << 18;
  }

  /** The inverse of {@link #packFour}; ignores upper bits of {@code packed}. */
  private static long unpackFour(long packed) {
    long x = packed & LOWER_PAIR | (packed & LOWER_PAIR << 18) << 14;
    return x & LOWER_CODES | (x & LOWER_CODES << 9) << 7;
  }

  /** The highest bits of four 16-bit fields as four bits: a product moves each to its place. */
  private static long signs(long codes) {
    return (codes & SIGNS) * SPREAD >>> 60;
  }

  /** The inverse of {@link #signs}; ignores upper bits of {@code signs}. */
  private static long unpackSigns(int signs) {
    return (signs & 0xF) * (SPREAD << 15) & SIGNS;
  }
}
