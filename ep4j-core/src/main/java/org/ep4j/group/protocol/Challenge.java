package org.ep4j.group.protocol;

import java.security.MessageDigest;
import java.security.SecureRandom;
import org.ep4j.group.JobKey;

/**
 * Mutual proof that both ends of a connection know the secret of the job, without sending it.
 *
 * <p>Each side sends a fresh random nonce and proves itself by an HMAC-SHA256 under the key of the
 * secret over both nonces, the purpose of the port and its own role. Fresh nonces prevent replay of
 * a recorded proof. The role prevents reflection of a proof to its author. The purpose prevents use
 * of a proof at another kind of port. The client proves itself first, so an unauthenticated client
 * receives only a nonce. The traffic that follows is neither encrypted nor signed: the challenge
 * keeps other clients and other jobs out, but hides nothing from an attacker that controls the
 * network.
 */
public final class Challenge {
  public static final int NONCE_BYTES = 32;
  public static final int PROOF_BYTES = JobKey.PROOF_BYTES;

  /** The two ends of a connection. */
  enum Role {
    GUEST,
    HOST
  }

  private static final SecureRandom RANDOM = new SecureRandom();

  private Challenge() {}

  public static byte[] nonce() {
    byte[] nonce = new byte[NONCE_BYTES];
    RANDOM.nextBytes(nonce);
    return nonce;
  }

  static byte[] proof(
      JobKey key, Frames.Purpose purpose, Role role, byte[] clientNonce, byte[] hostNonce) {
    return key.prove("ep4j group 2, " + purpose + ", " + role, clientNonce, hostNonce);
  }

  /** Compares in constant time. */
  static boolean same(byte[] proof, byte[] other) {
    return MessageDigest.isEqual(proof, other);
  }
}
