package org.ep4j.verify;

import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/** An output differs from the result of the oracle. */
public final class VerificationException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private final Mismatch mismatch;

  /** A failure described by its difference. */
  public VerificationException(Mismatch mismatch) {
    super(ErrorCode.VERIFICATION_FAILED, mismatch.toString());
    this.mismatch = mismatch;
  }

  /** The first difference. */
  public Mismatch mismatch() {
    return mismatch;
  }
}
