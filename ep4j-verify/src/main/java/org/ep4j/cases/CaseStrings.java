package org.ep4j.cases;

import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Metadata strings that describe a case: the names of each parameter in files, and the values that
 * they may have. Upper and lower case mean the same.
 */
public final class CaseStrings {
  static final String KIND = "kind";
  static final String ORDER = "order";

  static final List<String> HIDDEN = List.of("hidden");
  static final List<String> TOP_K = List.of("topk", "num_topk");
  static final List<String> RANKS = List.of("ranks", "num_ranks", "world_size");
  static final List<String> EXPERTS = List.of("experts", "num_experts");
  static final List<String> EXPERT_ALIGNMENT = List.of("expert_alignment");
  static final List<String> MAX_TOKENS = List.of("max_tokens", "num_max_dispatch_tokens_per_rank");

  static final List<String> FP8 = List.of("use_fp8", "fp8");
  static final List<String> NVFP4 = List.of("use_nvfp4", "nvfp4");
  static final List<String> UE8M0 = List.of("use_ue8m0", "ue8m0");
  static final List<String> ROUND_SCALE = List.of("round_scale");
  static final List<String> LOGFMT = List.of("use_logfmt", "logfmt");

  private static final Set<String> NUMBERS =
      names(List.of(HIDDEN, TOP_K, RANKS, EXPERTS, EXPERT_ALIGNMENT, MAX_TOKENS));
  private static final Set<String> FLAGS = names(List.of(FP8, NVFP4, UE8M0, ROUND_SCALE, LOGFMT));

  private CaseStrings() {}

  private static Set<String> names(List<List<String>> parameters) {
    return parameters.stream().flatMap(List::stream).collect(Collectors.toUnmodifiableSet());
  }

  /**
   * What the value of a string must be, for a message; empty if it is that, or if the key belongs
   * to no parameter. Files may have strings of their own.
   */
  public static String limit(String key, String value) {
    String word = word(value);
    if (key.equals(KIND)) {
      return lowLatency(word) == null ? "'ht' or 'll'" : "";
    }
    if (key.equals(ORDER)) {
      return byExperts(word) == null ? "'rank' or 'expert'" : "";
    }
    if (NUMBERS.contains(key)) {
      return number(word) == null ? "a natural number" : "";
    }
    return FLAGS.contains(key) && flag(word) == null ? "true or false" : "";
  }

  /** The value in the form that the methods below read. */
  static String word(String value) {
    return value.strip().toLowerCase(Locale.ROOT);
  }

  /** Whether this kind is low latency; null for an unknown kind. */
  static @Nullable Boolean lowLatency(String word) {
    return switch (word) {
      case "ll", "low_latency" -> true;
      case "ht", "high_throughput", "normal" -> false;
      default -> null;
    };
  }

  /** Whether this order of sums is that of experts; null for an unknown order. */
  static @Nullable Boolean byExperts(String word) {
    return switch (word) {
      case "expert" -> true;
      case "rank" -> false;
      default -> null;
    };
  }

  /** A flag; null if the word is none. */
  static @Nullable Boolean flag(String word) {
    return switch (word) {
      case "true", "1", "yes", "on" -> true;
      case "false", "0", "no", "off", "none", "" -> false;
      default -> null;
    };
  }

  /** A natural number; null if the word is none, or one that no int holds. */
  static @Nullable Integer number(String word) {
    try {
      int number = Integer.parseInt(word);
      return number >= 0 ? number : null;
    } catch (NumberFormatException e) {
      return null;
    }
  }
}
