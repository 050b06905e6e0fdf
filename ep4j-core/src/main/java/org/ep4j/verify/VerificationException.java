package org.ep4j.verify;

import org.ep4j.Ep4jException;

/** An output differs from what the oracle computed. */
public final class VerificationException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private final Mismatch mismatch;

  /** The difference as message. */
  public VerificationException(Mismatch mismatch) {
    super(mismatch.toString());
    this.mismatch = mismatch;
  }

  /** The first difference. */
  public Mismatch mismatch() {
    return mismatch;
  }
}
