package org.ep4j.c;

/** Where native code enters: {@code ep4j_start} calls {@link #table}, and nothing else by name. */
public final class Abi {
  /** {@code EP4J_ABI_VERSION} of {@code ep4j.h}. */
  static final long VERSION = 1;

  /** Built once, for the life of the process. */
  private static final class Built {
    static final long TABLE = Stubs.table(ApiFunction.values(), VERSION);
  }

  private Abi() {}

  /** Address of the table {@code ep4j_api}; valid until the process ends. Any thread. */
  public static long table() {
    return Built.TABLE;
  }
}
