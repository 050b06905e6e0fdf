package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** A call of {@link org.ep4j.ExpertBuffer#reset()}. */
@Name("org.ep4j.Reset")
@Label("Reset of a buffer")
@Description("reset() on the live ranks")
public final class ResetEvent extends RecoveryEvent {
  /** An event that has not begun. */
  public ResetEvent() {}
}
