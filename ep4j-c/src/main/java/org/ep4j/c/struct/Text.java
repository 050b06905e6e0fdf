package org.ep4j.c.struct;

import java.nio.charset.StandardCharsets;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/** Strings of C: UTF-8 that ends with 0. */
public final class Text {
  private static final int CONTINUATION_MASK = 0xc0;
  private static final int CONTINUATION = 0x80;

  private Text() {}

  /** The string at an address; null for NULL. */
  public static @Nullable String read(long address) {
    return address == 0 ? null : NativeMemory.view(address, Long.MAX_VALUE).getString(0);
  }

  /** Writes a string into a field, cut at a character if it is too long. */
  public static void write(long address, int capacity, String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    int length = Math.min(bytes.length, capacity - 1);
    while (length < bytes.length
        && length > 0
        && (bytes[length] & CONTINUATION_MASK) == CONTINUATION) {
      length--;
    }
    for (int i = 0; i < length; i++) {
      NativeMemory.putByte(address + i, bytes[i]);
    }
    NativeMemory.putByte(address + length, (byte) 0);
  }
}
