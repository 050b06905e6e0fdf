package org.ep4j.observe;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** A call of {@link org.ep4j.ExpertBuffer#readmit()}. */
@Name("org.ep4j.Readmit")
@Label("Readmission of ranks")
@Description("readmit() on the live ranks, with ranks that rejoin")
public final class ReadmitEvent extends RecoveryEvent {
  /** An event that has not begun. */
  public ReadmitEvent() {}
}
