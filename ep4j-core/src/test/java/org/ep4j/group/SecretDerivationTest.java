package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Isolated;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * How a secret becomes a key, and which secrets could be guessed. Isolated: groups of other tests
 * have secrets that are warned of, too.
 */
@Isolated
class SecretDerivationTest {
  private static final Logger LOG = Logger.getLogger("org.ep4j.group");

  /** The expected keys come from hashlib and hmac of Python. */
  @Test
  void keysAreThoseOfPbkdf2ForWeakSecretsAndOfHkdfForStrongOnes() {
    assertThat(HexFormat.of().formatHex(SecretDerivation.key("hush-hush \u00e9")))
        .isEqualTo("daa301b807da1deda7207af523fa918d8611544746e1799b6190ef2a056bed54");
    assertThat(HexFormat.of().formatHex(SecretDerivation.key("5b3f0d6c8e1a4927b06d83f1c2e59a74")))
        .isEqualTo("d61e78d41b3bdb4ce4c40a67e3ff80c4a11b651f796a364166a54c2cc4945d12");
  }

  @Test
  void aWeakSecretIsWarnedOfOnce() {
    List<String> lines = new ArrayList<>();
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord message) {
            lines.add(message.getMessage());
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    LOG.addHandler(handler);
    try {
      JobKey weak = JobKey.of("four words that rhyme");
      JobKey again = JobKey.of("four words that rhyme");
      assertThat(lines).hasSize(1);
      assertThat(lines.getFirst()).contains("fewer than 128 bits").doesNotContain("rhyme");
      assertThat(weak.prove("p")).isEqualTo(again.prove("p"));
      JobKey.of(UUID.randomUUID().toString());
      assertThat(lines).hasSize(1);
    } finally {
      LOG.removeHandler(handler);
    }
  }

  @Test
  void anInterruptEndsTheWaitForAKeyAndNotItsDerivation() {
    String secret = "another one that people make up";
    Thread.currentThread().interrupt();
    GroupException error = catchThrowableOfType(GroupException.class, () -> JobKey.of(secret));
    assertThat(Thread.interrupted()).as("the flag stays set").isTrue();
    assertThat(error).isNotNull();
    assertThat(error.errorCode()).isEqualTo(ErrorCode.GROUP_INTERRUPTED);
    JobKey key = JobKey.of(secret);
    Thread.currentThread().interrupt();
    assertThat(JobKey.of(secret).prove("p")).isEqualTo(key.prove("p"));
    assertThat(Thread.interrupted()).isTrue();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "s",
        "secret",
        "correct horse battery staple and more",
        "MyCompanyCluster2026ProductionKey",
        "0123456789abcdef0123456789abcdef",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "2718281828459045235360287",
        "27182818284590452353602874713526",
        "5b3f0d6c8e1a4927b06d83f1c2e59a7"
      })
  void textsThatPeopleMakeUpAreWeak(String secret) {
    assertThat(SecretDerivation.isStrong(secret)).isFalse();
  }

  @Test
  void randomBytesAreStrong() {
    Random random = new Random(29);
    int strongOf16 = 0;
    int strongOf32 = 0;
    for (int i = 0; i < 1000; i++) {
      byte[] bytes = new byte[16];
      random.nextBytes(bytes);
      ByteBuffer words = ByteBuffer.wrap(bytes);
      assertThat(HexFormat.of().formatHex(bytes)).matches(SecretDerivation::isStrong);
      assertThat(new UUID(words.getLong(), words.getLong()).toString())
          .matches(SecretDerivation::isStrong);
      byte[] more = new byte[32];
      random.nextBytes(more);
      strongOf16 += SecretDerivation.isStrong(Base64.getEncoder().encodeToString(bytes)) ? 1 : 0;
      strongOf32 += SecretDerivation.isStrong(Base64.getEncoder().encodeToString(more)) ? 1 : 0;
    }
    // A random text can look like words, or lack digits; it then costs time and a warning.
    assertThat(strongOf16).isGreaterThan(950);
    assertThat(strongOf32).isGreaterThan(990);
  }
}
