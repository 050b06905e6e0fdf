package org.ep4j.wire;

import org.ep4j.error.ErrorCode;

/** A lane failed while {@link WireWait} waited for its work. */
public final class LaneFailedException extends WireException {
  private static final long serialVersionUID = 1L;

  private final transient LaneFailure failure;

  /** A failure of the wait for {@code what}. */
  public LaneFailedException(String what, LaneFailure failure) {
    super(ErrorCode.LANE_FAILED, "waiting for " + what + ": " + failure);
    this.failure = failure;
  }

  /** The failure as a value. */
  public LaneFailure failure() {
    return failure;
  }
}
