package org.ep4j.engine.host.exec;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/**
 * A ring of one entry: the caller submits a unit, runs it if no worker has taken it, and submits
 * another one in the same entry. A worker looks once. In the package of the ring, because the test
 * uses the ring itself.
 */
@JCStressTest
@Outcome(id = "1, 0", expect = ACCEPTABLE, desc = "the worker looked too early, or between the two")
@Outcome(id = "0, 1", expect = ACCEPTABLE, desc = "the worker has the first")
@Outcome(id = "1, 2", expect = ACCEPTABLE, desc = "each has one")
@Outcome(expect = FORBIDDEN, desc = "a unit twice, or an empty one")
@State
public class UnitsAreTakenOnce {
  private final UnitRing ring = new UnitRing(1);

  private static final class Numbered extends WorkQueue.Unit {
    int number;

    @Override
    public void run(int worker) {}
  }

  /** The thread that submits, and helps. */
  @Actor
  public void caller(II_Result taken) {
    give(1);
    taken.r1 = take();
    give(2);
  }

  /** The thread that takes. */
  @Actor
  public void worker(II_Result taken) {
    taken.r2 = take();
  }

  private void give(int number) {
    Numbered unit = new Numbered();
    unit.number = number;
    ring.give(unit);
  }

  private int take() {
    return ring.take() instanceof Numbered unit ? unit.number : 0;
  }
}
