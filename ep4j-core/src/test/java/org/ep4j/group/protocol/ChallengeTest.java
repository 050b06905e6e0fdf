package org.ep4j.group.protocol;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.ep4j.group.JobKey;
import org.junit.jupiter.api.Test;

class ChallengeTest {
  private static final List<JobKey> KEYS = List.of(JobKey.random(), JobKey.random());

  private final byte[] client = Challenge.nonce();
  private final byte[] host = Challenge.nonce();

  @Test
  void aProofHoldsForOneSecretOnePurposeOneRoleAndOnePairOfNoncesOnly() {
    Set<String> proofs = new HashSet<>();
    int combinations = 0;
    for (JobKey key : KEYS) {
      for (Frames.Purpose purpose : Frames.Purpose.values()) {
        for (Challenge.Role role : Challenge.Role.values()) {
          for (byte[][] nonces :
              new byte[][][] {{client, host}, {host, client}, {client, client}, {host, host}}) {
            byte[] proof = Challenge.proof(key, purpose, role, nonces[0], nonces[1]);
            assertThat(proof).hasSize(Challenge.PROOF_BYTES);
            proofs.add(HexFormat.of().formatHex(proof));
            combinations++;
          }
        }
      }
    }
    assertThat(proofs).hasSize(combinations);
  }

  @Test
  void bothSidesComputeTheSameProof() {
    byte[] one =
        Challenge.proof(KEYS.getFirst(), Frames.Purpose.PEER, Challenge.Role.HOST, client, host);
    byte[] other =
        Challenge.proof(
            KEYS.getFirst(),
            Frames.Purpose.PEER,
            Challenge.Role.HOST,
            client.clone(),
            host.clone());
    assertThat(Challenge.same(one, other)).isTrue();
    other[31] ^= 1;
    assertThat(Challenge.same(one, other)).isFalse();
    assertThat(Challenge.same(one, Arrays.copyOf(one, 31))).isFalse();
  }

  @Test
  void noncesAreFresh() {
    assertThat(Challenge.nonce()).isNotEqualTo(Challenge.nonce()).hasSize(32);
  }
}
