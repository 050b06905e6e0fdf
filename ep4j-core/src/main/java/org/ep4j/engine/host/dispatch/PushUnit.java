package org.ep4j.engine.host.dispatch;

import org.ep4j.engine.host.exec.WorkQueue;

/** Rows of consecutive tokens that one worker pushes. */
final class PushUnit extends WorkQueue.Unit {
  private final RowPush push;
  private int from;
  private int to;

  PushUnit(RowPush push) {
    this.push = push;
  }

  /** Sets the tokens; {@link RowPush} is prepared for them. */
  void set(int first, int last) {
    from = first;
    to = last;
  }

  @Override
  public void run(int worker) {
    push.rows(from, to, worker);
  }
}
