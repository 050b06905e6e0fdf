package org.ep4j.cuda.engine.launch;

/** What a kernel waited for; numbered as in {@code kernels/common/protocol.cuh}. */
public enum Phase {
  /** No phase. */
  NONE("start"),
  /** A peer enters the operation. */
  ENTER("entry"),
  /** A peer sends its counts. */
  COUNTS("counts"),
  /** A peer sends its rows. */
  ROWS("rows"),
  /** Other blocks of the same kernel. */
  BLOCKS("own blocks"),
  /** A rank of another node frees receive slots. */
  ROOM("room");

  private static final Phase[] ALL = values();

  /** Name in messages. */
  public final String text;

  Phase(String text) {
    this.text = text;
  }

  public static Phase of(long number) {
    return number >= 0 && number < ALL.length ? ALL[(int) number] : NONE;
  }
}
