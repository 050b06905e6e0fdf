package org.ep4j.engine.host;

import static org.openjdk.jcstress.annotations.Expect.ACCEPTABLE;
import static org.openjdk.jcstress.annotations.Expect.FORBIDDEN;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/**
 * A ring of one place: the caller gives a unit, helps with it if nobody has taken it, and gives
 * another one into the same place. A worker looks once. In the package of the ring, whose own code
 * this is about.
 */
@JCStressTest
@Outcome(id = "1, 0", expect = ACCEPTABLE, desc = "the worker came too early, or between the two")
@Outcome(id = "0, 1", expect = ACCEPTABLE, desc = "the worker has the first")
@Outcome(id = "1, 2", expect = ACCEPTABLE, desc = "each has one")
@Outcome(expect = FORBIDDEN, desc = "a unit twice, or one that was not filled in")
@State
public class UnitsAreTakenOnce {
  private final UnitRing ring = new UnitRing(1);

  private static final class Numbered extends WorkQueue.Unit {
    int number;

    @Override
    void run(int worker) {}
  }

  /** Who gives, and helps. */
  @Actor
  public void caller(II_Result taken) {
    give(1);
    taken.r1 = take();
    give(2);
  }

  /** Who takes. */
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
