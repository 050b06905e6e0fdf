package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** Strings and lists of strings in native memory. */
public final class NativeStrings {
  private static final long LONGEST = 4096;

  private NativeStrings() {}

  /** Address of an array of addresses of the strings; 0 for none. */
  public static long array(Arena arena, List<String> texts) {
    if (texts.isEmpty()) {
      return 0;
    }
    MemorySegment table = arena.allocate(ValueLayout.JAVA_LONG, texts.size());
    for (int i = 0; i < texts.size(); i++) {
      table.setAtIndex(ValueLayout.JAVA_LONG, i, arena.allocateFrom(texts.get(i)).address());
    }
    return table.address();
  }

  /** The string of a library at an address. */
  @SuppressWarnings("restricted") // libraries return strings by address, without length
  public static String read(long address) {
    return address == 0 ? "" : MemorySegment.ofAddress(address).reinterpret(LONGEST).getString(0);
  }
}
