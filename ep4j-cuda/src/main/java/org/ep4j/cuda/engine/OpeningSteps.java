package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.function.Supplier;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.StepFailure;
import org.ep4j.memory.Participants;

/**
 * The steps that each rank does by itself while a buffer is opened. No rank continues before all
 * have done a step, so all receive the failure of one rank, with its purpose: the others would
 * otherwise wait for that rank until their deadline.
 */
final class OpeningSteps {
  private final Participants participants;
  private final Duration timeout;

  /** A rank that rejoins: the ranks that have the buffer are not in its steps. */
  private final boolean alone;

  OpeningSteps(Participants participants, Duration timeout) {
    this.participants = participants;
    this.timeout = timeout;
    alone = participants.isNew(participants.rank());
  }

  /**
   * Does a step; collective.
   *
   * @param what what the step prepares, for the message if it fails
   */
  <T> T together(String what, Supplier<T> step) {
    return alone
        ? StepFailure.explained(participants.rank(), what, step)
        : BackendWorld.together(participants, timeout, what, step);
  }
}
