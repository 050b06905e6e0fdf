package org.ep4j.cuda.jit;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * A kernel, its macros and its architecture.
 *
 * @param sources text of the kernel
 * @param defines values of macros by name
 * @param architecture {@code sm_90a}
 */
public record KernelSpec(
    KernelSources sources, SortedMap<String, String> defines, String architecture) {
  private static final Pattern ARCHITECTURE = Pattern.compile("sm_[0-9]{2,3}[af]?");

  /** The form of {@link #architecture}, for messages. */
  public static final String ARCHITECTURES = "like sm_90a or sm_80";

  private static final Pattern MACRO = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");
  private static final String STANDARD = "--std=c++17";

  /** Prefix of the option for the architecture. */
  static final String ARCHITECTURE_OPTION = "-arch=";

  /** Characters of a hash in file names: 160 bits. */
  private static final int NAME_CHARACTERS = 40;

  /** Copies the defines. */
  public KernelSpec {
    defines = Collections.unmodifiableSortedMap(new TreeMap<>(defines));
    if (!isArchitecture(architecture)) {
      throw new InvalidArgumentException(
          ErrorCode.KERNEL_SPEC,
          "architecture",
          "'" + architecture + "'",
          ARCHITECTURES,
          "use CudaDevice.architecture() of the device");
    }
    for (String name : defines.keySet()) {
      if (!MACRO.matcher(name).matches()) {
        throw new InvalidArgumentException(
            ErrorCode.KERNEL_SPEC,
            "defines",
            "'" + name + "'",
            "names of macros",
            "use letters, digits and _");
      }
    }
  }

  /** Whether a text has the form of an architecture. */
  public static boolean isArchitecture(String text) {
    return ARCHITECTURE.matcher(text).matches();
  }

  /**
   * A kernel of this jar.
   *
   * @param entry for example {@code smoke.cu}
   */
  public static KernelSpec of(String entry, Map<String, String> defines, String architecture) {
    return new KernelSpec(KernelSources.of(entry), new TreeMap<>(defines), architecture);
  }

  /** Options of every compiler: language, architecture, macros. */
  public List<String> options() {
    List<String> options = new ArrayList<>();
    options.add(STANDARD);
    options.add(ARCHITECTURE_OPTION + architecture);
    defines.forEach((name, value) -> options.add("-D" + name + "=" + value));
    return options;
  }

  /** The architecture as a number: 90. */
  int architectureNumber() {
    return Integer.parseInt(architecture.replaceAll("[^0-9]", ""));
  }

  /** Hash of all text and all options: equal specs have equal hashes. */
  public String fingerprint() {
    List<String> parts = new ArrayList<>();
    sources
        .files()
        .forEach(
            (name, text) -> {
              parts.add(name);
              parts.add(text);
            });
    parts.add(sources.entry());
    parts.addAll(options());
    return hash(parts).substring(0, NAME_CHARACTERS);
  }

  /** Everything that a cubin depends on, as a file name. */
  public String key(String compiler) {
    return fingerprint() + "-" + compiler;
  }

  /** One-line description for display. */
  public String description() {
    return sources.entry() + " " + architecture + (defines.isEmpty() ? "" : " " + defines);
  }

  /**
   * SHA-256 of {@code parts}, in hexadecimal digits. The length precedes each part, so that moving
   * text between neighbours changes the hash.
   */
  static String hash(List<String> parts) {
    MessageDigest digest = sha256();
    for (String part : parts) {
      byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
      digest.update((bytes.length + ":").getBytes(StandardCharsets.US_ASCII));
      digest.update(bytes);
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every JDK has SHA-256", e);
    }
  }
}
