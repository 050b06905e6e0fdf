package org.ep4j.group;

import java.lang.System.Logger;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import javax.crypto.KDF;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.HKDFParameterSpec;
import javax.crypto.spec.PBEKeySpec;
import org.ep4j.error.ErrorCode;

/**
 * Derives the key of a group from the text that its ranks share.
 *
 * <p>A recorded proof lets anyone try texts without asking the group. A text that looks as if 128
 * random bits were written down (16 bytes as hexadecimal digits or as Base64, a UUID) cannot be
 * found that way, and one HKDF-SHA256 makes its key. Any other text goes through PBKDF2-HMAC-SHA256
 * with {@value #ITERATIONS} iterations, so that each try is as slow, and a warning is logged. All
 * ranks decide alike, because they have the same text. Both use the salt {@value #SALT}: ranks know
 * no other common value before they trust each other.
 *
 * <p>Keys of the last few texts are kept, so a process pays once. A thread of its own derives each
 * key: callers wait for it, and an interrupt ends their wait at once, but not the derivation. Any
 * thread may call.
 */
final class SecretDerivation {
  static final int ITERATIONS = 600_000;
  static final String SALT = "ep4j group secret 1";
  static final int KEY_BYTES = 32;

  /** Hexadecimal digits, in groups or not; decimal digits alone have fewer bits. */
  private static final Pattern HEX = Pattern.compile("(?=.*[a-fA-F])[0-9a-fA-F-]*");

  /** At four bits a digit. A UUID has 122 random bits, and 6 that tell its version. */
  private static final int ENOUGH_HEX_DIGITS = 32;

  /** Base64 of 16 bytes, without padding. */
  private static final int ENOUGH_OF_BASE64 = 22;

  /** Words of a language have less than two bits a letter. */
  private static final int ENOUGH_OF_WORDS = 64;

  /** Texts with fewer kinds of characters are patterns that people type. */
  private static final int ENOUGH_KINDS = 8;

  private static final int KEPT = 4;
  private static final Logger LOG = System.getLogger("org.ep4j.group");

  /** By secret. Guarded by itself; the oldest entry is first. */
  private static final Map<String, FutureTask<byte[]>> DERIVATIONS = new LinkedHashMap<>();

  private SecretDerivation() {}

  /**
   * The key of a secret.
   *
   * @throws GroupException if the thread is interrupted before the key is there; the interrupt flag
   *     stays set
   */
  static byte[] key(String secret) {
    return await(derivation(secret)).clone();
  }

  private static FutureTask<byte[]> derivation(String secret) {
    synchronized (DERIVATIONS) {
      FutureTask<byte[]> known = DERIVATIONS.get(secret);
      if (known == null) {
        known = new FutureTask<>(() -> derive(secret));
        if (DERIVATIONS.size() == KEPT) {
          DERIVATIONS.remove(DERIVATIONS.keySet().iterator().next());
        }
        // Before others can wait for it: a thread that cannot start leaves nothing behind.
        Thread.ofPlatform().daemon().name("ep4j-secret").start(known);
        DERIVATIONS.put(secret, known);
      }
      return known;
    }
  }

  private static byte[] await(FutureTask<byte[]> derivation) {
    try {
      return derivation.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(
          ErrorCode.GROUP_INTERRUPTED,
          "interrupted while the key of the group was derived from its secret",
          e);
    } catch (ExecutionException e) {
      throw new IllegalStateException(
          "no key can be derived from the secret of the group: " + e.getCause(), e.getCause());
    }
  }

  private static byte[] derive(String secret) {
    byte[] salt = SALT.getBytes(StandardCharsets.US_ASCII);
    try {
      if (isStrong(secret)) {
        return KDF.getInstance("HKDF-SHA256")
            .deriveData(
                HKDFParameterSpec.ofExtract()
                    .addIKM(secret.getBytes(StandardCharsets.UTF_8))
                    .addSalt(salt)
                    .thenExpand(new byte[0], KEY_BYTES));
      }
      LOG.log(
          Logger.Level.WARNING,
          "ep4j: the secret of this group may have fewer than 128 bits: an eavesdropper could find"
              + " it by trying. Use 16 random bytes, for example of 'openssl rand -hex 16'");
      return SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256")
          .generateSecret(new PBEKeySpec(secret.toCharArray(), salt, ITERATIONS, 8 * KEY_BYTES))
          .getEncoded();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("this JDK cannot derive keys: " + e.getMessage(), e);
    }
  }

  /**
   * Whether a text looks as if at least 128 random bits were written down. No test of one text can
   * tell that it is random; this one is strict with texts that people make up.
   */
  static boolean isStrong(String secret) {
    String text = period(secret);
    if (text.chars().distinct().count() < ENOUGH_KINDS) {
      return false;
    }
    if (HEX.matcher(text).matches()) {
      return text.replace("-", "").length() >= ENOUGH_HEX_DIGITS;
    }
    return text.length() >= (looksLikeBase64(text) ? ENOUGH_OF_BASE64 : ENOUGH_OF_WORDS);
  }

  /**
   * Base64 of random bytes changes between upper case, lower case and digits in about two of three
   * places; ThisTextDoesNot2026.
   */
  private static boolean looksLikeBase64(String text) {
    long changes =
        IntStream.range(1, text.length())
            .filter(i -> caseOf(text.charAt(i - 1)) != caseOf(text.charAt(i)))
            .count();
    boolean all = text.chars().map(SecretDerivation::caseOf).distinct().count() >= 3;
    return all && 3 * changes > text.length();
  }

  private static int caseOf(int character) {
    if (character >= '0' && character <= '9') {
      return 0;
    }
    return character == Character.toLowerCase(character) ? 1 : 2;
  }

  /** The shortest text whose repetition is the given one. */
  private static String period(String text) {
    int length = text.isEmpty() ? 0 : (text + text).indexOf(text, 1);
    return text.substring(0, length);
  }

  /**
   * A text for {@link #key} that is made of public values: it tells jobs apart and is no secret.
   */
  static String ofPublicText(String text) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(digest);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("this JDK lacks SHA-256", e);
    }
  }
}
