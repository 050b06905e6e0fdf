package org.ep4j.concurrency;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import org.ep4j.engine.throughput.HandlePool;
import org.ep4j.engine.throughput.PooledHandle;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.I_Result;

/** Handles that threads close, and release, at the same time return to their pool, each once. */
@JCStressTest
@Outcome(id = "2", expect = ACCEPTABLE, desc = "both returned")
@Outcome(expect = FORBIDDEN, desc = "lost, or returned twice")
@State
public class HandleReturnsOnce {
  private static final int KEPT = 8;

  /** Closed handles that the pool leaves alone. */
  private static final int REST = 4;

  private int made;
  private final HandlePool<Handle> pool = new HandlePool<>(KEPT, this::make);
  private final Handle used = pool.take();
  private final Handle closed = pool.take();

  /** An operation uses one of the handles. The pool has the others that it leaves alone. */
  public HandleReturnsOnce() {
    used.acquire();
    for (int i = 0; i < REST; i++) {
      pool.take().close();
    }
  }

  private static final class Handle extends PooledHandle {
    Handle(HandlePool<?> pool) {
      super(pool);
    }

    @Override
    public void awaitCounts() {
      // There are none.
    }

    @Override
    public long neededRows() {
      return 0;
    }

    @Override
    public long receivedRows() {
      return 0;
    }
  }

  private Handle make(HandlePool<Handle> of) {
    made++;
    return new Handle(of);
  }

  /** The caller. */
  @Actor
  public void caller() {
    used.close();
    closed.close();
  }

  /** The thread of the operation, which closes the other handle too. */
  @Actor
  public void operation() {
    closed.close();
    used.release();
  }

  /** The next dispatches. */
  @Arbiter
  public void dispatches(I_Result reused) {
    int before = made;
    while (made == before && reused.r1 <= KEPT) {
      pool.take();
      reused.r1++;
    }
    reused.r1--;
  }
}
