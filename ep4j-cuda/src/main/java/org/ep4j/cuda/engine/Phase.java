package org.ep4j.cuda.engine;

/** What a kernel waited for; numbered as in {@code kernels/protocol.cuh}. */
enum Phase {
  /** Not a phase. */
  NONE("start"),
  /** For a peer to begin the operation. */
  ENTER("entry"),
  /** For a peer's counts. */
  COUNTS("counts"),
  /** For a peer's rows. */
  ROWS("rows"),
  /** For other blocks of the same kernel. */
  BLOCKS("own blocks"),
  /** For a rank of another node to empty what was sent to it. */
  ROOM("room");

  private static final Phase[] ALL = values();

  /** For people. */
  final String text;

  Phase(String text) {
    this.text = text;
  }

  static Phase of(long number) {
    return number >= 0 && number < ALL.length ? ALL[(int) number] : NONE;
  }
}
