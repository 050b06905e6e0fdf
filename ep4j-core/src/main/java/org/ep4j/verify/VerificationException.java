package org.ep4j.verify;

import org.ep4j.Ep4jException;

/** An output differs from what the oracle computed. */
public final class VerificationException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private final Blame blame;

  /** The difference as message. */
  public VerificationException(Blame blame) {
    super(blame.toString());
    this.blame = blame;
  }

  /** The first difference. */
  public Blame blame() {
    return blame;
  }
}
