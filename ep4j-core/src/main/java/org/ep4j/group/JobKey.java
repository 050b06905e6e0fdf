package org.ep4j.group;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A key that only the members of a group know, to prove membership on connections between ranks.
 * The key of a group comes from its secret by a derivation that is slow for secrets that could be
 * guessed; a key of its own for each job comes from that one. Immutable; any thread may use it.
 */
public final class JobKey {
  /** Length of a proof in bytes. */
  public static final int PROOF_BYTES = 32;

  private static final String ALGORITHM = "HmacSHA256";

  private final SecretKeySpec key;

  private JobKey(byte[] key) {
    this.key = new SecretKeySpec(key, ALGORITHM);
  }

  /**
   * The key of all jobs whose ranks share a secret; may take a second, once a process.
   *
   * @throws GroupException if the thread is interrupted meanwhile; the interrupt flag stays set
   */
  public static JobKey of(String secret) {
    return new JobKey(SecretDerivation.key(secret));
  }

  /** The key of one of these jobs. */
  public JobKey ofJob(String jobId) {
    return new JobKey(prove("ep4j job key 2", jobId.getBytes(StandardCharsets.US_ASCII)));
  }

  /** A key for ranks of one process. */
  public static JobKey random() {
    byte[] key = new byte[PROOF_BYTES];
    new SecureRandom().nextBytes(key);
    return new JobKey(key);
  }

  /**
   * Proves knowledge of the key.
   *
   * @param purpose use and author of the proof, so that a proof is valid for one use only
   * @param transcript the messages so far, with fresh random bytes of both sides, in parts of fixed
   *     lengths
   */
  public byte[] prove(String purpose, byte[]... transcript) {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(key);
      mac.update(purpose.getBytes(StandardCharsets.UTF_8));
      mac.update((byte) 0);
      for (byte[] part : transcript) {
        mac.update(part);
      }
      return mac.doFinal();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("this JDK lacks " + ALGORITHM, e);
    }
  }

  /** Whether a proof is correct; takes constant time. */
  public boolean accepts(byte[] proof, String purpose, byte[]... transcript) {
    return MessageDigest.isEqual(proof, prove(purpose, transcript));
  }

  /** Does not reveal the key. */
  @Override
  public String toString() {
    return "key of a job";
  }
}
