package org.ep4j.wire;

/** A lane failed while {@link WireWait} waited for what it carries. */
public final class LaneFailedException extends WireException {
  private static final long serialVersionUID = 1L;

  private final transient LaneFailure failure;

  /** A wait for {@code what} that ended with a lane. */
  public LaneFailedException(String what, LaneFailure failure) {
    super("waiting for " + what + ": " + failure);
    this.failure = failure;
  }

  /** The failure, which wires keep as a value. */
  public LaneFailure failure() {
    return failure;
  }
}
