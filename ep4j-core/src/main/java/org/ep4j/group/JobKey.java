package org.ep4j.group;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * What the members of one job know and nobody else: to prove membership on connections that ranks
 * make among themselves. It is derived from the secret of the group, which stays in the group, and
 * differs from job to job. Immutable; any thread may use it.
 */
public final class JobKey {
  /** Length of a proof. */
  public static final int PROOF_BYTES = 32;

  private static final String ALGORITHM = "HmacSHA256";

  private final SecretKeySpec key;

  private JobKey(byte[] key) {
    this.key = new SecretKeySpec(key, ALGORITHM);
  }

  /** The key of a job whose ranks share a secret. */
  static JobKey of(String secret, String jobId) {
    JobKey root = new JobKey(secret.getBytes(StandardCharsets.UTF_8));
    return new JobKey(root.prove("ep4j job key 1", jobId.getBytes(StandardCharsets.US_ASCII)));
  }

  /** A key for ranks that hand it to each other inside one process. */
  static JobKey random() {
    byte[] key = new byte[PROOF_BYTES];
    new SecureRandom().nextBytes(key);
    return new JobKey(key);
  }

  /**
   * Proves that its author knows the key.
   *
   * @param purpose what the proof is for and who gives it, so that none serves for another
   * @param transcript what was said so far, fresh random bytes of both sides included, in parts of
   *     fixed lengths
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

  /** Whether a proof is right; takes a time that does not depend on where it is wrong. */
  public boolean accepts(byte[] proof, String purpose, byte[]... transcript) {
    return MessageDigest.isEqual(proof, prove(purpose, transcript));
  }

  /** Nothing of the key. */
  @Override
  public String toString() {
    return "key of a job";
  }
}
